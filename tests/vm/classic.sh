#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# kernels: stock
# cores: rust
# set: long
# timeout: 1200
# The calls of the classic verbs sheet, by a C module that includes
# rdma/ib_verbs_classic.h: over two devices and over one. Ends with the table of
# the 59 calls. (On a kernel with KUnit the same cases are run by make kunit.)
. "$(dirname "$0")/lib.sh"

mod=build/$(uname -r)/tests/classic
rig_veth || { result FAIL rig; exit 1; }
# One of the cases takes the link down.
sysctl -qw net.ipv6.conf.va.keep_addr_on_down=1

cases() { # NAME [PARAMETER...]
	local name=$1 rc=0
	shift
	dmesg -c > /dev/null
	timeout -k 5 400 insmod "$mod/ib_classic_test.ko" "$@" 2> "$LOG/insmod-$name.txt" || rc=$?
	dmesg -t > "$LOG/$name.txt"
	[ $rc = 0 ] || result FAIL "$name:load" "status $rc: $(tail -n 1 "$LOG/insmod-$name.txt")"
	# One line for each, as of any suite; those of a run that broke off as well.
	python3 tests/classic/report.py results "$SUITE:$name" "$LOG/$name.txt"
	t "$name:unload" 'rmmod ib_classic_test'
}
cases two dev0=rxe0 dev1=rxe1
cases one dev0=rxe0 loopback=1
# Refuses to stay, but only after it was linked.
t links "insmod $mod/ib_classic_compile.ko 2>&1 | grep 'No such device'"
whole=PASS
python3 tests/classic/report.py table "$LOG/two.txt" "$LOG/one.txt" > "$OUT/table.txt" || whole=FAIL
result $whole table "$(grep -c ' pass ' "$OUT/table.txt") of 59 calls pass"
sed 's/^/# /' "$OUT/table.txt"
finish
