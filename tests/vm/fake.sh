#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# Fake devices (Documentation/testing-your-ulp.md) on a running system: what the
# core makes of a driver that is not Soft-RoCE.
. "$(dirname "$0")/lib.sh"

K=/sys/class/infiniband
t load 'modprobe ib_fake devices=2 && rdma dev | tee /dev/stderr | grep -c " fake[01]:" | grep -qx 2'
t port "cd $K/fake0/ports/1 && cat link_layer lid sm_lid state rate gids/0 pkeys/0 pkeys/1 | tee /dev/stderr | tr '\n' ' ' | grep -E '^InfiniBand 0x1[01] 0x1 4: ACTIVE 10 Gb/sec \(4X SDR\) fe80(:[0-9a-f]{4}){7} 0xffff 0x0000 '"
t resources 'rdma res show fake0 | tee /dev/stderr | grep -q "pd 1 cq 1 qp 2"'
t node-desc "echo changed > $K/fake1/node_desc && grep -qx changed $K/fake1/node_desc"

# Errors of the driver.
F=/sys/kernel/debug/ib_fake/fail
C=/sys/kernel/debug/ib_fake/calls
N=$K/fake1/node_desc
t fail-next "echo 'fake1 modify_device 1 5' > $F && grep -qx 'fake1 modify_device 1 5' $F && ! echo a > $N && grep -qx changed $N && echo b > $N && grep -qx b $N && [ -z \"\$(cat $F)\" ]"
t fail-second "echo 'fake1 MODIFY_DEVICE 2 -5' > $F && echo a > $N && grep -qx 'fake1 modify_device 1 5' $F && ! echo b > $N && echo c > $N"
t fail-always "echo 'fake1 modify_device 0 28' > $F && for i in 1 2 3; do echo a > $N && exit 1; done; echo 'fake1 modify_device 0 0' > $F && echo a > $N && [ -z \"\$(cat $F)\" ]"
t calls "echo fake1 > $C && echo a > $N && echo b > $N && grep -x 'fake1 modify_device 2' $C"
t fail-refuses "for l in 'fake1 modify_device 1' 'fake1 modify_device 1 5 6' 'fake1 nothing 1 5' 'fake1 modify_device x 5' 'fake1 modify_device -1 5' 'fake1 modify_device 1 5000' 'none modify_device 1 5' '' \"fake1 modify_device 1 5\$(printf '%200s')\"; do echo \"\$l\" > $F && exit 1; done; [ -z \"\$(cat $F)\" ] && ! echo none > $C"

t rename 'rdma dev set fake1 name other && rdma dev show other && rdma dev set other name fake1'

# One sub-device; for several see the suite subdevices.
t sub-add 'rdma dev add sub0 type SMI parent fake0 && rdma dev show sub0'
t sub-bad-parent '! rdma dev add sub9 type SMI parent sub0 && ! rdma dev show sub9'
t sub-name-taken '! rdma dev add sub0 type SMI parent fake1 && [ "$(rdma dev | grep -c sub0)" = 1 ]'
t sub-delete 'rdma dev delete sub0 && ! rdma dev show sub0'
t sub-delete-parent '! rdma dev delete fake1 && rdma dev show fake1'
t parent-goes 'rdma dev add sub0 type SMI parent fake0 && rdma link delete fake0 && ! rdma dev | grep -E "fake0|sub0"'

# A link type of a driver.
ip link add d0 type dummy && ip link set d0 up && ip addr add 10.9.0.1/24 dev d0
t link-add 'rdma link add fk type fake netdev d0 && rdma link show fk/1 | tee /dev/stderr | grep -q "netdev d0"'
t link-gid "for i in \$(seq 50); do cat $K/fk/ports/1/gids/* 2> /dev/null | grep -q 0a09:0001 && exit 0; sleep 0.1; done; cat $K/fk/ports/1/gids/*; exit 1"
t link-delete 'rdma link delete fk && ! rdma dev show fk'
t unload 'rdma link add fk type fake netdev d0 && modprobe -r ib_fake && [ -z "$(rdma dev)" ]'
# A registration that fails at each step leaves nothing, and the name is free.
t fail-later "modprobe ib_fake && for op in query_device get_port_immutable enable_driver; do echo \"* \$op 1 28\" > $F && ! rdma link add fk type fake netdev d0 2> /tmp/e && grep -i 'no space' /tmp/e && ! rdma dev show fk || exit 1; echo \"* \$op 0 0\" > $F; rdma link add fk type fake netdev d0 && rdma link delete fk || exit 1; done; [ -z \"\$(cat $F)\" ]"
t fail-sub-later "modprobe -r ib_fake && modprobe ib_fake devices=1 && echo 'fake0 add_sub_dev 1 12' > $F && ! rdma dev add sub0 type SMI parent fake0 2> /tmp/e && grep -i 'cannot allocate' /tmp/e && rdma dev add sub0 type SMI parent fake0 && rdma dev show sub0 && modprobe -r ib_fake && ! [ -e $F ]"
t iwarp 'modprobe ib_fake protocol=2 && rdma link add fw type fake netdev d0 && rdma dev show fw | tee /dev/stderr | grep -q "node_type rnic" && modprobe -r ib_fake'
t bad-protocol '! modprobe ib_fake devices=1 protocol=9 && [ -z "$(rdma dev)" ] && ! [ -e /sys/module/ib_fake ]'
