# The ways in which this repository is built and tested. What CI checks is
# written down once, in .ci/run, and called from here.

GO ?= go
FUZZTIME ?= 20s
CHAOSTIME ?= 61s
RACE ?= -race
SEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help test race soak vet fmt lint demo real conformance chaos bench fuzz ci

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## every test; needs nothing but Go
	$(GO) test ./...

race: ## every test under the race detector
	@.ci/run race

soak: ## the supervised core 20 times over under the race detector
	$(GO) test -race -count=20 -timeout 30m ./supervisor ./actors ./facade

vet: ## go vet for Linux, Windows and macOS
	@.ci/run vet

fmt: ## fail if a file is not formatted
	@.ci/run fmt

lint: ## golangci-lint, at a pinned version built into bin/
	@.ci/run lint

demo: ## the story of crashing servers, with a checked verdict
	$(GO) run ./cmd/demo

real: ## real servers from npm; needs node
	@.ci/run real

conformance: ## the official conformance suite, from npm; needs node
	@.ci/run conformance

chaos: ## a storm of faults, and its account: CHAOSTIME=30m SEED=0 (0: a new one) RACE=
	$(GO) test $(RACE) -count=1 -timeout 0 -v ./test/integration -run Storm -chaos.duration=$(CHAOSTIME) -chaos.seed=$(SEED) | \
		grep -v -e '^ *--- PASS: .*gust' -e '^=== '

bench: ## side by side with peers, about ten minutes; BENCH="-only echo,http -rounds 5"
	cd bench && $(GO) build -o ../bin/bench . && ../bin/bench $(BENCH)

fuzz: ## every fuzz target, each for FUZZTIME=20s
	@set -e; for file in $$(grep -rlE '^func Fuzz' --include='*_test.go' --exclude-dir=bench .); do \
		for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' $$file); do \
			echo "$$(dirname $$file) $$name"; \
			$(GO) test $$(dirname $$file) -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME); \
		done; \
	done

ci: ## everything that must hold before a change lands
	@.ci/run
