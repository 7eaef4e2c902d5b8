# The ways in which this repository is built and tested. CI runs .ci/run, which
# calls these. GO and SEED may be set from outside.

GO ?= go
GOLANGCI_VERSION := v2.15.0
GOLANGCI := bin/golangci-lint-$(GOLANGCI_VERSION)
FUZZTIME ?= 20s
CHAOSTIME ?= 60s
SEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help test race soak vet fmt lint demo real chaos fuzz ci

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## every test; needs nothing but Go
	$(GO) test ./...

race: ## every test under the race detector
	$(GO) test -race -timeout 10m ./...

soak: ## the supervised core 20 times over under the race detector
	$(GO) test -race -count=20 -timeout 10m ./supervisor ./actors ./facade

vet: ## vet for Linux, Windows and macOS
	GOOS=linux $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	GOOS=darwin $(GO) vet ./...

fmt: ## fail if a file is not formatted
	@test -z "$$(gofmt -l .)" || { echo "gofmt: these files are not formatted; run gofmt -w on them:"; gofmt -l .; exit 1; }

lint: $(GOLANGCI) ## golangci-lint, at a pinned version kept in bin/
	$(GOLANGCI) run

# Installed through the module proxy, so that a machine with Go is enough. A
# new version gets a new name, and so is built.
$(GOLANGCI):
	mkdir -p bin
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv bin/golangci-lint $@

demo: ## the story of crashing servers, with a checked verdict
	$(GO) run ./cmd/demo

real: ## real servers and the conformance suite from npm; needs node
	@if [ -x test/real/run ]; then test/real/run; else echo "real: test/real/run is not here; nothing to do"; fi

chaos: ## long storms of kill -9 (CHAOSTIME, SEED)
	$(GO) test -race -count=1 -timeout 30m ./test/integration -chaos.duration=$(CHAOSTIME) -chaos.seed=$(SEED)

fuzz: ## each fuzz target for FUZZTIME
	@set -e; for file in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
		for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' $$file); do \
			echo "$$(dirname $$file) $$name"; \
			$(GO) test $$(dirname $$file) -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME); \
		done; \
	done

ci: ## everything that must hold before a change lands
	.ci/run
