#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: rust
# timeout: 600
# vm: --rxe=rust
# Things end at once, whatever is on its way: queue pairs with packets in a queue
# discipline, links, interfaces, namespaces and processes under traffic.
. "$(dirname "$0")/lib.sh"
H=$(dirname "$0")
export H

rig_veth || { result FAIL rig; exit 1; }
g0=$(gid_index rxe0 0000:0000:0000:0000:0000:ffff:0a09:0001)
g1=$(gid_index rxe1 0000:0000:0000:0000:0000:ffff:0a09:0002)
N='ip netns exec peer'

# B58: 1 kbit/s, put in once the traffic runs, so that packets need minutes. The process
# that is killed has to destroy its queue pair; the C driver takes 50 s for that. The bound
# is for the whole process on an emulated machine.
t qdisc-kill -T 100 "$N ib_write_bw -d rxe1 -x $g1 -F -s 65536 -D 300 > /dev/null 2>&1 & ib_write_bw -d rxe0 -x $g0 -F -s 65536 -D 300 10.9.0.2 > /dev/null 2>&1 & c=\$!; sleep 10; tc qdisc add dev va root tbf rate 1kbit burst 2000 limit 1000000; sleep 2; tc -s qdisc show dev va | tee /dev/stderr | grep -q 'backlog [1-9]' || exit 1; kill -9 \$c; s=\$(date +%s%N); while [ -d /proc/\$c ]; do sleep 0.01; done; e=\$(( (\$(date +%s%N) - s) / 1000000 )); echo gone after \$e ms; [ \$e -lt 5000 ]"
pkill ib_write_bw
sleep 1
tc qdisc del dev va root

traffic() { # starts a pair that would run for minutes
	ip netns exec peer ibv_rc_pingpong -d rxe1 -g "$g1" -n 10000000 -e > /dev/null 2>&1 &
	sleep 1
	ibv_rc_pingpong -d rxe0 -g "$g0" -n 10000000 -e 10.9.0.2 > /dev/null 2>&1 &
	sleep 1
}
traffic
t link-delete "timeout 10 rdma link delete rxe0 && ! rdma dev | grep rxe0"
pkill ibv_rc_pingpong
sleep 1
rdma link add rxe0 type rxe netdev va
wait_gid rxe0 2
traffic
t kill-9 "pkill -9 ibv_rc_pingpong; for i in \$(seq 20); do pgrep ibv_rc_pingpong || break; sleep 0.1; done; ! pgrep ibv_rc_pingpong"
traffic
t interface-delete "timeout 20 ip link del va && for i in \$(seq 50); do rdma dev | grep -q rxe || break; sleep 0.1; done; ! rdma dev | grep rxe"
pkill ibv_rc_pingpong
sleep 1
ip netns del peer
rig_veth || { result FAIL rig; exit 1; }
traffic
t namespace-delete "timeout 20 ip netns del peer; pkill ibv_rc_pingpong; for i in \$(seq 100); do rdma dev | grep -q rxe1 || break; sleep 0.1; done; ! rdma dev | grep rxe1"
pkill -9 ibv_rc_pingpong
sleep 1
remove_links
finish
