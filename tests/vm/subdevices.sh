#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# cores: rust
# timeout: 200
# Several sub-devices of one device. The C core links the lists the wrong way
# round: its second sub-device loses the first, so this is for ours only.
. "$(dirname "$0")/lib.sh"

modprobe ib_fake devices=2 || { result FAIL load; exit 1; }
sub() { printf 'rdma dev add %s type SMI parent %s' "$1" "$2"; }

t add "$(sub sub0 fake0) && $(sub sub1 fake0) && $(sub sub2 fake0) && rdma dev | tee /dev/stderr | grep -c ' sub[012]:' | grep -qx 3"
t delete-middle 'rdma dev delete sub1 && ! rdma dev show sub1 && rdma dev show sub0 && rdma dev show sub2'
t delete-first 'rdma dev delete sub0 && rdma dev show sub2'
t again "$(sub sub0 fake0) && $(sub sub1 fake0) && $(sub sub3 fake1)"
t parent-takes-its-own 'rdma link delete fake0 && rdma dev | tee /dev/stderr | grep -c . | grep -qx 2 && rdma dev show fake1 && rdma dev show sub3'
t at-once "for i in 1 2 3 4 5 6; do (for k in \$(seq 10); do $(sub 's$i' fake1) && rdma dev delete s\$i || exit 1; done) & done; rc=0; for j in \$(jobs -p); do wait \$j || rc=1; done; [ \$rc = 0 ] && rdma dev | grep -c . | grep -qx 2"
t unload 'modprobe -r ib_fake && [ -z "$(rdma dev)" ]'
