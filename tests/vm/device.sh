#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 600
# The registry of devices and clients: names, renames, compat devices of other
# namespaces, moves, and all of them at once.
. "$(dirname "$0")/lib.sh"

K=/sys/class/infiniband
modprobe rdma_rxe && modprobe ib_uverbs
for i in 0 1 2 3; do
	ip link add d$i type dummy && ip addr add 10.9.$i.1/24 dev d$i && ip link set d$i up
done

t add 'for i in 0 1 2; do rdma link add rxe$i type rxe netdev d$i || exit; done; rdma dev | tee /dev/stderr | wc -l | grep -qx 3'
t index 'rdma dev show rxe0 | grep -q "^0: rxe0" && rdma dev show rxe2 | grep -q "^2: rxe2"'
t name-taken 'rdma link add rxe1 type rxe netdev d3 2>&1 | tee /dev/stderr | grep -qi "file table overflow\|exists\|error"; ! rdma link show rxe1/1 | grep d3'
t index-not-reused 'rdma link del rxe2 && rdma link add rxe2 type rxe netdev d2 && rdma dev show rxe2 | grep -qv "^2:"'
t rename 'rdma dev set rxe2 name foo && [ -d '$K'/foo ] && ! [ -e '$K'/rxe2 ] && rdma dev show foo'
t rename-same 'rdma dev set foo name foo'
t rename-taken 'rdma dev set foo name rxe0 2>&1 | tee /dev/stderr | grep -q "File exists" && rdma dev show foo'
t rename-cgroup 'mkdir -p /sys/fs/cgroup; mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup; echo +rdma > /sys/fs/cgroup/cgroup.subtree_control && mkdir -p /sys/fs/cgroup/t && grep -q "^foo " /sys/fs/cgroup/t/rdma.max && rmdir /sys/fs/cgroup/t'
t uevent-name 'cat '$K'/foo/uevent | tee /dev/stderr | grep -qx "NAME=foo"'
t rename-back 'rdma dev set foo name rxe2'
t dim 'rdma dev set rxe2 adaptive-moderation on && rdma dev set rxe2 adaptive-moderation off'
t uverbs-links 'ls /sys/class/infiniband_verbs/*/ibdev && cat /sys/class/infiniband_verbs/*/ibdev | sort | tr "\n" " " | grep -x "rxe0 rxe1 rxe2 "'

# Shared mode: compat devices.
inns() { printf 'ip netns exec n%s sh -c "mount -t sysfs none /sys; ls /sys/class/infiniband | tr \\"\\\\n\\" \\" \\""' "$1"; }
t compat-new-net "ip netns add n1 && $(inns 1) | tee /dev/stderr | grep -x 'rxe0 rxe1 rxe2 '"
t compat-new-dev "rdma link add rxe3 type rxe netdev d3 && $(inns 1) | tee /dev/stderr | grep -x 'rxe0 rxe1 rxe2 rxe3 '"
t compat-rename "rdma dev set rxe3 name bar && $(inns 1) | tee /dev/stderr | grep -x 'bar rxe0 rxe1 rxe2 '"
t compat-content 'ip netns exec n1 sh -c "mount -t sysfs none /sys; cd /sys/class/infiniband/bar; ls; ls ports/1; cat ports/1/state node_type" | tee /dev/stderr | grep -q ACTIVE'
t compat-no-counters '! ip netns exec n1 sh -c "mount -t sysfs none /sys; ls /sys/class/infiniband/bar/hw_counters"'
t mode-busy 'rdma system set netns exclusive 2>&1 | tee /dev/stderr | grep -q "busy"'
t compat-del-dev "rdma link del bar && $(inns 1) | tee /dev/stderr | grep -x 'rxe0 rxe1 rxe2 '"
t compat-del-net 'ip netns del n1'
t shared-no-move 'ip netns add n2 && rdma dev set rxe2 netns n2 2>&1 | tee /dev/stderr | grep -q "not supported"; ip netns del n2'
t settle 'for i in $(seq 100); do rdma system set netns exclusive && break; sleep .1; done; rdma system | tee /dev/stderr | grep -q "netns exclusive"'

