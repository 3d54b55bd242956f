module github.com/comporta/comporta

go 1.26

require (
	github.com/go-jose/go-jose/v4 v4.1.9 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	pgregory.net/rapid v1.2.0 // indirect
)
