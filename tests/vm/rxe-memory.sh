#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 900
# vm: --rxe=rust --mem 4096
# Memory that the distribution's rdma_rxe does not register: more than a
# gigabyte in one region, regions that get other memory, dma-bufs, and all of a
# process's memory at once.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
H=$(cd "$(dirname "$0")" && pwd)

rig_dummy || { result FAIL rig; exit 1; }
ulimit -l unlimited
t big -T 300 "python3 '$H/rxe_memory.py' big"
t reregister "python3 '$H/rxe_memory.py' rereg"
t dma-buf "ls -l /dev/udmabuf /dev/dma_heap/system && python3 '$H/rxe_memory.py' dmabuf"
t implicit "python3 '$H/rxe_memory.py' implicit"

# rdma-core's own tests of implicit regions.
W=/tmp/rdma-core
mkdir $W && cp -r /usr/share/doc/rdma-core/tests $W/ && find $W -name '*.gz' -exec gunzip {} +
export PYV_DIR=$W/tests PYV_CURRENT=$W/current PYV_RESULTS=$W/results
t implicit-pyverbs -T 300 "python3 '$H/pyverbs_runner.py' --dev rxe0 -v -k implicit; cat $W/results; grep -q '^PASS.*implicit_rc_traffic' $W/results && ! grep FAIL $W/results"
t nothing-left "[ \$(rdma -j resource show mr dev rxe0 | grep -o mrn | wc -l) = 0 ]"
finish
