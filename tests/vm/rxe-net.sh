#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# cores: rust
# timeout: 1200
# vm: --rxe=rust
# Interfaces below a link that are no plain Ethernet ones: VLANs with and without
# a link of their own, slaves of ipvlan, loopback, tun, WireGuard. Addresses that
# come and go there, a port whose MTU changes, a way that is narrower than its
# ends, and groups with members on the sender's own device.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
H=$(cd "$(dirname "$0")" && pwd)

[ -e /dev/net/tun ] || { mkdir -p /dev/net; mknod /dev/net/tun c 10 200; }
rig_veth || { result FAIL rig; exit 1; }
modprobe rdma_ucm

# cm IP: rping from here to IP in "peer". It asks until the other listens.
cm() {
	local rc=1 pid
	ip netns exec peer timeout 100 rping -s -a "$1" -S 5000 > "$LOG/rping-$1.txt" 2>&1 &
	pid=$!
	for _ in $(seq 20); do
		timeout 60 rping -c -a "$1" -C 3 -S 5000 -V -v && { rc=0; break; }
		kill -0 $pid || break
		sleep 0.5
	done
	kill $pid 2> /dev/null
	wait $pid
	return $rc
}
# gid DEVICE ADDRESS (as in sysfs): its index, as soon as it is there.
gid() {
	for _ in $(seq 50); do
		gid_index "$1" "$2" && return
		sleep 0.1
	done
	return 1
}
# gone DEVICE ADDRESS
gone() {
	for _ in $(seq 50); do
		gid_index "$1" "$2" > /dev/null || return 0
		sleep 0.1
	done
	return 1
}
mapped() { # A.B.C.D
	local a b c d
	IFS=. read -r a b c d <<< "$1"
	printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n' "$a" "$b" "$c" "$d"
}
defs="LOG='$LOG'; $(declare -f cm gid gone mapped gid_index)"
# traffic NAME HERE THERE NET: connections and datagrams from HERE (NET.1) to THERE (NET.2 in "peer").
traffic() {
	local ia ib kind
	if ! ia=$(gid "$2" "$(mapped "$4.1")") || ! ib=$(gid "$3" "$(mapped "$4.2")"); then
		result FAIL "$1-gids"
		return
	fi
	t "$1-cm" -T 150 "$defs; cm $4.2"
	for kind in rc ud; do
		pair "$1-$kind" "ip netns exec peer ibv_${kind}_pingpong -d $3 -g $ib -n 20 -s 1000 -e" \
			"ibv_${kind}_pingpong -d $2 -g $ia -n 20 -s 1000 -e $4.2"
	done
	pair "$1-mtu" "ip netns exec peer ibv_rc_pingpong -d $3 -g $ib -n 20 -s 30000 -e -c" \
		"ibv_rc_pingpong -d $2 -g $ia -n 20 -s 30000 -e -c $4.2"
}

# VLANs that the links of the interfaces below serve: the completions of the kernel's connection
# manager have to tell the VLAN.
ip link add link va name va.5 type vlan id 5 && ip link set va.5 up && ip addr add 10.9.5.1/24 dev va.5
ip -n peer link add link vb name vb.5 type vlan id 5 && ip -n peer link set vb.5 up && ip -n peer addr add 10.9.5.2/24 dev vb.5
traffic vlan-below rxe0 rxe1 10.9.5

# Either the interface has a link or its VLANs have.
t vlan-refused "rdma link add rxe5 type rxe netdev va.5 2>&1 | grep 'File exists'"
rdma link delete rxe0 && ip netns exec peer rdma link delete rxe1
t vlan-add "rdma link add rxe5 type rxe netdev va.5 && ip netns exec peer rdma link add rxe6 type rxe netdev vb.5"
t interface-refused "rdma link add rxe0 type rxe netdev va 2>&1 | grep 'File exists'"
traffic vlan rxe5 rxe6 10.9.5
# Nodes with one GUID refuse each other's connections as stale.
t vlan-guid "[ \$(cat /sys/class/infiniband/rxe5/node_guid) = 0200:00f0:0500:0001 ]"
t vlan-addresses "$defs; ip addr add 10.9.55.1/24 dev va.5 && gid rxe5 \$(mapped 10.9.55.1) && ip addr del 10.9.55.1/24 dev va.5 && gone rxe5 \$(mapped 10.9.55.1)"
t vlan-removal "ip link del va.5 && for i in \$(seq 50); do rdma dev | grep -q rxe5 || break; sleep 0.1; done; ! rdma dev | grep rxe5"
t interface-again "rdma link add rxe0 type rxe netdev va && rdma link delete rxe0"
ip -n peer link del vb.5

