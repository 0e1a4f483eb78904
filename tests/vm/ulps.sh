#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# cores: rust
# kernels: stock
# timeout: 1200
# The distribution's own modules on this ib_core: every one that depends on it
# loads, is a client of a device and goes again; NFS moves files, SRP a disk's data
# and RDS messages between the two ends of one host.
. "$(dirname "$0")/lib.sh"

rig_dummy || { result FAIL rig; exit 1; }
here=$(dirname "$0")
target=/sys/kernel/config/target

# Without the stack's own modules: they are loaded.
# shellcheck disable=SC2086,SC2154 # a list
users=$(sed -nE '/^kernel.*ib_core\.ko/s#^([^:]*/)?([^/:]+)\.ko[^:]*:.*#\2#p' "/lib/modules/$(uname -r)/modules.dep" |
	tr - _ | sort | grep -vxF "$(printf '%s\n' $stack_modules)" | paste -sd' ')
for m in $users; do
	# Its trace events make this kernel warn, whatever the core.
	[ "$m" != hfi1 ] || { result SKIP load-hfi1 "warns of its own trace events"; continue; }
	t "load-$m" "modprobe $m && [ -d /sys/module/$m ]"
done
t device-again 'timeout 60 rdma link del rxe0 && rdma link add rxe0 type rxe netdev d0 && rdma link show rxe0/1 | grep ACTIVE'
wait_gid rxe0 2
t unload-users "users='$users'; for i in 1 2 3; do for m in \$users; do
	[ ! -d /sys/module/\$m ] || modprobe -r \$m; done; done 2> /dev/null
	! grep -E \"^(\${users// /|}) \" /proc/modules"

# What exportfs and mountd would tell the kernel: who may ask, what file system 0
# is and how it is exported (with fsid, for root as root, without subtree checks).
nfs_server() {
	local rpc=/proc/net/rpc nfsd=/proc/fs/nfsd never=2147483647
	modprobe -a nfsd svcrdma && { [ -e $nfsd/threads ] || mount -t nfsd nfsd $nfsd; } &&
		mkdir -p /tmp/export && mount -t tmpfs export /tmp/export &&
		echo "nfsd 10.9.0.1 $never local" > $rpc/auth.unix.ip/channel &&
		printf '%s\n' "local 1 \\x00000000 $never /tmp/export" > $rpc/nfsd.fh/channel &&
		echo "local /tmp/export $never $((0x2412)) 65534 65534 0" > $rpc/nfsd.export/channel &&
		# Version 3 would want a port mapper.
		echo "-3 +4 +4.2" > $nfsd/versions && echo 10 > $nfsd/nfsv4leasetime && echo 10 > $nfsd/nfsv4gracetime &&
		echo "rdma 20049" > $nfsd/portlist && echo 4 > $nfsd/threads && grep 20049 $nfsd/portlist
}
# One connection from the first request to the last, and no request twice.
nfs_calm() {
	grep 'xprt:.*rdma' /proc/self/mountstats &&
		awk '/device .* fstype nfs4/ { on = 1 } on && $1 == "xprt:" && $2 == "rdma" { connects = $5 }
			on && /^[ \t]+[A-Z_]+: [0-9]/ { if ($2 != $3) { print "sent again:", $0; bad = 1 } }
			END { print "connects:", connects; exit bad || connects != 1 }' /proc/self/mountstats
}
t nfs-server "$(declare -f nfs_server); nfs_server"
t nfs-mount 'mkdir -p /tmp/nfs && mount -i -t nfs4 -o vers=4.2,proto=rdma,port=20049,addr=10.9.0.1,clientaddr=10.9.0.1 10.9.0.1:/ /tmp/nfs &&
	grep " /tmp/nfs nfs4 .*proto=rdma" /proc/mounts'
t nfs-copy 'head -c 16M /dev/urandom > /tmp/a && cp /tmp/a /tmp/nfs/a && cmp /tmp/a /tmp/export/a && echo 3 > /proc/sys/vm/drop_caches &&
	cmp /tmp/a /tmp/nfs/a'
# 1 MiB at a time by four at once: as many regions as there can be (B28).
t nfs-parallel 'for i in 1 2 3 4; do dd if=/tmp/a of=/tmp/nfs/p$i bs=1M oflag=direct & done; wait
	for i in 1 2 3 4; do dd if=/tmp/nfs/p$i bs=1M iflag=direct | cmp - /tmp/a & jobs[i]=$!; done; for j in "${jobs[@]}"; do wait $j || exit 1; done
	for i in 1 2 3 4; do cmp /tmp/a /tmp/export/p$i || exit 1; done'
