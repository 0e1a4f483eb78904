#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 1200
# Cases from field reports that can be decided from user space (fields.py).
. "$(dirname "$0")/lib.sh"
H=$(dirname "$0")

rig_dummy || { result FAIL rig; exit 1; }
for c in b01 b03 b07 b12 b13 b15 b17 b18 b20 b29 b31; do
	case $c in b07 | b15) limit=300 ;; *) limit=150 ;; esac
	t $c -T $limit "python3 $H/fields.py $c" || {
		# The next case starts from a good state.
		remove_links
		for n in d0 e0 up0 w0 m0 m9 d2; do ip link del $n 2> /dev/null; done
		rig_dummy
	}
done
finish
