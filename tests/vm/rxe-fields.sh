#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: rust
# timeout: 1500
# vm: --rxe=rust
# Field reports about Soft-RoCE, and faults that the C driver still shows (rxe_fields.py). With
# the C driver ("scripts/vm --core=c --rxe=c -- tests/vm/rxe-fields.sh") the cases that it is known to
# fail have to fail, which shows that they can.
# CASES="NAME..." runs some of them.
. "$(dirname "$0")/lib.sh"
H=$(cd "$(dirname "$0")" && pwd)
export LOG

# d0 is one end of a cable, and takes packets from there that claim to be its own.
ip link add d0 type veth peer name p0 && ip link set p0 up && echo 1 > /proc/sys/net/ipv4/conf/d0/accept_local
rig_dummy 2> /dev/null || { result FAIL rig; exit 1; }
# shellcheck disable=SC2086 # a list
CASE_LIMIT=$((180 * slower)) python3 "$H/rxe_fields.py" "$(rxe_driver)" ${CASES-} || result FAIL cases "status $?"
finish