# Exclusive mode: moves.
t move 'ip netns add n1 && rdma dev set rxe2 netns n1 && ! rdma dev show rxe2 && ip netns exec n1 rdma dev show rxe2'
t same-name 'rdma dev set rxe1 name rxe2 && rdma dev show rxe2 && ip netns exec n1 rdma dev show rxe2'
t move-conflict 'rdma dev set rxe2 netns n1 2>&1 | tee /dev/stderr | grep -q "File exists" && rdma dev show rxe2'
t refuge 'ip netns del n1; for i in $(seq 100); do [ "$(rdma dev | wc -l)" = 3 ] && break; sleep .1; done; rdma dev | tee /dev/stderr | grep -q ibdev'
t no-move-while-alone 'ip netns add n1 && rdma dev set rxe0 netns n1 && ip netns exec n1 rdma dev show rxe0 && ip netns del n1; for i in $(seq 100); do rdma dev show rxe0 && exit; sleep .1; done; false'
t shared-again 'for i in $(seq 100); do rdma system set netns shared && break; sleep .1; done; rdma system | tee /dev/stderr | grep -q "netns shared"'
t del-all 'for d in $(ls '$K'); do rdma link del $d || exit; done; ! ls '$K'/* 2> /dev/null'

# Everything at once.
storm() { # SECONDS LOOP...
	local end=$((SECONDS + $1)) pids=
	shift
	for loop; do
		(while [ $SECONDS -lt $end ]; do eval "$loop"; done) > /dev/null 2>&1 &
		pids="$pids $!"
	done
	# shellcheck disable=SC2086
	wait $pids
}
export -f storm
t storm-rename -T 120 'rdma link add rxe0 type rxe netdev d0; storm 20 \
	"rdma dev set rxe0 name rxe9; rdma dev set rxe9 name rxe0" \
	"for f in '$K'/*/uevent; do echo add > \$f; done" \
	"rdma dev show; rdma res show; cat '$K'/*/uevent" \
	"rdma link add rxe1 type rxe netdev d1; rdma link del rxe1"; rdma dev set rxe9 name rxe0; rdma link del rxe0'
t storm-netns -T 120 'storm 20 \
	"ip netns add a; ip netns del a" \
	"ip netns add b; ip netns exec b rdma dev; ip netns del b" \
	"rdma link add rxe1 type rxe netdev d1; rdma dev set rxe1 name rxe7; rdma link del rxe7; rdma link del rxe1" \
	"rdma link add rxe2 type rxe netdev d2; rdma link del rxe2"; rdma link del rxe7; rdma link del rxe1; rdma link del rxe2; true'
t storm-netdev -T 120 'storm 20 \
	"ip link add e0 type dummy; ip addr add 10.10.0.1/24 dev e0; ip link set e0 up; rdma link add rxe5 type rxe netdev e0 & ip link set e0 down; ip link del e0; wait" \
	"rdma link add rxe3 type rxe netdev d3; ip link set d3 down; ip link set d3 up; rdma link del rxe3" \
	"rdma link show; cat '$K'/*/ports/1/state"; ! dmesg | grep "to become free"'
t storm-clients -T 150 'storm 20 \
	"modprobe ib_umad; modprobe -r ib_umad" \
	"modprobe rdma_ucm; modprobe -r rdma_ucm rdma_cm" \
	"rdma link add rxe1 type rxe netdev d1; rdma link del rxe1"; rdma link del rxe1; true'
t storm-exclusive -T 150 'for i in $(seq 100); do rdma system set netns exclusive && break; sleep .1; done; storm 20 \
	"ip netns add a; rdma link add rxe1 type rxe netdev d1; rdma dev set rxe1 netns a; ip netns del a; for d in \$(ls '$K'); do rdma link del \$d; done" \
	"rdma link add rxe2 type rxe netdev d2; rdma dev set rxe2 name rxe1" \
	"rdma dev; cat '$K'/*/uevent"; sleep 2; for d in $(ls '$K'); do rdma link del $d; done; [ -z "$(ls '$K')" ] && for i in $(seq 100); do rdma system set netns shared && break; sleep .1; done'
t half-way 'rdma link add rxe0 type rxe netdev d0 && rmmod rdma_rxe && [ -z "$(ls '$K')" ] && modprobe rdma_rxe'
finish
