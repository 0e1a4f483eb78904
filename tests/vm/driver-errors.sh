#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# cores: rust
# timeout: 300
# A driver that fails where the C core is not prepared for it: there a device
# that a driver would not delete cannot be deleted any more, and an event that
# could not be told reads a network device that is not there. So this is for our
# core only. The fake devices' errors are scripted through debugfs.
. "$(dirname "$0")/lib.sh"
H=$(dirname "$0")

F=/sys/kernel/debug/ib_fake/fail
modprobe ib_fake devices=2 || { result FAIL load; exit 1; }
ip link add d0 type dummy && ip link set d0 up && ip addr add 10.9.0.1/24 dev d0

# A delete that hangs must not hang the suite.
cat > /tmp/delete << 'EOF'
rdma link delete "$1" & for _ in $(seq 150); do rdma dev show "$1" > /dev/null 2>&1 || exit 0; sleep 0.1; done
echo "$1 is still there"; exit 1
EOF

t dellink-error "echo 'fake0 dellink 1 16' > $F && rdma link delete fake0 2>&1 | tee /dev/stderr | grep -qi 'resource busy' && rdma dev show fake0"
t dellink-leaves-it-usable "echo again > /sys/class/infiniband/fake0/node_desc && rdma dev set fake0 name other && rdma dev set other name fake0"
t dellink-again 'bash /tmp/delete fake0'
t dellink-often "echo 'fake1 dellink 0 5' > $F && for i in \$(seq 100); do rdma link delete fake1 2> /dev/null && exit 1; done; echo 'fake1 dellink 0 0' > $F && bash /tmp/delete fake1"
t dellink-of-a-link "rdma link add fk type fake netdev d0 && echo 'fk dellink 1 11' > $F && ! rdma link delete fk && rdma link show fk/1 | tee /dev/stderr | grep -q 'netdev d0' && bash /tmp/delete fk"
t dellink-at-once "rdma link add fk type fake netdev d0 && echo 'fk dellink 1 16' > $F && for i in 1 2 3 4; do rdma link delete fk 2> /dev/null & done; for i in \$(seq 100); do rdma dev show fk > /dev/null 2>&1 || exit 0; sleep 0.1; done; exit 1"

# Somebody who wants to know of missed events, and misses them.
t unheard "rdma link add fk type fake netdev d0 && rdma dev show fk"
python3 "$H/deaf.py" 600 > /tmp/deaf &
deaf=$!
for _ in $(seq 100); do grep -q joined /tmp/deaf && break; sleep 0.1; done
t unheard-rename "for i in \$(seq 20); do rdma dev set fk name fx && rdma dev set fx name fk || exit 1; dmesg | grep 'Failed to send RDMA monitor rename device event' && exit 0; done; exit 1"
# The network device is gone from the 1st, 2nd ... look at it on.
t unheard-netdev "for n in 1 2 3 4 5; do echo \"fk get_netdev \$n 19\" > $F; ip link set d0 name d1 || exit 1; echo 'fk get_netdev 0 0' > $F; ip link set d1 name d0 || exit 1; done; dmesg | grep 'RDMA monitor netdev rename event: port 1$'"
t unheard-netdev-named "sleep 6; ip link set d0 name d1 && ip link set d1 name d0; dmesg | grep -E 'RDMA monitor netdev rename event: port 1 netdev [0-9]+\$'"
t unheard-gone "bash /tmp/delete fk && rdma link add fk type fake netdev d0"
kill $deaf
t heard "timeout 5 stdbuf -oL rdma monitor > /tmp/heard & sleep 2; rdma dev set fk name fy && rdma dev set fy name fk; wait; grep -q fy /tmp/heard"
t delete-all 'bash /tmp/delete fk && ip link del d0 && modprobe -r ib_fake && [ -z "$(rdma dev)" ]'
