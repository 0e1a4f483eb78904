#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# One round of the benchmark, in the VM: "name value" lines. The unit is ns of
# guest time, which under -icount is instructions.
set -eu
ops=$1
now() { date +%s%N; }
timed() { # NAME ROUNDS CMD...: per round
	local name=$1 rounds=$2 t0 t1 i
	shift 2
	t0=$(now)
	for ((i = 0; i < rounds; i++)); do "$@" > /dev/null; done
	t1=$(now)
	echo "$name $(((t1 - t0) / rounds))"
}
reload() { modprobe -r rdma_rxe; modprobe -r ib_uverbs; modprobe -r ib_core 2> /dev/null || :; modprobe ib_core; }

echo "module-bytes $(stat -c %s "$(modinfo -n ib_core)")"
modprobe rdma_rxe
modprobe ib_uverbs
echo "module-core-bytes $(awk '$1 == "ib_core" { print $2 }' /proc/modules)"
timed load-ib_core 3 reload
# What the kernel has less while the module is loaded. Code is not in it, which lies in a cache
# of executable pages; type information (BTF) is, of which it keeps a copy.
free_kb() {
	sync
	for _ in 1 2; do
		echo 3 > /proc/sys/vm/drop_caches
		sleep 0.5
	done
	awk '$1 == "MemFree:" { print $2 }' /proc/meminfo
}
modprobe -r ib_core
before=$(free_kb)
modprobe ib_core
echo "module-memory-kB $((before - $(free_kb)))"
modprobe rdma_rxe
modprobe ib_uverbs
ip link add d0 type dummy
ip addr add 10.9.0.1/24 dev d0
ip link set d0 up
link() { rdma link add rxe0 type rxe netdev d0 && rdma link del rxe0; }
link
timed link-add-del 10 link
rdma link add rxe0 type rxe netdev d0
for _ in $(seq 50); do grep -q ffff:0a09 /sys/class/infiniband/rxe0/ports/1/gids/1 && break; sleep 0.1; done
pt() { # NAME COLUMN PROGRAM...: the last figure perftest prints
	local name=$1 column=$2
	shift 2
	"$@" > /dev/null 2>&1 &
	sleep 1
	"$@" 10.9.0.1 2> /dev/null | awk -v n="$name" -v c="$column" '$1 ~ /^[0-9]+$/ && NF >= 5 { v = $c } END { if (v != "") print n, v }'
	wait
}
# On one CPU the rate goes up or down by a tenth with how the turns of sender, receiver and
# program happen to follow each other, and with what ran before: several sizes, first and last.
write_bw() { # WHEN
	local k
	for k in 16 64 1024; do
		pt "write-bw-${k}KiB-$1-MBs" 4 ib_write_bw -d rxe0 -x 1 -F -s $((k * 1024)) -n $((128000 / k))
	done
}
# us typical; MB/s average: this one is better when bigger.
write_bw first
"$ops" rxe0
for n in 1 100 10000; do
	"$ops" rxe0 "$n" > "/tmp/hold.$n" &
	p=$!
	while ! [ -s "/tmp/hold.$n" ] && kill -0 $p 2> /dev/null; do sleep 0.2; done
	[ "$n" = 1 ] || cat "/tmp/hold.$n"
	if kill -0 $p 2> /dev/null; then
		rounds=20
		[ "$n" = 10000 ] && rounds=1
		timed "res-show-$n-qp" $rounds rdma resource show qp
	fi
	kill $p 2> /dev/null || :
	wait $p 2> /dev/null || :
done
pt send-lat-2B-us 5 ib_send_lat -d rxe0 -x 1 -F -s 2 -n 200 -e
write_bw last
