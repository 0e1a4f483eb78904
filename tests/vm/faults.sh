#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# kernels: debug
# timeout: 1500
# vm: --rxe=rust --append kunit.enable=0
# Every allocation that ib_core makes in a call fails once: the n-th one for
# n = 1, 2 ... until the call gets through without (fail-nth). Each refusal has
# an errno of the list, nothing is left behind, the same call works afterwards.
# Leaks, lock order and the rest are the debug kernel's to report.
# With our rdma_rxe: the distribution's says -EPERM where memory is short for its socket.
# Names of groups as arguments run these only:
# scripts/vm --kernel=debug --rxe=rust -- tests/vm/faults.sh netlink sysfs
. "$(dirname "$0")/lib.sh"
H=$(dirname "$0")

for f in failslab fail_page_alloc; do
	d=/sys/kernel/debug/$f
	echo N > $d/ignore-gfp-wait
	echo 0 > $d/verbose
	echo N > $d/task-filter
	echo 0 > $d/probability
done
echo N > /sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem
echo 0 > /sys/kernel/debug/fail_page_alloc/min-order
echo 0 > /sys/kernel/debug/fail_usercopy/verbose

load_stack ib_umad rdma_ucm || { result FAIL load; exit 1; }
ip link add d0 type dummy
ip link set d0 address 02:00:00:00:00:01 up
ip addr add 10.9.0.1/24 dev d0

walk() { # GROUP...
	local log=$LOG/walk-$1.txt
	timeout 600 python3 "$H/faults.py" "$@" > "$log" 2>&1
	local rc=$?
	grep -E '^(PASS|FAIL|SKIP) ' "$log"
	[ $rc = 0 ] || { result FAIL "$1" "status $rc: $(tail -n 1 "$log")"; tail -n 20 "$log" >&2; }
}

groups=" ${*:-link netns netlink verbs sysfs events load} "
wanted() { [[ $groups == *" $1 "* ]]; }

modprobe ib_fake
if wanted link; then walk link; fi
if wanted netns; then
	rdma link add fake0 type fake netdev d0
	walk netns
	rdma link delete fake0
fi
modprobe -r ib_fake
rdma link add rxe0 type rxe netdev d0
wait_gid rxe0
for g in netlink verbs sysfs events; do
	if wanted $g; then walk $g; fi
done
pair still-works "ibv_rc_pingpong -d rxe0 -g 1 -n 20 -e" "ibv_rc_pingpong -d rxe0 -g 1 -n 20 -e 10.9.0.1"
remove_links
unload_stack > "$LOG/unload.txt" 2>&1 || result FAIL unload "$(paste -sd' ' "$LOG/unload.txt")"
if wanted load; then
	walk load
	t load-works 'modprobe rdma_rxe && modprobe ib_uverbs'
fi
finish
