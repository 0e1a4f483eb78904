# SPDX-License-Identifier: GPL-2.0
# The entry points. The building itself is kbuild's (see Kbuild, scripts/kbuild).

MAKEFLAGS += --no-print-directory

.PHONY: help setup modules demo test test-all kunit intree coverage check bench install uninstall clean

help:
	@echo 'make demo       everything from nothing: RDMA traffic on the stock kernel in QEMU'
	@echo 'make test       build-time checks, host tests and tests in the VM (20 minutes)'
	@echo '                KUNIT=1: make kunit as well, counted with the others'
	@echo '                DEBUG=1: some suites on the debug kernel as well'
	@echo 'make test-all   all that and the long suites (two hours)'
	@echo 'make kunit      KUnit suites on a kernel with KASAN, lockdep, kmemleak (builds it once)'
	@echo 'make intree     in a copy of the kernel tree: build both ways, suites by kunit.py run'
	@echo 'make coverage   which suite calls which export (an hour), table in build/coverage'
	@echo ''
	@echo 'make setup      only the preparation: host packages, rootfs, kernel tree, VM'
	@echo 'make modules    build for the distribution kernel (KDIR=TREE: for another 7.3 tree)'
	@echo 'make check      formatting, lints, documentation links, unsafe audit'
	@echo 'make bench      C and Rust side by side; BENCH=core or BENCH=rxe: ib_core or rdma_rxe alone'
	@echo 'make install    into /lib/modules of the running system (Debian kernel only)'
	@echo 'make uninstall  remove it from there again'
	@echo 'make clean      remove what was built (not the caches)'
	@echo ''
	@echo 'scripts/overlay TREE [--remove] puts the project into a kernel tree of the series'
	@echo 'scripts/vm -- COMMAND runs anything in the VM, see scripts/vm --help'
	@echo 'CACHE_DIR (~/.cache/ib-core-rust) holds rootfs, kernel tree and image;'
	@echo 'MIRROR=URL overrides the Debian mirror of the host'

setup:
	@scripts/setup

modules:
	@scripts/build

demo:
	@scripts/demo

test:
	@scripts/run-tests $(if $(KUNIT),--kunit) $(if $(DEBUG),--debug)

test-all:
	@TEST_BUDGET=14400 scripts/run-tests --all

kunit:
	@scripts/kunit

intree:
	@scripts/intree

coverage:
	@scripts/coverage

check:
	@scripts/check

bench:
	@scripts/bench $(BENCH)

install uninstall:
	@scripts/$@

clean:
	rm -rf build
