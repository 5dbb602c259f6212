# SPDX-License-Identifier: Apache-2.0
# A thin front of meson and ninja: `make help` lists what there is. Everything is built under build/.

PREFIX   ?= /usr/local
DESTDIR  ?=
SANITIZE ?=
SECONDS  ?= 20
MINUTES  ?= 10
JSON     ?= build/bench-core.json
OPTIONS  ?=
ARGS     ?=

.PHONY: all help deps deps-build deps-test deps-check build test bench bench-core bench-net bench-files bench-etcd bench-python wheel \
        fuzz coverage install soak failures-table format check-format lint clean
.NOTPARALLEL:

all: build

help:
	@echo 'make                    build the library, plugins and tools (OPTIONS="-Dname=value ..." for meson)'
	@echo 'make test               build and run the whole suite (SANITIZE=address,undefined or thread; ARGS= for meson test)'
	@echo 'make bench              two processes, UCX, memory to memory: WRITE, then READ, every byte checked'
	@echo 'make bench-net          transfers between two processes in all settings, in rounds (JSON=file, ARGS=--quick or --seconds 200 ...)'
	@echo 'make bench-files        file transfers beside fio, in alternation (JSON=file)'
	@echo 'make bench-etcd         what 2,000 to 100,000 agents ask of one etcd (JSON=file, AGENTS="2000 10000")'
	@echo 'make bench-core         costs of single calls, without a network (JSON=file)'
	@echo 'make bench-python       costs of calls from Python (JSON=file)'
	@echo 'make wheel              dist/nixl-*.whl, for every Python from 3.11 on; needs PyPI'
	@echo 'make install            into PREFIX=/usr/local (DESTDIR= in front of it)'
	@echo 'make deps               install what is missing, saying what (NO_INSTALL=1: only say it)'
	@echo 'make fuzz               run each fuzz target for SECONDS=20'
	@echo 'make soak               peers that come and go, transfers without end, for MINUTES=10'
	@echo 'make failures-table     run tests/faults and write what they saw into docs/failures.md'
	@echo 'make coverage           line coverage of src/wire and src/agent'
	@echo 'make format             format the C and C++ files (check-format: only look)'
	@echo 'make lint               clang-tidy and cppcheck over src/'
	@echo 'make clean              remove build/'

deps:
	@scripts/deps.sh test && echo 'Everything that building and testing needs is there.'

# What the other targets call: silent and quick when nothing is missing.
deps-build:
	@scripts/deps.sh build
deps-test:
	@scripts/deps.sh test
deps-check:
	@scripts/deps.sh check

build: deps-build
	@scripts/build.sh build $(OPTIONS)

test: deps-test
	@SANITIZE='$(SANITIZE)' scripts/test.sh $(ARGS)

bench: deps-build
	@scripts/bench.sh

bench-core: deps-test
	@scripts/build.sh build $(OPTIONS)
	@scripts/bench-core.sh '$(JSON)'

bench-net: JSON = build/bench-net.json
bench-net: deps-build
	@scripts/build.sh build $(OPTIONS)
	@NIXL_PLUGIN_DIR='$(CURDIR)/build/plugins' bench/net/bench_net.py build/bench/net '$(JSON)' $(ARGS)

bench-files: JSON = build/bench-files.json
bench-files: deps-build
	@scripts/build.sh build $(OPTIONS)
	@bench/files/bench_files.py build/bench/files/bench-files '$(JSON)'

bench-etcd: JSON = build/bench-etcd.json
bench-etcd: deps-test
	@scripts/build.sh build $(OPTIONS)
	@bench/etcd/bench_etcd.py build/bench/etcd/bench-etcd '$(JSON)' $(AGENTS)

bench-python: deps-build
	@scripts/build.sh build $(OPTIONS)
	@scripts/bench-python.sh '$(if $(filter command line environment,$(origin JSON)),$(JSON),build/bench-python.json)' $(ARGS)

wheel: deps-test
	@scripts/wheel.sh

fuzz: deps-check
	@scripts/fuzz.sh '$(SECONDS)' $(ARGS)

soak: deps-test
	@scripts/build.sh build $(OPTIONS)
	@scripts/soak.sh '$(MINUTES)'

failures-table: deps-test
	@scripts/test.sh --suite failures
	@scripts/failures_table.py build/meson-logs/testlog.txt docs/failures.md

coverage: deps-check
	@scripts/coverage.sh

install: deps-build
	@scripts/build.sh build --prefix='$(PREFIX)' $(OPTIONS)
	@DESTDIR='$(DESTDIR)' meson install -C build --no-rebuild
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

format: deps-check
	@scripts/format.sh

check-format: deps-check
	@scripts/format.sh --check

lint: deps-check
	@scripts/lint.sh

clean:
	rm -rf build
