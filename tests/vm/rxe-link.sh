#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: rust
# timeout: 300
# vm: --rxe=rust
# Links of the Rust rdma_rxe: how they come, what they say of themselves, how they go.
. "$(dirname "$0")/lib.sh"

load_stack || { result FAIL load; exit 1; }
t is-ours "modinfo -n rdma_rxe | grep updates"
ip link add d0 type dummy
ip link set d0 address 02:00:00:00:00:01 up
ip addr add 10.9.0.1/24 dev d0
ip addr add fd00:9::1/64 dev d0 nodad
dev=/sys/class/infiniband/rxe0
port=$dev/ports/1
listeners='ss -Huln sport = :4791'

t add "rdma link add rxe0 type rxe netdev d0"
wait_gid rxe0 2 || result FAIL gids "no GID after the addresses"
t show "rdma link show rxe0/1 | grep 'state ACTIVE physical_state LINK_UP netdev d0'"
t gids "grep 0000:0000:0000:0000:0000:ffff:0a09:0001 $port/gids/* && grep fd00:0009:0000:0000:0000:0000:0000:0001 $port/gids/*"
t guid "[ \$(cat $dev/node_guid) = 0000:00ff:fe00:0001 ] && [ \$(cat $dev/sys_image_guid) = 0000:00ff:fe00:0001 ]"
t parent "[ \$(cat $dev/parent) = d0 ]"
t counters "[ \$(ls $port/hw_counters | grep -v lifespan | wc -l) = 17 ] && cat $port/hw_counters/sent_pkts $port/counters/port_xmit_data"
t sockets "$listeners | grep '0.0.0.0:4791' && $listeners | grep -E '(\[::\]|\*):4791'"
t mtu "ibv_devinfo -d rxe0 | grep 'active_mtu:.*1024' && ip link set d0 mtu 9000 && ibv_devinfo -d rxe0 | grep 'active_mtu:.*4096' && ip link set d0 mtu 1500"
t down "ip link set d0 down && rdma link show rxe0/1 | grep 'state DOWN physical_state DISABLED' && [ \$(cat $port/hw_counters/link_downed) -ge 1 ] && ip link set d0 up && rdma link show rxe0/1 | grep 'state ACTIVE'"
t attributes "ibv_devinfo -v -d rxe0 | tee /dev/stderr | grep -E 'max_qp:[[:space:]]+1048560'"

# Errors, each with the number that tells what is wrong, and nothing left behind.
ip link add d1 type dummy
t second-on-netdev "rdma link add rxe9 type rxe netdev d0 2>&1 | grep 'File exists'"
t duplicate-name "rdma link add rxe0 type rxe netdev d1 2>&1 | grep 'File exists'"
ip link add link d0 name d0.5 type vlan id 5
t vlan "rdma link add rxe9 type rxe netdev d0.5 2>&1 | grep 'File exists'"
ip link del d0.5
t failed-adds-20 "for i in \$(seq 20); do rdma link add rxe0 type rxe netdev d1 && exit 1; done; true"
t delete "rdma link delete rxe0 && ! [ -e $dev ]"
t sockets-gone "! $listeners | grep ."
t port-free "timeout 30 python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind((\"\", 4791))'"

# Two links share the sockets, and the last one closes them.
ip link set d1 up
t shared-sockets "rdma link add rxe0 type rxe netdev d0 && rdma link add rxe1 type rxe netdev d1 && rdma link delete rxe0 && $listeners | grep . && rdma link delete rxe1 && ! $listeners | grep ."

# The interface goes, the namespace goes.
t netdev-removal "rdma link add rxe1 type rxe netdev d1 && timeout 20 ip link del d1 && for i in \$(seq 50); do rdma dev | grep -q rxe1 || break; sleep 0.1; done; ! rdma dev | grep rxe1 && ! $listeners | grep ."
t netns "ip netns add n && ip -n n link add x0 type dummy && ip -n n link set x0 up && ip netns exec n rdma link add rxn type rxe netdev x0 && ip netns exec n $listeners | grep . && ! $listeners | grep . && timeout 20 ip netns del n && for i in \$(seq 100); do rdma dev | grep -q rxn || break; sleep 0.1; done; ! rdma dev | grep rxn"
t racing-50 -T 120 "for i in \$(seq $((50 / slower))); do ip link add d2 type dummy && ip link set d2 up; rdma link add rxe2 type rxe netdev d2 2> /dev/null & timeout 20 ip link del d2 || exit 1; wait; done; for i in \$(seq 50); do rdma dev | grep -q rxe2 || break; sleep 0.1; done; ! rdma dev | grep rxe2 && ! $listeners | grep ."

# In exclusive mode a link belongs to the namespace in which it was made.
t exclusive "for i in \$(seq 50); do rdma system set netns exclusive && exit 0; sleep 0.2; done; exit 1"
t exclusive-link "ip netns add n && ip -n n link add x0 type dummy && ip -n n link set x0 up && ip netns exec n rdma link add rxn type rxe netdev x0 && ip netns exec n rdma dev | grep rxn && ! rdma dev | grep rxn && ip netns exec n rdma link delete rxn && ip netns del n"
t shared-again "for i in \$(seq 50); do rdma system set netns shared && exit 0; sleep 0.2; done; exit 1"

# The module goes with links in place.
t unload-with-links "rdma link add rxe0 type rxe netdev d0 && modprobe -r rdma_rxe && ! [ -e $dev ] && ! $listeners | grep ."
finish
