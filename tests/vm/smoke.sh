#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# debug: rust
# Load, link add and delete, devinfo, the four pingpongs over IPv4 and IPv6, in
# one namespace and between two, unload.
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2154 # set by scripts/vm
case $core in
rust) want='*/updates/ib_core.ko' ;;
*) want='*/kernel/drivers/infiniband/core/ib_core.ko' ;;
esac
t which-core "case \$(modinfo -n ib_core) in $want) ;; *) false ;; esac"
t load 'modprobe rdma_rxe && modprobe ib_uverbs && ls -d /sys/module/{ib_core,ib_uverbs,ib_uverbs_support,rdma_rxe}'

t rig-dummy "$(declare -f load_stack wait_gid rig_dummy); rig_dummy"
t link-show 'rdma link show | grep "^link rxe0/1 state ACTIVE physical_state LINK_UP netdev d0"'
t sysfs 'cat /sys/class/infiniband/rxe0/{node_type,node_guid,ports/1/{state,rate,link_layer,gids/{0,1,2}}}'
t uverbs-node '[ -c /dev/infiniband/uverbs0 ]'
t devices 'ibv_devices | grep rxe0'
t devinfo 'ibv_devinfo -v -d rxe0 | grep -c "GID\[" | { read n; [ "$n" -ge 3 ]; }'
t link-duplicate '! rdma link add rxe0 type rxe netdev d0'

v4() { gid_index "$1" "0000:0000:0000:0000:0000:ffff:0a09:000$2"; }
v6() { gid_index "$1" "fd00:0009:0000:0000:0000:0000:0000:000$2"; }
pp() { # NAME SERVERPREFIX SERVERDEV GID CLIENTPREFIX CLIENTDEV GID ADDRESS
	for k in rc uc ud srq; do
		n='-n 50'
		s='-s 4096'
		case $k in ud) s='-s 1024' ;; srq) n='-n 50 -q 4' ;; esac
		pair "$1-$k" "$2 ibv_${k}_pingpong -d $3 -g $4 $s $n -e" "$5 ibv_${k}_pingpong -d $6 -g $7 $s $n -e $8"
	done
}
pp one-v4 '' rxe0 "$(v4 rxe0 1)" '' rxe0 "$(v4 rxe0 1)" 10.9.0.1
pp one-v6 '' rxe0 "$(v6 rxe0 1)" '' rxe0 "$(v6 rxe0 1)" 10.9.0.1
t link-del 'rdma link del rxe0 && ! [ -e /sys/class/infiniband/rxe0 ] && ip link del d0'

t rig-veth "$(declare -f load_stack wait_gid rig_veth); rig_veth"
N='ip netns exec peer'
pp two-v4 "$N" rxe1 "$(v4 rxe1 2)" '' rxe0 "$(v4 rxe0 1)" 10.9.0.2
pp two-v6 "$N" rxe1 "$(v6 rxe1 2)" '' rxe0 "$(v6 rxe0 1)" 10.9.0.2
finish
t reload 'modprobe rdma_rxe && modprobe -r rdma_rxe && modprobe -r ib_uverbs; ! [ -d /sys/module/ib_core ] || modprobe -r ib_core'