# Slaves of ipvlan have the Ethernet address of the interface below, and so of each other.
ip link add link va name i0 type ipvlan mode l2
ip link add link va name i1 type ipvlan mode l2
ip link set i1 netns peer
ip link set i0 up && ip addr add 10.9.6.1/24 dev i0
ip -n peer link set i1 up && ip -n peer addr add 10.9.6.2/24 dev i1
t ipvlan-add "rdma link add rxi0 type rxe netdev i0 && ip netns exec peer rdma link add rxi1 type rxe netdev i1"
t ipvlan-guids "[ \$(cat /sys/class/infiniband/rxi0/node_guid) != \$(ip netns exec peer cat /sys/class/infiniband/rxi1/node_guid) ]"
t ipvlan-default-guid "rdma link add rxe0 type rxe netdev va && cat /sys/class/infiniband/rxe0/node_guid && [ \$(cat /sys/class/infiniband/rxe0/node_guid) = 0000:00ff:fe00:0001 ] && rdma link delete rxe0"
traffic ipvlan rxi0 rxi1 10.9.6
rdma link delete rxi0
ip netns exec peer rdma link delete rxi1
ip link del i0
ip -n peer link del i1

# Without Ethernet.
without() { # NAME
	ip link set t0 up mtu 1400 && ip addr add 10.9.7.1/24 dev t0
	ip -n peer link set t1 up mtu 1400 && ip -n peer addr add 10.9.7.2/24 dev t1
	t "$1-add" "rdma link add rxt0 type rxe netdev t0 && ip netns exec peer rdma link add rxt1 type rxe netdev t1"
	traffic "$1" rxt0 rxt1 10.9.7
	t "$1-addresses" "$defs; ip addr add 10.9.77.1/24 dev t0 && gid rxt0 \$(mapped 10.9.77.1) && ip addr del 10.9.77.1/24 dev t0 && gone rxt0 \$(mapped 10.9.77.1)"
	t "$1-point-to-point" "$defs; ip addr add 10.9.78.1 peer 10.9.78.2 dev t0 && gid rxt0 \$(mapped 10.9.78.1) && ! gid_index rxt0 \$(mapped 10.9.78.2) && ip addr del 10.9.78.1 peer 10.9.78.2 dev t0 && gone rxt0 \$(mapped 10.9.78.1)"
	t "$1-delete" "rdma link delete rxt0 && ip netns exec peer rdma link delete rxt1"
}
python3 "$H/tunnel.py" tun peer > "$LOG/tun.txt" 2>&1 &
tun=$!
for _ in $(seq 100); do
	grep -q ready "$LOG/tun.txt" && break
	sleep 0.1
done
without tun
kill $tun
ip link add t0 type wireguard
# Its socket stays in the namespace that it was made in.
ip -n peer link add t1 type wireguard
t wireguard-keys "python3 '$H/tunnel.py' wireguard peer"
without wireguard
ip link del t0
ip -n peer link del t1
t loopback "ip link set lo up && rdma link add rxlo type rxe netdev lo && $defs; i=\$(gid rxlo \$(mapped 127.0.0.1)) || exit 1; ibv_rc_pingpong -d rxlo -g \$i -n 20 -e > /dev/null & sleep 2; ibv_rc_pingpong -d rxlo -g \$i -n 20 -e 127.0.0.1 && wait && rdma link delete rxlo"

# The MTU of the port follows that of the interface, and those who keep it are told.
mtu() {
	local pid
	rdma link add rxe0 type rxe netdev va || return 1
	# The function of that name would leave it behind when its shell is killed.
	env timeout $((100 * slower)) stdbuf -oL ibv_asyncwatch -d rxe0 > /tmp/events &
	pid=$!
	for _ in $(seq 100); do grep -q . /tmp/events && break; sleep 0.1; done
	ip link set va mtu 4200
	ibv_devinfo -d rxe0 | grep 'active_mtu:.*4096' || return 1
	# Another MTU of the interface, the same one of the port.
	ip link set va mtu 4210
	ip link set va mtu 1500
	ibv_devinfo -d rxe0 | grep 'active_mtu:.*1024' || return 1
	sleep 2
	kill $pid
	cat /tmp/events
	[ "$(grep -c PORT_ACTIVE /tmp/events)" = 2 ]
}
t mtu "$(declare -f mtu); mtu"
rdma link delete rxe0

