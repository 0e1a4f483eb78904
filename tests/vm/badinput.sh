#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 1500
# Malformed netlink messages and uverbs calls: the same answers on both cores,
# nothing leaked, the device works afterwards.
. "$(dirname "$0")/lib.sh"
G=$OUT/golden
H=$(dirname "$0")
mkdir -p "$G"

rig_dummy || { result FAIL rig; exit 1; }
rdma -d resource show > /tmp/before
t netlink -T 500 "python3 $H/badnl.py rxe0 > $G/netlink.txt"
t netlink-random -T 500 "python3 $H/badnl.py rxe0 --random 20000 > /dev/null"
t verbs -T 500 "python3 $H/badverbs.py /dev/infiniband/uverbs0 > $G/verbs.txt"
t verbs-random -T 500 "python3 $H/badverbs.py /dev/infiniband/uverbs0 20000 > /dev/null"
sleep 1
rdma -d resource show > /tmp/after
t nothing-left 'diff /tmp/before /tmp/after'
pair still-works "ibv_rc_pingpong -d rxe0 -g 1 -n 50 -e" "ibv_rc_pingpong -d rxe0 -g 1 -n 50 -e 10.9.0.1"
t still-listed 'rdma link | grep rxe0 && rdma statistic show link rxe0/1'
finish
