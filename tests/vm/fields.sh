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
# B22: ODP registrations corrupt nothing.
t b22 -T 300 "mkdir /tmp/rc && cp -r /usr/share/doc/rdma-core/tests /tmp/rc/ && find /tmp/rc -name '*.gz' -exec gunzip {} + && sha256sum /usr/bin/[a-d]* /usr/lib/x86_64-linux-gnu/libc.so.6 > /tmp/rc/sums 2> /dev/null; cd /tmp/rc && for i in 1 2 3 4 5; do PYV_DIR=/tmp/rc/tests PYV_RESULTS=/tmp/rc/res.\$i PYV_CURRENT=/tmp/rc/cur python3 $H/pyverbs_runner.py --dev rxe0 -k odp; cut -d' ' -f1,2 /tmp/rc/res.\$i | sort > /tmp/rc/s.\$i; cmp /tmp/rc/s.1 /tmp/rc/s.\$i || exit 1; done; grep -c PASS /tmp/rc/s.1 && ! grep FAIL /tmp/rc/s.1 && sha256sum --quiet -c /tmp/rc/sums"
finish