# A way that is narrower than its ends: 4200 here, 1500 between two routers, 4200 there.
narrow_way() {
	local ns
	for ns in near far end; do ip netns add $ns; done
	ip link add n0 type veth peer name n1 netns near
	ip -n near link add m0 type veth peer name m1 netns far
	ip -n far link add e0 type veth peer name e1 netns end
	ip link set n0 mtu 4200 up && ip addr add 10.9.60.1/24 dev n0 && ip addr add fd00:60::1/64 dev n0 nodad
	ip -n near link set n1 mtu 4200 up && ip -n near addr add 10.9.60.2/24 dev n1 && ip -n near addr add fd00:60::2/64 dev n1 nodad
	ip -n near link set m0 up && ip -n near addr add 10.9.61.1/24 dev m0 && ip -n near addr add fd00:61::1/64 dev m0 nodad
	ip -n far link set m1 up && ip -n far addr add 10.9.61.2/24 dev m1 && ip -n far addr add fd00:61::2/64 dev m1 nodad
	ip -n far link set e0 mtu 4200 up && ip -n far addr add 10.9.62.2/24 dev e0 && ip -n far addr add fd00:62::2/64 dev e0 nodad
	ip -n end link set e1 mtu 4200 up && ip -n end addr add 10.9.62.1/24 dev e1 && ip -n end addr add fd00:62::1/64 dev e1 nodad
	for ns in near far; do
		ip netns exec $ns sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding'
	done
	ip route add 10.9.62.0/24 via 10.9.60.2 && ip route add fd00:62::/64 via fd00:60::2
	ip -n near route add 10.9.62.0/24 via 10.9.61.2 && ip -n near route add fd00:62::/64 via fd00:61::2
	ip -n far route add 10.9.60.0/24 via 10.9.61.1 && ip -n far route add fd00:60::/64 via fd00:61::1
	ip -n end route add 10.9.60.0/24 via 10.9.62.2 && ip -n end route add fd00:60::/64 via fd00:62::2
	rdma link add rxn type rxe netdev n0 && ip netns exec end rdma link add rxe9 type rxe netdev e1
}
# narrow A B: a connection from GID A here to GID B at the end, with the path MTU of the interfaces.
narrow() {
	local ia ib pid rc
	ia=$(gid rxn "$1") && ib=$(gid rxe9 "$2") || return 1
	ip netns exec end timeout 100 ibv_rc_pingpong -d rxe9 -g "$ib" -m 4096 -s 65536 -n 20 -e > /dev/null &
	pid=$!
	sleep 3
	timeout 100 ibv_rc_pingpong -d rxn -g "$ia" -m 4096 -s 65536 -n 20 -e "$3"
	rc=$?
	wait $pid || rc=1
	return $rc
}
t narrow-set-up "$(declare -f narrow_way); narrow_way && ping -c 1 -W 5 10.9.62.1 && ping -c 1 -W 5 fd00:62::1 && ibv_devinfo -d rxn | grep 'active_mtu:.*4096'"
defs+="; $(declare -f narrow)"
t narrow-ipv4 -T 250 "$defs; narrow \$(mapped 10.9.60.1) \$(mapped 10.9.62.1) 10.9.62.1 && ip route get 10.9.62.1 && ip route get 10.9.62.1 | grep 'mtu 1500'"
t narrow-ipv6 -T 250 "$defs; narrow fd00:0060:0000:0000:0000:0000:0000:0001 fd00:0062:0000:0000:0000:0000:0000:0001 10.9.62.1 && ip -6 route get fd00:62::1 | grep 'mtu 1500'"
t narrow-fragments "ip netns exec near nstat -az IpForwDatagrams IpFragCreates; nstat -az IpFragCreates Ip6FragCreates | tee /dev/stderr | awk '/FragCreates/ { n += \$2 != 0 } END { exit n != 2 }'"
rdma link delete rxn
ip netns exec end rdma link delete rxe9
ip link del n0

# Groups.
ip link add d0 type dummy
ip link set d0 address 02:00:00:00:00:07 up
ip addr add 10.9.0.7/32 dev d0
ip addr add fd00:9::7/64 dev d0 nodad
rdma link add rxe0 type rxe netdev d0
wait_gid rxe0 2
t group-ipv4 "python3 '$H/rxe_mcast.py' ::ffff:239.1.2.3"
t group-ipv6 "python3 '$H/rxe_mcast.py' ff0e::1234"
finish
