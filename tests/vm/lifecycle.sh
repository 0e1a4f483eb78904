#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 1500
# Devices and modules come and go: nothing leaks, nothing hangs, no warning.
. "$(dirname "$0")/lib.sh"
H=$(dirname "$0")
export H

load_stack || { result FAIL load; exit 1; }
ip link add d0 type dummy && ip link set d0 up && ip addr add 10.9.0.1/24 dev d0

cycle_link='rdma link add rxe0 type rxe netdev d0 && rdma link del rxe0 || exit 1'
t link-warm-up "for i in \$(seq 20); do $cycle_link; done"
t link-200 -T 300 "python3 $H/leaks.py save /tmp/l1; for i in \$(seq 200); do $cycle_link; done; python3 $H/leaks.py compare /tmp/l1 200"

# Objects of processes that end without a word.
rdma link add rxe0 type rxe netdev d0
wait_gid rxe0
t exit-warm-up -T 200 "python3 $H/objects.py rxe0 --kill 10"
t exit-100 -T 300 "rdma -d res > /tmp/b; python3 $H/leaks.py save /tmp/l2; python3 $H/objects.py rxe0 --kill 100 || exit 1; sleep 1; rdma -d res | diff /tmp/b - && python3 $H/leaks.py compare /tmp/l2 100"
rdma link del rxe0

t module-warm-up "for i in 1 2 3; do modprobe -r rdma_rxe ib_uverbs; modprobe -r ib_core; modprobe rdma_rxe && modprobe ib_uverbs || exit 1; done"
t module-50 -T 400 "python3 $H/leaks.py save /tmp/l3; for i in \$(seq 50); do modprobe -r rdma_rxe && modprobe -r ib_uverbs; ! [ -d /sys/module/ib_core ] || modprobe -r ib_core || exit 1; modprobe rdma_rxe && modprobe ib_uverbs && rdma link add rxe0 type rxe netdev d0 && rdma link del rxe0 || exit 1; done; python3 $H/leaks.py compare /tmp/l3 50"

# Rename while everything that prints the name runs.
rdma link add rxe0 type rxe netdev d0
t rename-200 -T 120 'for i in $(seq 100); do rdma dev set rxe0 name rxf0 && rdma dev set rxf0 name rxe0 || exit 1; done; rdma dev | grep rxe0'

# Shared mode: namespaces with their compat devices.
t netns-shared-30 -T 300 'for i in $(seq 30); do ip netns add n$((i % 3)) && ip netns exec n$((i % 3)) ls /sys/class/infiniband > /dev/null && ip netns del n$((i % 3)) || exit 1; done'
t netns-own-device-20 -T 300 'for i in $(seq 20); do ip netns add n && ip -n n link add x0 type dummy && ip -n n addr add 10.8.0.1/24 dev x0 && ip -n n link set x0 up && ip netns exec n rdma link add rxn type rxe netdev x0 && ip netns del n || exit 1; for k in $(seq 100); do rdma dev | grep -q rxn || break; sleep 0.1; done; ! rdma dev | grep rxn || exit 1; done'
rdma link del rxe0

# Exclusive mode: moves there and back, namespaces that die with the device inside.
sleep 1
t exclusive -T 60 'for i in $(seq 50); do rdma system set netns exclusive && exit 0; sleep 0.2; done; exit 1'
rdma link add rxe0 type rxe netdev d0
t moves-20 -T 200 'ip netns attach init 1 && ip netns add n; for i in $(seq 20); do rdma dev set rxe0 netns n && ip netns exec n rdma dev | grep -q rxe0 && ip netns exec n rdma dev set rxe0 netns init && rdma dev | grep -q rxe0 || exit 1; done; ip netns del n; ip netns del init'
for n in n init; do ip netns del $n 2> /dev/null; done
t netns-death-20 -T 300 'for i in $(seq 20); do ip netns add n && rdma dev set rxe0 netns n && ip netns del n || exit 1; for k in $(seq 200); do rdma dev | grep -q rxe0 && break; sleep 0.1; done; rdma dev | grep -q rxe0 || exit 1; done'
# Both have a device of the same name: the one that comes back gets another.
t netns-death-name -T 60 'ip netns add n && rdma dev set rxe0 netns n && ip link add d1 type dummy && ip link set d1 up && rdma link add rxe0 type rxe netdev d1 && ip netns del n || exit 1; for k in $(seq 100); do [ $(rdma dev | wc -l) = 2 ] && break; sleep 0.1; done; rdma dev; [ $(rdma dev | wc -l) = 2 ]'
ip netns del n 2> /dev/null
sleep 1
for d in $(rdma dev | awk '{ print $2 }' | tr -d :); do rdma link del "$d"; done
ip link del d1
sleep 1
t shared -T 60 'for i in $(seq 50); do rdma system set netns shared && exit 0; sleep 0.2; done; exit 1'

