#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# cores: rust
# timeout: 4000
# vm: --rxe=rust
# programs: rxe_fuzz
# Ten million packets of all opcodes with right checksums and random faults, from a raw socket, to RC, UC,
# UD and XRC queue pairs, while another process uses the same device: no access outside of the regions, nobody
# else is disturbed. For the Rust driver only.
# scripts/vm --rxe=rust -- tests/vm/rxe-fuzz.sh PACKETS [SEED]; scripts/run-tests compiles the sender.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
H=$(cd "$(dirname "$0")" && pwd)
sender=$H/../../build/programs/rxe_fuzz
packets=${1:-$((10000000 / (slower * slower)))}

[ "$(rxe_driver)" = rust ] || { result SKIP fuzz "rdma_rxe is the distribution's"; exit 0; }
[ -x "$sender" ] || { result FAIL sender "no build/programs/rxe_fuzz: scripts/run-tests --rxe=rust rxe-fuzz makes it"; exit 1; }
ip link add d0 type veth peer name p0
ip link set d0 mtu 4200 && ip link set p0 mtu 4200 up
echo 1 > /proc/sys/net/ipv4/conf/d0/accept_local
rig_dummy 2> /dev/null || { result FAIL rig; exit 1; }
# Of the process beside it (rings.py): those of the connection manager. With three times a
# millisecond a flood of packets on a busy host is enough to make it give up.
export RINGS_TIMEOUT="${RINGS_TIMEOUT:-16}" RINGS_RETRIES="${RINGS_RETRIES:-7}"
t fuzz -T 3600 "python3 '$H/rxe_fuzz.py' '$sender' $packets ${2:-1}"
t nothing-left "[ \$(rdma -j resource show qp link rxe0 | grep -o lqpn | wc -l) -le 1 ]"
pair still-works "ibv_rc_pingpong -d rxe0 -g 1 -n 20 -e" "ibv_rc_pingpong -d rxe0 -g 1 -n 20 -e 10.9.0.1"
finish
