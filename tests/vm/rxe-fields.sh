#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 1500
# vm: --rxe=rust
# Field reports about Soft-RoCE, and faults that the C driver still shows (rxe_fields.py). With
# the C driver ("scripts/vm --core=c --rxe=c -- tests/vm/rxe-fields.sh") the cases that it is known to
# fail have to fail, which shows that they can.
# CASES="NAME..." runs some of them.
. "$(dirname "$0")/lib.sh"
H=$(cd "$(dirname "$0")" && pwd)
export LOG

rig_dummy || { result FAIL rig; exit 1; }
case $(modinfo -n rdma_rxe) in
*/updates/*) driver=rust ;;
*) driver=c ;;
esac
# shellcheck disable=SC2086 # a list
CASE_LIMIT=$((180 * slower)) python3 "$H/rxe_fields.py" $driver ${CASES-} || result FAIL cases "status $?"
finish
