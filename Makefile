# Targets for building and testing. The checks of CI are in .ci/run, and the
# targets call it.

GO ?= go
FUZZTIME ?= 20s
CHAOSTIME ?= 61s
DURATION ?= 1h
SUITE ?= storm
RACE ?= -race
COMMIT ?= f4cc425
SEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help site recording test test-all everything tidy race soak vet fmt lint demo fleet fleet-acceptance shells adapters packaging release real pages browser conformance chaos simulation mutants bench bench-check bench-against fuzz doctor-servers ci

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## all tests of the library; needs only Go
	$(GO) test ./...

test-all: ## all tests of all modules: also of the program, telemetry, adapters, bench, browser
	$(GO) test work
	@.ci/run adapters

everything: ## tables, storms and floods in full size of which go test ./... plays a part
	@.ci/run everything

tidy: ## go mod tidy in every module; CI runs .ci/tidy -diff
	@.ci/tidy

race: ## all tests under the race detector
	@.ci/run race

soak: ## lifecycle, actors and facade 20 times under the race detector
	$(GO) test -race -count=20 -timeout 30m ./internal/lifecycle ./actors ./facade

vet: ## the types for Windows and macOS; go vet of what lint leaves out
	@.ci/run vet

fmt: ## fail if a file is not formatted
	@.ci/run fmt

lint: ## golangci-lint, at a pinned version built into bin/
	@.ci/run lint

shells: ## completion in real shells; needs bash, zsh, fish and tmux
	@.ci/run shells

fleet: ## 10,000 fleets in simulated time, and fleets of processes, stores and nodes with etcd of Debian
	@.ci/run fleet

fleet-acceptance: ## the acceptance lines of docs/fleet.md in full size, about an hour; ARGS="-fleet.strict -run TestKill"
	@.ci/etcd
	$(GO) test -count=1 -timeout 0 -v ./fleet/fleettest -fleet.full $(ARGS)

demo: ## the demo, which checks what it prints
	$(GO) run ./cmd/demo

site: ## the docs as a static site in bin/site: open bin/site/index.html
	@.ci/run site

recording: ## the picture of the demo in the README, by a run of it
	$(GO) run ./cmd/demo | (cd docs/site && GOWORK=off $(GO) run ./record) > bin/demo.svg && mv bin/demo.svg docs/images/demo.svg

adapters: ## the adapters with the real frameworks, in modules of their own
	@.ci/run adapters

real: ## tests against real servers from npm; needs node
	@.ci/run real

pages: ## type all lines of README, quickstart, http-api, gateway and tasks, with servers from npm
	test/real/run -run TestPages_typed -v

doctor-servers: ## what mcpvisor doctor says about 90 servers from npm, about 5 minutes: compared with test/real/doctor/servers.tsv
	test/real/doctor/run.mjs

packaging: ## the program, a package of it, its image, and the unit of systemd
	@.ci/run packaging

release: ## what a release consists of: go install from a proxy, and what goreleaser makes
	@.ci/run release

browser: ## the page for operators in a real browser; needs chromium-headless-shell and npm
	@.ci/run browser

conformance: ## the official conformance suite, from npm; needs node
	@.ci/run conformance

chaos: ## random faults, then a check of every call: CHAOSTIME=30m SEED=0 (0: random) RACE=
	$(GO) test $(RACE) -count=1 -timeout 0 -v ./test/integration -run Storm -chaos.duration=$(CHAOSTIME) -chaos.seed=$(SEED) | \
		grep -v -e '^ *--- PASS: .*round' -e '^=== '

simulation: ## new random schedules of the whole stack in virtual time: DURATION=1h
	$(GO) test -count=1 -timeout 0 -v ./test/simulation -simulation.duration $(DURATION) | grep -v -e '^=== ' -e '--- PASS: TestSimulation/'

mutants: ## bugs planted in a copy of the tree, each of which the storm (SUITE=simulation: the simulation) must find: MUTANT=name
	test/mutants $(SUITE) $(MUTANT)

bench: ## benchmarks beside peers, about 15 minutes; BENCH="-only echo,http -rounds 5"
	mkdir -p bin && cd bench && GOWORK=off $(GO) build -o ../bin/ . ./fastserver && ../bin/bench $(BENCH)

bench-check: ## fail if a call costs more CPU or allocations than bench/baseline.json says
	@.ci/run bench

bench-against: ## the CPU time of a call beside that of a build of COMMIT=f4cc425; fail if it is a tenth more
	cd bench && GOWORK=off $(GO) build -o ../bin/ . ./fastserver && ../bin/bench -against $(COMMIT)

fuzz: ## all fuzz targets, each for FUZZTIME=20s
	@set -e; for file in $$(grep -rlE '^func Fuzz' --include='*_test.go' --exclude-dir=bench .); do \
		for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' $$file); do \
			echo "$$(dirname $$file) $$name"; \
			$(GO) test $$(dirname $$file) -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME); \
		done; \
	done

ci: ## all checks that a change must pass
	@.ci/run
