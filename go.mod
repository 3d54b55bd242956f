module github.com/comporta/comporta

go 1.26
