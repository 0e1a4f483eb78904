#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# What iproute2's rdma prints, plain, -d and -j -p: golden texts. Process ids,
# keys and addresses are masked; restrack ids, QP numbers and counts are not.
. "$(dirname "$0")/lib.sh"
G=$OUT/golden
mkdir -p "$G"

norm() {
	sed -E 's/\b(pid|rkey|lkey|local_dma_lkey|unsafe_global_rkey|iova|node_guid|sys_image_guid|node-guid|sys-image-guid) [^ ]+/\1 X/g
		s/"(pid|rkey|lkey|local_dma_lkey|unsafe_global_rkey|iova|node_guid|sys_image_guid)": *"?[^,"}]+"?/"\1": "X"/g
		s/\b(psn|rq-psn|sq-psn) [0-9]+/\1 X/g; s/"(rq-psn|sq-psn)": [0-9]+/"\1": X/g; s/[ \t]+$//
		s/, ?"?XRC"?//'		# our rdma_rxe has it, the distribution's not
}
g() { # NAME CMD...
	local n=$1
	shift
	t "$n" "$* > /tmp/g 2>&1; rc=\$?; cat /tmp/g; exit \$rc"
	norm < /tmp/g > "$G/$n.txt"
}

rig_dummy || { result FAIL rig; exit 1; }
python3 "$(dirname "$0")/objects.py" rxe0 /tmp/ready &
holder=$!
for _ in $(seq 300); do [ -e /tmp/ready ] && break; sleep 0.1; done

g system 'rdma system show'
g system-jp 'rdma -j -p system show'
g dev 'rdma dev show'
g dev-d 'rdma -d dev show'
g dev-jp 'rdma -j -p -d dev show'
g link 'rdma link show'
g link-d 'rdma -d link show'
g link-jp 'rdma -j -p -d link show'
g link-port 'rdma link show rxe0/1'
g res 'rdma resource show'
g res-d 'rdma -d resource show'
g res-jp 'rdma -j -p resource show'
for o in qp cm_id cq pd mr ctx srq; do
	g "res-$o" "rdma resource show $o"
	g "res-$o-d" "rdma -d -dd resource show $o"
	g "res-$o-jp" "rdma -j -p -d resource show $o"
	case $o in qp) w='link rxe0/1' ;; *) w='dev rxe0' ;; esac
	g "res-$o-one" "rdma resource show $o $w"
done
g res-qp-type 'rdma resource show qp link rxe0/1 type RC,UC'
g res-qp-pid "rdma resource show qp pid $holder"
g res-qp-lqpn 'rdma resource show qp link rxe0/1 lqpn 17'
g res-cq-cqn 'rdma resource show cq dev rxe0 cqn 0'
g stat 'rdma statistic show'
g stat-jp 'rdma -j -p statistic show'
g stat-link 'rdma statistic show link rxe0/1'
g stat-mode 'rdma statistic mode'
g stat-mode-supported 'rdma statistic mode supported'
g stat-qp-mode 'rdma statistic qp mode'
g stat-qp-mode-link 'rdma statistic qp mode link rxe0/1'
g stat-auto 'rdma statistic qp set link rxe0/1 auto type on && rdma statistic qp mode && rdma statistic qp show && rdma statistic qp set link rxe0/1 auto off && rdma statistic qp mode'
g stat-bind 'rdma statistic qp bind link rxe0/1 lqpn 17; echo $?; rdma statistic qp show; rdma statistic qp mode; rdma statistic qp unbind link rxe0/1 cntn 1; echo $?; rdma statistic qp show'
g privileged-qkey 'rdma system set privileged-qkey on && rdma system show && rdma system set privileged-qkey off && rdma system show'
g adaptive-moderation 'rdma dev set rxe0 adaptive-moderation off; rdma -d dev show; rdma dev set rxe0 adaptive-moderation on; rdma -d dev show'
# What must be refused, and how.
g refuse-dup '! rdma link add rxe0 type rxe netdev d0'
g refuse-type '! rdma link add x0 type nonesuch netdev d0'
g refuse-percent '! rdma link add x%d type rxe netdev d0'
g refuse-netdev '! rdma link add x0 type rxe netdev nonesuch'
g refuse-del '! rdma link del nonesuch'
g refuse-rename-taken 'ip link add d1 type dummy && ip link set d1 up && rdma link add rxe1 type rxe netdev d1 && ! rdma dev set rxe1 name rxe0; rc=$?; rdma dev; rdma link del rxe1; ip link del d1; exit $rc'
g refuse-rename-empty '! rdma dev set rxe0 name ""'
g refuse-mode-busy 'ip netns add x && ! rdma system set netns exclusive; rc=$?; ip netns del x; exit $rc'
g refuse-move-shared 'ip netns add x && ! rdma dev set rxe0 netns x; rc=$?; ip netns del x; exit $rc'
g rename 'rdma dev set rxe0 name foo0 && rdma dev show && ls /sys/class/infiniband && ls /sys/fs/cgroup/rdma.* 2> /dev/null; rdma dev set foo0 name rxe0 && rdma dev show'
g rename-same 'rdma dev set rxe0 name rxe0; echo $?; rdma dev'
g rename-percent 'rdma dev set rxe0 name r%d; echo $?; rdma dev; rdma dev set $(ls /sys/class/infiniband) name rxe0; rdma dev'
g netns-shared 'ip netns add x && ip netns exec x rdma dev && ip netns exec x rdma link && ip netns exec x rdma -d res; ip netns del x'
g cgroup 'echo +rdma > /sys/fs/cgroup/cgroup.subtree_control && mkdir /sys/fs/cgroup/r && echo "rxe0 hca_handle=2 hca_object=3" > /sys/fs/cgroup/r/rdma.max && cat /sys/fs/cgroup/r/rdma.max && (echo $BASHPID > /sys/fs/cgroup/r/cgroup.procs; ibv_devinfo -d rxe0 > /dev/null && cat /sys/fs/cgroup/r/rdma.current; timeout 20 ibv_rc_pingpong -d rxe0 -g 1 -r 4; echo rc=$?; cat /sys/fs/cgroup/r/rdma.events)'
kill $holder
wait $holder 2> /dev/null
rmdir /sys/fs/cgroup/r
sleep 0.5
g res-after-exit 'rdma resource show'
finish
