#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# kernels: stock
# cores: rust
# set: long
# timeout: 1200
# The calls of the classic verbs sheet, by a C module that includes
# rdma/ib_verbs_classic.h: over two devices, over one, and on fake ones. Ends with
# the table of the 59 calls. (On a kernel with KUnit the same cases are run by make kunit.)
. "$(dirname "$0")/lib.sh"

mod=build/$(uname -r)/tests/classic
rig_veth || { result FAIL rig; exit 1; }
# One of the cases takes the link down.
sysctl -qw net.ipv6.conf.va.keep_addr_on_down=1

cases() { # NAME MODULE [PARAMETER...]
	local name=$1 module=$2 rc=0
	shift 2
	dmesg -c > /dev/null
	timeout -k 5 400 insmod "$mod/$module.ko" "$@" 2> "$LOG/insmod-$name.txt" || rc=$?
	dmesg -t > "$LOG/$name.txt"
	[ $rc = 0 ] || result FAIL "$name:load" "status $rc: $(tail -n 1 "$LOG/insmod-$name.txt")"
	# One line for each, as of any suite; those of a run that broke off as well.
	python3 tests/classic/report.py results "$SUITE:$name" "$LOG/$name.txt"
	t "$name:unload" "rmmod $module"
}
cases two ib_classic_test dev0=rxe0 dev1=rxe1
cases one ib_classic_test dev0=rxe0 loopback=1
# What it takes failures, InfiniBand or two ports to show.
modprobe ib_fake
cases fake ib_classic_fake
t fake:gone 'rmmod ib_fake'
# Refuses to stay, but only after it was linked.
t links "insmod $mod/ib_classic_compile.ko 2>&1 | grep 'No such device'"
whole=PASS
python3 tests/classic/report.py table "$LOG"/{two,one,fake}.txt > "$OUT/table.txt" || whole=FAIL
result $whole table "$(grep -c ' pass ' "$OUT/table.txt") of 59 calls pass"
sed 's/^/# /' "$OUT/table.txt"
finish
