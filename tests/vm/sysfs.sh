#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# rxe: both
# The tree that user space sees: sysfs, device nodes, tracepoints, threads,
# modinfo. Golden texts.
. "$(dirname "$0")/lib.sh"
G=$OUT/golden
H=$(dirname "$0")
mkdir -p "$G"

rig_dummy || { result FAIL rig; exit 1; }
for m in ib_umad rdma_ucm; do modprobe $m; done
D=$(readlink -f /sys/class/infiniband/rxe0)
# rxe makes node_guid of random bytes.
guid=$(cat "$D/node_guid")
dump() { python3 "$H/sysdump.py" "$@" | sed "s/$guid/GUID/g"; }

t tree "[ -d $D/ports/1/gids ]"
dump "$D" | sed -E 's#(/(hw_)?counters/[a-z_0-9]+): [0-9]+$#\1: N#' > "$G/device.txt"
dump /sys/class/infiniband /sys/class/infiniband_verbs /sys/class/infiniband_mad \
	"$(readlink -f /sys/class/infiniband_verbs/uverbs0)" "$(readlink -f /sys/class/infiniband_mad/umad0)" > "$G/classes.txt"
dump /sys/module/ib_core | grep -vE '/(holders|sections|notes)/' > "$G/module.txt"
(cd /sys/module/ib_core/holders && find . -type l | sort) > "$G/holders.txt"
(cd /dev/infiniband && stat -c '%A %t:%T %n' ./* | sort) > "$G/nodes.txt"
grep -iE 'infiniband|rdma|uverbs|umad|ucm' /proc/devices > "$G/proc-devices.txt"
find /proc/sys/net -ipath '*rdma*' -o -ipath '*/ib*' | sort > "$G/proc-sys.txt"
for s in /sys/kernel/tracing/events/*; do
	case ${s##*/} in
	rdma_core | ib_mad | ib_* | mad | restrack)
		find "$s" -name format | sort | while read -r f; do
			echo "== ${f#/sys/kernel/tracing/events/}"
			sed -E 's/^ID: .*/ID: N/' "$f"
		done
		;;
	esac
done > "$G/tracepoints.txt"
t tracepoints "[ \$(grep -c '^== rdma_core/' $G/tracepoints.txt) -ge 10 ] && [ \$(grep -c '^== ib_mad/' $G/tracepoints.txt) -ge 10 ]"
modinfo -F filename ib_core > /tmp/x
modinfo ib_core | grep -E '^(alias|license|description|author|import_ns|depends|name|parm|vermagic):' |
	sort > "$G/modinfo.txt"
# The kernel threads of ib_core's workqueues and their sysfs.
ps -eo comm | grep -E 'ib_|ib-|infiniband|rdma|gid-cache' | sort > "$G/threads.txt"
find /sys/devices/virtual/workqueue -maxdepth 1 -name '*ib*' | sort > "$G/workqueues.txt"
for f in /sys/bus/workqueue/devices/*ib*; do dump "$f/"; done > "$G/workqueue-attrs.txt" 2> /dev/null
find /sys/kernel/debug -maxdepth 2 2> /dev/null | grep -iE 'infiniband|ib_core' | sort > "$G/debugfs.txt"

t counters "cat $D/ports/1/hw_counters/*"
t gid-attrs "cat $D/ports/1/gid_attrs/types/0 $D/ports/1/gid_attrs/ndevs/0"
t gid-empty "! cat $D/ports/1/gid_attrs/types/200"
t lifespan "echo 20 > $D/ports/1/hw_counters/lifespan && [ \$(cat $D/ports/1/hw_counters/lifespan) = 20 ]"
t lifespan-refuse "! echo 10001 > $D/ports/1/hw_counters/lifespan && ! echo -1 > $D/ports/1/hw_counters/lifespan && ! echo x > $D/ports/1/hw_counters/lifespan && [ \$(cat $D/ports/1/hw_counters/lifespan) = 20 ]"
t node-desc "echo hello > $D/node_desc && grep hello $D/node_desc"
t node-desc-long "head -c 200 /dev/zero | tr '\\0' x > $D/node_desc; wc -c < $D/node_desc"
wc -c < "$D/node_desc" > "$G/node-desc-long.txt"
# GIDs follow the addresses.
{
	ip addr add 10.9.3.1/24 dev d0
	ip addr add fd00:9::77/64 dev d0 nodad
	ip link add link d0 name d0.7 type vlan id 7 && ip addr add 10.9.7.1/24 dev d0.7 && ip link set d0.7 up
	sleep 1
	echo "+ added"
	grep -v '^0000:0000:0000:0000:0000:0000:0000:0000$' "$D"/ports/1/gids/* | sed "s#$D##" | sort -t/ -k5n
	grep . "$D"/ports/1/gid_attrs/{types,ndevs}/* 2> /dev/null | sed "s#$D##" | sort -t/ -k5n
	ip addr del 10.9.3.1/24 dev d0
	ip link del d0.7
	sleep 1
	echo "+ deleted"
	grep -v '^0000:0000:0000:0000:0000:0000:0000:0000$' "$D"/ports/1/gids/* | sed "s#$D##" | sort -t/ -k5n
	ip link set d0 address 02:00:00:00:00:99
	sleep 1
	echo "+ address changed"
	grep -v '^0000:0000:0000:0000:0000:0000:0000:0000$' "$D"/ports/1/gids/* | sed "s#$D##" | sort -t/ -k5n
} > "$G/gids.txt" 2>&1
t gids "grep -q fd00:0009:0000:0000:0000:0000:0000:0077 $G/gids.txt"
t trace-fires "cd /sys/kernel/tracing; for e in rdma_core ib_mad; do echo 1 > events/\$e/enable; done; : > trace; rdma link del rxe0; rdma link add rxe0 type rxe netdev d0; sleep 0.5; for e in rdma_core ib_mad; do echo 0 > events/\$e/enable; done; grep -v '^#' trace | sed -E 's/^.*[0-9]: ([a-z_0-9]+): .*/\\1/' | sort | uniq -c | tee /tmp/trace; grep -q cq_alloc /tmp/trace && grep -q mr_alloc\\\\\\|cq_free /tmp/trace"
awk '{ print $2 }' /tmp/trace > "$G/trace-of-link-cycle.txt"
t rescan 'ip link set d0 down; sleep 0.5; cat /sys/class/infiniband/rxe0/ports/1/{state,phys_state,rate}; ip link set d0 up; sleep 0.5; cat /sys/class/infiniband/rxe0/ports/1/{state,phys_state,rate}'
tail -n +2 "$LOG/rescan.txt" > "$G/port-down-up.txt"
finish
