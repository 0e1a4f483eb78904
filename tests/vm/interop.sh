#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# kernels: stock
# set: long
# timeout: 1200
# vm: --rxe=c --icount
# The C and the Rust rdma_rxe talk to each other: one kernel, two namespaces, a link of each driver
# (rxe_twin.py). Every operation of RC, UC and UD, at every path MTU and critical length, over IPv4 and
# IPv6, and over a network that loses, repeats, reorders and damages packets; either side leads once.
# INTEROP=quick leaves most of it out. Time is that of the virtual machine, so a busy host does no harm.
. "$(dirname "$0")/lib.sh"
H=$(cd "$(dirname "$0")" && pwd)

load_stack && modprobe sch_netem && modprobe rdma_ucm || { result FAIL load; exit 1; }
t is-stock "! modinfo -n rdma_rxe | grep updates"
twin=/tmp/rdma_rxr.ko
t twin "python3 '$H/rxe_twin.py' build/$(uname -r)/rdma_rxe.ko $twin && insmod $twin" || exit 1

# All of the interfaces comes before the links: each driver takes events of the other's interface for
# events of its own.
ip netns add one
ip netns add two
ip -n one link add v1 type veth peer name v2 netns two
for n in 1 2; do
	ns=$([ $n = 1 ] && echo one || echo two)
	ip -n $ns link set lo up
	ip -n $ns link set v$n mtu 9000 up
	ip -n $ns addr add 10.9.1.$n/24 dev v$n
	ip -n $ns addr add fd00:91::$n/64 dev v$n nodad
done
sleep 3
ip netns exec one rdma link add rxe1 type rxe netdev v1 || { result FAIL link-c; exit 1; }
ip netns exec two rdma link add rxe2 type rxr netdev v2 || { result FAIL link-rust; exit 1; }
wait_gid rxe1 2 && wait_gid rxe2 2 || result FAIL gids
DRIVER=c timeout 1100 ip netns exec one python3 "$H/interop.py" 1 rxe1 v1 ${INTEROP-} > "$LOG/one.txt" 2> "$LOG/one.err" &
DRIVER=rust timeout 1100 ip netns exec two python3 "$H/interop.py" 2 rxe2 v2 ${INTEROP-} 2> "$LOG/two.err"
rc2=$?
wait $!
rc1=$?
cat "$LOG/one.txt"
for n in 1:$rc1 2:$rc2; do
	[ "${n#*:}" = 0 ] || result FAIL "machine-${n%:*}" "status ${n#*:}: $(tail -qn 1 "$LOG"/*.err | paste -sd' ')"
done
# The connection manager of one with that of the other.
for server in 1 2; do
	client=$((3 - server))
	ns=([1]=one [2]=two)
	pair "rping-from-$client" -T 120 "ip netns exec ${ns[server]} rping -s -a 10.9.1.$server -p 7174 -C 10" \
		"sleep 2; ip netns exec ${ns[client]} rping -c -a 10.9.1.$server -p 7174 -C 10"
done
t links "ip netns exec one rdma link delete rxe1 && ip netns exec two rdma link delete rxe2 && rmmod rdma_rxr"
finish