t nfs-calm "$(declare -f nfs_calm); nfs_calm"
t nfs-gone 'umount /tmp/nfs && echo 0 > /proc/fs/nfsd/threads && umount /tmp/export && ! rdma resource show qp | grep "type RC" &&
	modprobe -r nfsv4 && umount /proc/fs/nfsd && modprobe -r nfsd && modprobe -r rpcrdma'

# The names of ports and of their groups are the node GUID; the ACL is the initiator's address.
srp_target() {
	local guid port group
	guid=$(cat /sys/class/infiniband/rxe0/node_guid)
	port=$target/srpt/$guid group=$target/srpt/$guid/$guid
	mkdir -p $target/core/rd_mcp_0/disk &&
		echo rd_pages=8192 > $target/core/rd_mcp_0/disk/control &&
		echo 1 > $target/core/rd_mcp_0/disk/enable &&
		mkdir $target/srpt && echo 5555 > $target/srpt/discovery_auth/rdma_cm_port &&
		mkdir "$port" && mkdir "$group" && mkdir "$group/lun/lun_0" &&
		ln -s $target/core/rd_mcp_0/disk "$group/lun/lun_0/" &&
		mkdir "$group/acls/10.9.0.1" && mkdir "$group/acls/10.9.0.1/lun_0" &&
		ln -s "$group/lun/lun_0" "$group/acls/10.9.0.1/lun_0/" && echo 1 > "$group/enable"
}
srp_target_gone() {
	local group
	for group in "$target"/srpt/*:*/*:*; do
		rm -f "$group"/acls/10.9.0.1/lun_0/lun_0 "$group/lun/lun_0/disk"
		rmdir "$group/acls/10.9.0.1/lun_0" "$group/acls/10.9.0.1" "$group/lun/lun_0" "$group" "${group%/*}" || return 1
	done
	rmdir $target/srpt $target/core/rd_mcp_0/disk $target/core/rd_mcp_0
}
srp_disk() {
	local d
	for _ in $(seq 100); do
		for d in /sys/class/scsi_disk/*/device/block/sd*; do
			[ -e "$d" ] && { echo "/dev/${d##*/}"; return 0; }
		done
		sleep 0.1
	done
	return 1
}
login() {
	local guid
	guid=$(cat /sys/module/ib_srpt/parameters/srpt_service_guid)
	echo "id_ext=${guid#0x},ioc_guid=${guid#0x},dest=10.9.0.1:5555" > /sys/class/infiniband_srp/srp-rxe0-1/add_target
}
t srp-target "target=$target; $(declare -f srp_target); modprobe -a target_core_mod ib_srpt && srp_target"
t srp-login "$(declare -f login srp_disk); modprobe ib_srp && modprobe sd_mod && login && srp_disk && rdma resource show"
for bs in 4k 64k 1M; do
	t "srp-copy-$bs" "$(declare -f srp_disk); d=\$(srp_disk) && head -c 8M /dev/urandom > /tmp/a && dd if=/tmp/a of=\$d bs=$bs oflag=direct &&
		dd if=\$d of=/tmp/b bs=$bs iflag=direct,count_bytes count=8M && cmp /tmp/a /tmp/b"
done
t srp-logout 'for p in /sys/class/srp_remote_ports/port-*/delete; do echo 1 > $p; done; sleep 1; ! ls /sys/class/srp_remote_ports/port-* 2> /dev/null'
t srp-link-gone "$(declare -f login srp_disk); login && srp_disk && timeout 60 rdma link del rxe0 && ! [ -e /sys/class/infiniband/rxe0 ]"
t srp-target-gone "target=$target; $(declare -f srp_target_gone); srp_target_gone && modprobe -r ib_srp && modprobe -r ib_srpt"
modprobe -r rdma_cm 2> /dev/null
finish

# Last, as rds_rdma cannot be unloaded any more: the distribution's module does not
# free a connection of a host to itself, and crashes then on either core.
rig_dummy || { result FAIL rds-rig; exit 1; }
t rds "modprobe rds_rdma && python3 $here/rds.py 10.9.0.1 &&
	[ \$(rdma resource show qp | tee /dev/stderr | grep -c 'type RC state RTS') = 2 ]"
t rds-link-gone 'timeout 60 rdma link del rxe0 && ! [ -e /sys/class/infiniband/rxe0 ] && rdma resource show qp && [ -z "$(rdma resource show qp)" ]'
