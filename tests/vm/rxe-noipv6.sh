#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 300
# vm: --rxe=rust --append=ipv6.disable=1
# Field report B63: a kernel that has IPv6 switched off. The module loads, IPv4 works.
. "$(dirname "$0")/lib.sh"

t no-ipv6 "! [ -e /proc/net/if_inet6 ]"
load_stack || { result FAIL load; exit 1; }
ip link add d0 type dummy
ip link set d0 up
ip addr add 10.9.0.1/24 dev d0
t link "rdma link add rxe0 type rxe netdev d0"
wait_gid rxe0 1 || result FAIL gid
t sockets "ss -Huln sport = :4791 | grep -c . | grep -x 1"
g=$(gid_index rxe0 0000:0000:0000:0000:0000:ffff:0a09:0001)
pair pingpong "ibv_rc_pingpong -d rxe0 -g $g -n 20 -e" "ibv_rc_pingpong -d rxe0 -g $g -n 20 -e 10.9.0.1"
t delete "rdma link delete rxe0 && ! ss -Huln sport = :4791 | grep ."
finish
