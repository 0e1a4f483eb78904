#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# suite: GID tables of RoCE devices (contract: a GID never outlives or misses its netdevice)
# set: long
# timeout: 300
# Netdevice deletion against device registration, with devices stacked on top; references under
# load; and what the tables look like after each change.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"

D=/sys/class/infiniband

# Lines "INDEX GID TYPE NETDEV" of the first 32 slots of device $1.
table() {
	local f v t n
	for f in $D/"$1"/ports/1/gids/{[0-9],[12][0-9],3[01]}; do
		read -r v < "$f"
		case $v in 0000:0000:0000:0000:0000:0000:0000:0000) continue ;; esac
		read -r t < "$D/$1/ports/1/gid_attrs/types/${f##*/}"
		read -r n < "$D/$1/ports/1/gid_attrs/ndevs/${f##*/}"
		echo "${f##*/} $v $t $n"
	done
}
# has DEVICE GID NETDEV: within 5 s
has() {
	for _ in $(seq 50); do
		table "$1" | grep -q " $2 RoCE v2 $3\$" && return
		sleep 0.1
	done
	echo "$1 has no $2 of $3:"; table "$1"; return 1
}
# hasnt DEVICE PATTERN: within 5 s
hasnt() {
	for _ in $(seq 50); do
		table "$1" | grep -q "$2" || return 0
		sleep 0.1
	done
	echo "$1 has $2:"; table "$1"; return 1
}
v4() { printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' ${1//./ }; }
free_netdevs() { # no netdevice hangs
	! dmesg | grep -E 'waiting for .* to become free|ref leak'
}
export -f table has hasnt v4 free_netdevs
export D

addresses() {
	set -e
	ip link add d0 type dummy
	ip link set d0 address 02:00:00:00:00:01 up
	rdma link add rxe0 type rxe netdev d0
	has rxe0 fe80:0000:0000:0000:0000:00ff:fe00:0001 d0
	ip addr add 10.9.0.1/24 dev d0; has rxe0 "$(v4 10.9.0.1)" d0
	ip addr add fd00:9::1/64 dev d0 nodad; has rxe0 fd00:0009:0000:0000:0000:0000:0000:0001 d0
	ip addr del 10.9.0.1/24 dev d0; hasnt rxe0 "$(v4 10.9.0.1)"
	ip link set d0 address 02:00:00:00:00:02
	has rxe0 fe80:0000:0000:0000:0000:00ff:fe00:0002 d0
	# The link-local IPv6 address keeps the old identifier, and so does its GID.
	table rxe0 | head -1 | grep '^0 fe80:0000:0000:0000:0000:00ff:fe00:0002'
	rdma link del rxe0; ip link del d0
}
uppers() {
	set -e
	ip link add d0 type dummy
	ip link set d0 address 02:00:00:00:00:01 up
	rdma link add rxe0 type rxe netdev d0
	ip link add link d0 name d0.5 type vlan id 5
	ip link add link d0 name mv0 type macvlan mode bridge
	ip link set d0.5 up; ip addr add 10.9.5.1/24 dev d0.5; has rxe0 "$(v4 10.9.5.1)" d0.5
	ip netns add gidns; ip link set mv0 netns gidns; ip -n gidns link set mv0 up
	ip -n gidns addr add 10.9.6.1/24 dev mv0
	for _ in $(seq 50); do grep -q "$(v4 10.9.6.1)" $D/rxe0/ports/1/gids/* && break; sleep 0.1; done
	grep "$(v4 10.9.6.1)" $D/rxe0/ports/1/gids/*
	ip netns del gidns
	for _ in $(seq 50); do grep -q "$(v4 10.9.6.1)" $D/rxe0/ports/1/gids/* || break; sleep 0.1; done
	! grep "$(v4 10.9.6.1)" $D/rxe0/ports/1/gids/*
	ip link del d0.5; hasnt rxe0 "$(v4 10.9.5.1)"
	rdma link del rxe0; ip link del d0
}
bond() {
	set -e
	modprobe bonding max_bonds=0
	ip link add e0 type dummy; ip link add e1 type dummy
	ip link set e0 address 02:00:00:00:00:51; ip link set e1 address 02:00:00:00:00:52
	rdma link add rx0 type rxe netdev e0; rdma link add rx1 type rxe netdev e1
	ip link add bond0 type bond mode active-backup
	ip link set bond0 address 02:00:00:00:00:50
	ip link set e0 master bond0; ip link set e1 master bond0
	ip link set bond0 up; ip addr add 10.2.0.1/24 dev bond0
	has rx0 "$(v4 10.2.0.1)" bond0; hasnt rx1 "$(v4 10.2.0.1)"
	ip link set bond0 type bond active_slave e1
	has rx1 "$(v4 10.2.0.1)" bond0; hasnt rx0 "$(v4 10.2.0.1)"
	ip link set bond0 type bond active_slave e0
	has rx0 "$(v4 10.2.0.1)" bond0; hasnt rx1 "$(v4 10.2.0.1)"
	ip link del bond0; hasnt rx0 bond0; hasnt rx1 bond0
	ip link del e0; ip link del e1
	! rdma link | grep .
}
races() { # ROUNDS: the netdevice goes while the device comes
	modprobe bonding max_bonds=0
	for i in $(seq "$1"); do
		ip link add d0 type dummy; ip addr add 10.9.0.1/24 dev d0; ip link set d0 up
		case $((i % 4)) in
		1) ip link add v0 link d0 type vlan id 9 ;;
		2) ip link add v0 type ipvlan link d0 ;;
		3) ip link add v0 type bond; ip link set d0 down; ip link set d0 master v0 ;;
		esac 2> /dev/null
		[ $((i % 4)) = 0 ] || { ip link set v0 up; ip addr add 10.9.1.1/24 dev v0; }
		rdma link add rxe0 type rxe netdev d0 2> /dev/null &
		ip link set d0 down
		timeout 10 ip link del d0 || return 1
		wait
		ip link del v0 2> /dev/null
	done
	! rdma link | grep . && free_netdevs
}
churn() { # SECONDS: addresses come and go while packets hold GIDs
	local end=$((SECONDS + $1))
	rig_dummy || return 1
	while [ $SECONDS -lt $end ]; do
		ip addr add 10.9.0.77/24 dev d0; ip addr del 10.9.0.77/24 dev d0
		ip link set d0 address 02:00:00:00:00:0$((SECONDS % 9 + 1))
	done &
	while [ $SECONDS -lt $end ]; do
		timeout 20 ibv_ud_pingpong -g 1 -n 200 > /dev/null 2>&1 &
		sleep 0.3; timeout 20 ibv_ud_pingpong -g 1 -n 200 127.0.0.1 > /dev/null 2>&1
		cat $D/rxe0/ports/1/gids/[0-9] $D/rxe0/ports/1/gid_attrs/*/[0-9] > /dev/null 2>&1
	done
	wait
	rdma link del rxe0; timeout 10 ip link del d0 && free_netdevs
}
export -f addresses uppers bond races churn
export -f rig_dummy load_stack wait_gid

sysctl -q net.ipv6.conf.default.accept_dad=0
load_stack
t addresses addresses
remove_links
t uppers uppers
remove_links
t bond bond
remove_links
t races -T 200 races ${ROUNDS:-24}
t churn churn 12
finish
