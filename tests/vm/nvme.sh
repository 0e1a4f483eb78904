#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# cores: rust
# rxe: both
# timeout: 600
# A kernel consumer on both ends: nvmet-rdma and nvme-rdma over rxe0. Fast
# registration, MR pools, RDMA READ and WRITE contexts, CQ polling, draining.
. "$(dirname "$0")/lib.sh"

rig_dummy || { result FAIL rig; exit 1; }
C=/sys/kernel/config/nvmet
nqn=testnqn
t modules 'modprobe rdma_cm && modprobe nvmet-rdma && modprobe nvme-rdma && modprobe loop'
truncate -s 128M /tmp/ns1.img
t target "losetup /dev/loop0 /tmp/ns1.img && mkdir $C/subsystems/$nqn && cd $C/subsystems/$nqn &&
	echo 1 > attr_allow_any_host && mkdir namespaces/1 && echo -n /dev/loop0 > namespaces/1/device_path &&
	echo 1 > namespaces/1/enable && mkdir $C/ports/1 && cd $C/ports/1 && echo 10.9.0.1 > addr_traddr &&
	echo rdma > addr_trtype && echo 4420 > addr_trsvcid && echo ipv4 > addr_adrfam &&
	ln -s $C/subsystems/$nqn $C/ports/1/subsystems/$nqn"
connect() { # [OPTIONS]
	echo "nqn=$nqn,transport=rdma,traddr=10.9.0.1,trsvcid=4420,nr_io_queues=2,queue_size=64$1" > /dev/nvme-fabrics &&
		for _ in $(seq 100); do [ -b /dev/nvme0n1 ] && return; sleep 0.1; done
	return 1
}
drop() {
	for d in /sys/class/nvme/nvme*/delete_controller; do [ -e "$d" ] && echo 1 > "$d"; done
	for _ in $(seq 100); do [ -e /sys/class/nvme/nvme0 ] || return 0; sleep 0.1; done
	return 1
}
t connect "nqn=$nqn; $(declare -f connect); connect && rdma resource show && rdma resource show mr | wc -l"
for bs in 4k 64k 1M; do
	t "copy-$bs" "head -c 16M /dev/urandom > /tmp/a && dd if=/tmp/a of=/dev/nvme0n1 bs=$bs oflag=direct &&
		dd if=/dev/nvme0n1 of=/tmp/b bs=$bs iflag=direct count=16M iflag=direct,count_bytes && cmp /tmp/a /tmp/b"
done
t parallel 'for i in 0 1 2 3; do dd if=/tmp/a of=/dev/nvme0n1 bs=64k seek=$((i * 256)) oflag=direct & done; wait
	for i in 0 1 2 3; do dd if=/dev/nvme0n1 bs=64k skip=$((i * 256)) count=256 iflag=direct | cmp - /tmp/a || exit 1; done'
t reset 'echo 1 > /sys/class/nvme/nvme0/reset_controller && sleep 2 && dd if=/dev/nvme0n1 bs=4k count=64 iflag=direct | cmp -n 262144 - /tmp/a'
t disconnect "$(declare -f drop); drop"
for i in 1 2 3; do
	t "again-$i" "nqn=$nqn; $(declare -f connect drop); connect && dd if=/dev/nvme0n1 bs=64k count=16 iflag=direct | cmp -n 1048576 - /tmp/a && drop"
done
t no-leak '! rdma resource show mr | grep nvm && ! rdma resource show qp | grep nvm && ! rdma resource show pd | grep nvme_rdma'
t unplug "nqn=$nqn; $(declare -f connect drop); connect && timeout 60 rdma link del rxe0 && sleep 3; drop; ! [ -e /sys/class/infiniband/rxe0 ]"
t teardown "rm -f $C/ports/1/subsystems/$nqn; rmdir $C/ports/1; echo 0 > $C/subsystems/$nqn/namespaces/1/enable;
	rmdir $C/subsystems/$nqn/namespaces/1 $C/subsystems/$nqn; losetup -d /dev/loop0; modprobe -r nvmet-rdma nvme-rdma && modprobe -r rdma_cm"
finish
