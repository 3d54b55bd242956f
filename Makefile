# The targets that people and continuous integration use. `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

GO       ?= go
FUZZTIME ?= 10s
# Arguments for `make demo`, as in: make demo ARGS='-duration 20s -json'
ARGS     ?=
ADDR     ?=
SERVICE  ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## the incident, bare and protected, on loopback (about a minute; needs only Go)
	$(GO) run ./cmd/comporta demo $(ARGS)

.PHONY: test
test: ## everything: check, ports, unit, norace, examples, integration, conformance, vuln
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory ports
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory norace
	@$(MAKE) --no-print-directory examples
	@$(MAKE) --no-print-directory integration
	@$(MAKE) --no-print-directory conformance
	@$(MAKE) --no-print-directory vuln
	@echo "make test: all passed"

.PHONY: check
check: bin/golangci-lint ## go vet and golangci-lint
	$(GO) vet ./...
	$(GO) vet -tags integration ./test/... ./gate/ratelimit/redislimit ./store/...
	bin/golangci-lint run ./...

# One where an int has 32 bits, one that is no Unix.
.PHONY: ports
ports: ## everything builds for other systems too
	GOOS=linux GOARCH=386 CGO_ENABLED=0 $(GO) build ./...
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 $(GO) build ./...

.PHONY: unit
unit: ## unit tests with the race detector
	test/services programs
	$(GO) test -race -timeout 10m ./...

# The race detector allocates and is slow: the tests that count allocations skip
# themselves under it, and the floods are shorter.
.PHONY: norace
norace: ## allocations counted, and the floods at full size, without the race detector
	$(GO) test -run 'Alloc|Flood' ./... | { grep -v 'no test' || true; }

.PHONY: examples
examples: ## the examples of the documentation, run and compared
	$(GO) test -run '^Example' ./... | { grep -v 'no test files' || true; }
	@if [[ -d examples ]]; then $(GO) vet ./examples/...; fi

.PHONY: integration
integration: ## the built binary against real services (installs them with apt as root if missing)
	test/services run $(GO) test -count=1 -timeout 10m -tags integration ./test/... ./gate/ratelimit/redislimit ./store/...

# A module of its own, so that the suites stay out of the graph of users.
.PHONY: conformance
conformance: ## the built binary against the suites of others, and under floods (about a minute)
	cd conformance && $(GO) vet ./... && $(GO) test -count=1 -timeout 5m ./...

.PHONY: vuln
vuln: bin/govulncheck ## known vulnerabilities, where their database can be reached
	tools/vulncheck bin/govulncheck ./...

# Where the proxy forwards to SERVICE, what arrives there is judged too.
.PHONY: framing
framing: ## the framing corpus against any proxy: make framing ADDR=host:port [SERVICE=host:port]
	$(GO) run ./test/framing/cmd -addr '$(ADDR)' -service '$(SERVICE)' $(ARGS)

.PHONY: bench-decision
bench-decision: ## the decision's cost against its targets, and against like libraries
	cd bench && $(GO) run ./decision $(ARGS)

.PHONY: bench-client
bench-client: ## calls that reach a service that is down, and a success's cost, against like clients
	cd bench && $(GO) run ./client $(ARGS)

.PHONY: bench-proxy
bench-proxy: ## what a request through the gateway costs against other proxies (about four minutes)
	test/services bench
	cd bench && $(GO) run ./proxy $(ARGS)

.PHONY: bench-ratelimit
bench-ratelimit: ## a rate limit's decision, here and through Redis, against like libraries; accuracy of six nodes
	cd bench && $(GO) run ./ratelimit $(ARGS)

.PHONY: bench-store
bench-store: ## a keyed request's work on each engine of the store
	cd bench && ../test/services run $(GO) run ./store $(ARGS)

.PHONY: sim-cases
sim-cases: ## the long cases of the simulator (some minutes)
	$(GO) test -tags simcases -timeout 30m -run 'TestCase|TestPeers' ./storm/sim

.PHONY: validate-sim
validate-sim: ## the simulator against the real gateway on loopback (a minute; on an idle machine)
	$(GO) test -tags validate -timeout 5m -count=1 -run TestEngineAgainstTheWorld -v ./storm/sim

.PHONY: golden
golden: ## rewrite the golden files and show what changed
	$(GO) test $$(grep -rl --include='*_test.go' '"update"' . | xargs -n 1 dirname | sort -u) -update
	git diff --stat -- '*testdata*'

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s) each
	@$(GO) list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r package dir; do \
	  for target in $$(grep -hos '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go | sed 's/^func //'); do \
	    echo "$$package $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "$$package"; \
	  done; \
	done

.PHONY: docs-charts
docs-charts: ## the charts of docs/guide/retry-storms.md, from the simulator
	$(GO) run ./cmd/comporta simulate incident -seeds 1 -compare none,limit,article,ours -out bin/charts/incident > bin/charts.txt
	$(GO) run ./cmd/comporta simulate incident -seeds 1 -set obey=1 -set length=90m -compare limit,article,ours -out bin/charts/obedience >> bin/charts.txt
	for chart in incident obedience; do cp "bin/charts/$$chart/report.svg" "docs/guide/charts/$$chart.svg"; done

.PHONY: docs
docs: ## the documentation of every package, as text in bin/docs
	@mkdir -p bin/docs
	@$(GO) list ./... | while read -r package; do \
	  name=$${package#github.com/comporta/comporta}; name=$${name#/}; name=$${name:-comporta}; \
	  $(GO) doc -all "$$package" > "bin/docs/$${name//\//_}.txt"; \
	done
	@echo "written to bin/docs"

# The developer's tools have a module of their own, so that their hundreds of
# requirements stay out of the module that users import.
bin/golangci-lint: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../bin/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

bin/govulncheck: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../bin/ golang.org/x/vuln/cmd/govulncheck
	@touch $@
