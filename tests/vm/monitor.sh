#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# rdma monitor and the kernel's uevents while devices are added, renamed,
# moved and deleted. Golden texts.
. "$(dirname "$0")/lib.sh"
G=$OUT/golden
mkdir -p "$G"

watch_events() { # NAME: starts both, to be ended by stop_events
	stdbuf -oL rdma monitor > "/tmp/$1.rdma" 2>&1 &
	w1=$!
	stdbuf -oL udevadm monitor -k -p > "/tmp/$1.udev" 2>&1 &
	w2=$!
	sleep 1.5
}
stop_events() {
	sleep 1.5
	kill $w1 $w2
	wait $w1 $w2 2> /dev/null
	sed -E 's/[ \t]+$//' "/tmp/$1.rdma" > "$G/$1-rdma.txt"
	# Events of the RDMA classes only, without counters and times. Events of
	# different devices come from different threads: one block a device.
	awk -v RS= '/SUBSYSTEM=(infiniband|infiniband_verbs|infiniband_mad)/ { print $0 "\n" }' "/tmp/$1.udev" |
		grep -vE '^(SEQNUM|USEC_INITIALIZED|TIMESTAMP)' |
		sed -E 's/^KERNEL\[[0-9.]+\]/KERNEL/' > "$G/$1-udev.txt"
}

load_stack ib_umad || { result FAIL load; exit 1; }
ip link add d0 type dummy && ip link set d0 address 02:00:00:00:00:01 up && ip addr add 10.9.0.1/24 dev d0

watch_events life
rdma link add rxe0 type rxe netdev d0
sleep 1
rdma dev set rxe0 name foo0
sleep 0.5
ip link set d0 name e0
sleep 0.5
ip link set e0 down
sleep 0.5
ip link set e0 up
sleep 0.5
ip link set e0 name d0
sleep 0.5
rdma link del foo0
stop_events life
t rdma-monitor "grep -i register $G/life-rdma.txt && grep -i rename $G/life-rdma.txt"
t udev-add-remove "grep 'add.*/rxe0' $G/life-udev.txt && grep 'remove.*/foo0' $G/life-udev.txt"

# Moving to another namespace needs exclusive mode, and that no other
# namespace exists while it is switched on.
t exclusive 'rdma system set netns exclusive && rdma system | grep "netns exclusive"'
ip netns add x
rdma link add rxe0 type rxe netdev d0
sleep 0.5
watch_events move
t move 'rdma dev set rxe0 netns x && ! rdma dev | grep rxe0 && ip netns exec x rdma dev | grep rxe0'
sleep 1
# The namespace dies: the device comes back.
ip netns del x
for _ in $(seq 50); do rdma dev | grep -q rxe0 && break; sleep 0.1; done
stop_events move
t back 'rdma dev | grep rxe0'
t link-del 'rdma link del rxe0'
t shared 'sleep 1; rdma system set netns shared && rdma system | grep "netns shared"'
# rxe can make its GSI QP only once: these lines are its own (known, stock).
dmesg | grep -E "Couldn't|create_qp" | sed 's/^\[[^]]*\] *//' > "$G/move-dmesg.txt"

# The netdev of a device goes away: the device follows.
rdma link add rxe0 type rxe netdev d0
sleep 0.5
watch_events netdev
ip link del d0
for _ in $(seq 50); do rdma dev | grep -q rxe0 || break; sleep 0.1; done
stop_events netdev
t netdev-gone '! rdma dev | grep rxe0'
finish
