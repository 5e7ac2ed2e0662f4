# A thin front: each target is a line or two that you could type yourself. `make help` lists them.

PREFIX ?= /usr/local
ARGS   ?=
SEEDS  ?= 100000
FIRST  ?= 1
ROUNDS ?= 1000

.PHONY: build help deps run test test-sanitize test-quorum sim check bench install clean

build: ## build the libraries and examples into build/release
	@scripts/deps build
	@scripts/build release

help: ## say this
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

deps: ## install what all of these need (Debian, Ubuntu)
	@scripts/deps

run: build ## several processes want one lock: examples/contend; ARGS="-S URL" for another store
	@examples/contend $(ARGS)

test: ## build with warnings as errors and run every test
	@scripts/deps build test
	@scripts/build dev
	@ctest --preset dev

test-sanitize: ## the tests again, under the sanitizers
	@scripts/deps build test
	@scripts/build asan
	@ctest --preset asan
	@scripts/build tsan
	@scripts/fixed-addresses ctest --preset tsan

test-quorum: ## a crowd on a quorum whose nodes are killed and stopped: ROUNDS (1000) acquisitions
	@scripts/deps build test
	@scripts/build dev
	@HOLDFAST_QUORUM_ROUNDS=$(ROUNDS) build/dev/tests/fault/fault_quorum_crowd

sim: ## the simulator, from seed FIRST (1) on for SEEDS (100000) of them
	@scripts/deps build test
	@scripts/build dev
	@build/dev/tests/sim/sim --first $(FIRST) --seeds $(SEEDS) --jobs "$$(nproc)"

check: ## formatting, analysis, layers, exports, docs, scripts
	@scripts/deps build test check
	@scripts/check

bench: ## measure; needs a machine that does nothing else
	@scripts/deps build test bench
	@scripts/build release
	@bench/run

install: build ## install into PREFIX (/usr/local), under DESTDIR if set
	@cmake --install build/release --prefix "$(PREFIX)"

clean: ## remove everything built
	@rm -rf build
