#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 1800
# A process that fills the rings of its queues with nonsense, under the eyes of
# one that uses the same device well. Only for the Rust driver: the C driver
# executes requests inside the ring.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
H=$(cd "$(dirname "$0")" && pwd)

[ "$(rxe_driver)" = rust ] || { result SKIP rings "rdma_rxe is the distribution's"; exit 0; }
rig_dummy || { result FAIL rig; exit 1; }
# Three times a millisecond is no time for a kernel with all checkers.
[ "$slower" = 1 ] || export RINGS_TIMEOUT="${RINGS_TIMEOUT:-14}" RINGS_RETRIES="${RINGS_RETRIES:-7}"
t rings -T $((${RINGS_SECONDS:-600} + 200)) "python3 '$H/rings.py' ${RINGS_SECONDS:-600} ${RINGS_SEED:-1}"
t nothing-left "[ \$(rdma -j resource show qp link rxe0 | grep -o lqpn | wc -l) -le 1 ]"
finish
