#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 900
# perftest over one rxe and between two namespaces: does it work, not how fast.
. "$(dirname "$0")/lib.sh"

rig_veth || { result FAIL rig; exit 1; }
N='ip netns exec peer'
g0=$(gid_index rxe0 0000:0000:0000:0000:0000:ffff:0a09:0001)
g1=$(gid_index rxe1 0000:0000:0000:0000:0000:ffff:0a09:0002)
one() { # NAME PROGRAM ARGS
	local n=$1
	shift
	pair "$n" -T 100 "$* -d rxe0 -x $g0 -F" "$* -d rxe0 -x $g0 -F 10.9.0.1"
}
two() {
	local n=$1
	shift
	pair "two-$n" -T 100 "$N $* -d rxe1 -x $g1 -F" "$* -d rxe0 -x $g0 -F 10.9.0.2"
}
for c in RC UC UD; do
	s=16384
	[ $c = UD ] && s=1024
	one "send-bw-$c" ib_send_bw -c $c -s $s -n 100
	one "send-lat-$c" ib_send_lat -c $c -s 64 -n 100
done
for c in RC UC; do
	one "write-bw-$c" ib_write_bw -c $c -s 16384 -n 100
	one "write-lat-$c" ib_write_lat -c $c -s 64 -n 100
done
one read-bw ib_read_bw -s 16384 -n 100
one read-lat ib_read_lat -s 64 -n 100
one atomic-bw-fa ib_atomic_bw -A FETCH_AND_ADD -n 100
one atomic-bw-cas ib_atomic_bw -A CMP_AND_SWAP -n 100
one atomic-lat ib_atomic_lat -n 100
one send-bw-events ib_send_bw -e -s 4096 -n 100
one send-bw-srq ib_send_bw -s 4096 -n 100 -r 32 --use-srq -q 4
one send-bw-bidir ib_send_bw -b -s 4096 -n 100
one write-bw-16qp ib_write_bw -q 16 -s 4096 -n 50
for s in 1 2 127 1024 1025 262144; do
	one "write-bw-$s" ib_write_bw -s $s -n 10
done
two send-bw ib_send_bw -s 16384 -n 100 -e
two send-lat ib_send_lat -s 64 -n 100 -e
two write-bw ib_write_bw -s 16384 -n 100
two read-bw ib_read_bw -s 16384 -n 100 -e
two read-lat ib_read_lat -s 64 -n 100
two atomic-bw ib_atomic_bw -n 50
t nothing-left '[ "$(rdma resource show qp | grep -vc kernel)" -le 0 ] || { rdma resource show qp; rdma resource; ! rdma resource show qp | grep -v "comm \["; }'
finish