# The netdev goes while a process has objects, and while there is traffic.
rdma link add rxe0 type rxe netdev d0
wait_gid rxe0
t netdev-removal-open -T 180 "rm -f /tmp/r; python3 $H/objects.py rxe0 /tmp/r & p=\$!; while ! [ -e /tmp/r ]; do sleep 0.1; done; timeout 20 ip link del d0; rc=\$?; for k in \$(seq 50); do rdma dev | grep -q rxe0 || break; sleep 0.1; done; rdma dev; kill -0 \$p; a=\$?; kill \$p; wait \$p; [ \$rc = 0 ] && [ \$a = 0 ] && ! rdma dev | grep rxe0"
t netdev-removal-traffic -T 120 'for i in 1 2 3; do ip link add d0 type dummy && ip link set d0 up && ip addr add 10.9.0.1/24 dev d0 && rdma link add rxe0 type rxe netdev d0; sleep 1; ibv_rc_pingpong -d rxe0 -g 1 -n 1000000 -e > /dev/null 2>&1 & a=$!; sleep 1; ibv_rc_pingpong -d rxe0 -g 1 -n 1000000 -e 10.9.0.1 > /dev/null 2>&1 & b=$!; sleep 2; timeout 20 ip link del d0 || exit 1; sleep 1; kill $a $b; wait; ! rdma dev | grep rxe0 || exit 1; done'

# All at once.
ip link add d0 type dummy && ip link set d0 up && ip addr add 10.9.0.1/24 dev d0
cat > /tmp/stress <<-'END'
	end=$((SECONDS + 60))
	run() { while [ $SECONDS -lt $end ]; do "$@" > /dev/null 2>&1; done; }
	links() { ip link add "s$1" type dummy; ip link set "s$1" up; rdma link add "rs$1" type rxe netdev "s$1"; sleep 0.0$((RANDOM % 90 + 10)); if [ $((RANDOM % 2)) = 0 ]; then rdma link del "rs$1"; fi; ip link del "s$1"; }
	rename() { rdma dev set rxe0 name rxf0; rdma dev set rxf0 name rxe0; }
	netns() { ip netns add k; ip -n k link add x0 type dummy; ip -n k link set x0 up; ip netns exec k rdma link add rk type rxe netdev x0; ip netns exec k ibv_devinfo; ip netns del k; }
	addr() { ip addr add 10.9.5.1/24 dev d0; ip link add link d0 name v5 type vlan id 5; ip link set v5 up; ip addr del 10.9.5.1/24 dev d0; ip link del v5; }
	show() { rdma -d res; rdma -d res show qp; rdma -d res show mr; rdma link; rdma stat; find /sys/class/infiniband/*/ports/1/gids -type f -exec cat {} + ; }
	objects() { timeout -s KILL 2 python3 "$H/objects.py" "$(ls /sys/class/infiniband | head -n 1)" /tmp/ignored; }
	clients() { modprobe ib_umad; modprobe -r ib_umad; }
	uevents() { for f in /sys/class/infiniband/*/uevent; do echo add > "$f"; done; sleep 0.05; }
	run links 1 & run links 2 & run rename & run netns & run addr & run show & run objects & run clients & run uevents &
	wait
END
rdma link add rxe0 type rxe netdev d0
t parallel-60s -T 180 'bash /tmp/stress; for d in $(rdma dev | awk "{ print \$2 }" | tr -d :); do rdma link del $d; done; ip netns del k; ip link del s1; ip link del s2; ip link del v5; for k in $(seq 100); do [ -z "$(rdma dev)" ] && exit 0; sleep 0.1; done; rdma dev; exit 1'
rdma link add rxe0 type rxe netdev d0
wait_gid rxe0
pair still-works "ibv_rc_pingpong -d rxe0 -g 1 -n 50 -e" "ibv_rc_pingpong -d rxe0 -g 1 -n 50 -e 10.9.0.1"
finish
