#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 900
# Every byte of what nldev and the rdma tool say about a device with objects of all
# kinds, and the verdict on malformed requests: the same on both cores.
cd "$(dirname "$0")" || exit 1
. ./lib.sh
SAY=$OUT/golden
mkdir -p "$SAY"

say() { # NAME CMD...: keeps what a command says; ids and keys are masked
	local name=$1
	shift
	timeout 60 bash -c "$*" 2>&1 < /dev/null |
		sed -E 's/(pid|rkey|lkey|local_dma_lkey|sq-psn|rq-psn) [^ ]+/\1 X/g
			s/"(pid|rkey|lkey|local_dma_lkey|sq-psn|rq-psn)": *"?[^,"}]+"?/"\1":"X"/g
			s/(_pkts|_packets|_bytes|_errors|_error|_rcvd|_sent|_count|_link|_downs|_err|_ack|_error_rcvd|duplicate_request|out_of_seq_request|completer_retry_err|rcvd_seq_err|send_rnr_err|ack_deferred|retry_[a-z_]*) [0-9]+/\1 N/g
			s/": [0-9]+,?$/": N/' > "$SAY/$name.txt"
}

raw() { timeout "${T:-300}" python3 nldev_raw.py "${@:2}" > "$SAY/$1.txt" 2> "$LOG/$1.err" || echo "status $?" >> "$SAY/$1.txt"; }

rig_dummy || { result FAIL rig; exit 1; }
modprobe rdma_ucm
modprobe ib_umad
python3 nldev_objects.py rxe0 "${OBJECTS:-400}" > /tmp/objects 2>&1 &
objects=$!
rping -s -P -a 10.9.0.1 -p 7174 > /dev/null 2>&1 &
listener=$!
for _ in $(seq 200); do grep -q ready /tmp/objects && break; sleep 0.1; done
sleep 1
t objects 'grep ready /tmp/objects'
# Starts with the keys that only an administrator sees, then without them.
raw dump dump
raw dump-nobody dump --nobody
ip netns add other
timeout 200 ip netns exec other python3 nldev_raw.py dump > "$SAY/dump-netns.txt" 2>&1
rdma statistic qp set link rxe0/1 auto type on > "$SAY/stat-auto.txt" 2>&1
python3 nldev_objects.py rxe0 0 > /tmp/objects2 2>&1 &
counted=$!
for _ in $(seq 200); do grep -q ready /tmp/objects2 && break; sleep 0.1; done
raw dump-counters dump
for o in "" -d -dd; do
	for k in system dev link resource; do
		say "$k$o" "rdma $o $k show"
		say "$k$o-json" "rdma $o -j -p $k show"
	done
	for k in qp cm_id cq pd mr ctx srq; do
		say "res-$k$o" "rdma $o resource show $k"
		say "res-$k$o-json" "rdma $o -j -p resource show $k"
	done
done
for k in "" "qp" "mr" "mode" "mode supported" "qp mode" "link rxe0/1" "qp show link rxe0/1"; do
	say "stat-${k//[ \/]/_}" "rdma statistic show ${k#show }; rdma statistic $k"
	say "stat-${k//[ \/]/_}-json" "rdma -j -p statistic $k"
done
kill $counted
wait $counted 2> /dev/null
rdma statistic qp set link rxe0/1 auto off >> "$SAY/stat-auto.txt" 2>&1
# Notifications.
python3 nldev_raw.py monitor 600 > "$SAY/monitor-raw.txt" 2> /tmp/monitor &
watchers=$!
rdma monitor > "$SAY/monitor.txt" 2>&1 &
watchers="$watchers $!"
# Both listen: protocol 20, group 4.
for _ in $(seq 100); do
	[ "$(awk '$2 == 20 && $4 == "00000008"' /proc/net/netlink | wc -l)" = 2 ] && break
	sleep 0.1
done
ip link add dummy9 address 02:00:00:00:00:09 type dummy
ip link set dummy9 up
rdma link add rxe9 type rxe netdev dummy9
sleep 1
rdma dev set rxe9 name foo9
ip link set dummy9 name dummy8
sleep 1
rdma link del foo9
ip link del dummy8
for _ in $(seq 100); do grep -q UNREGISTER "$SAY/monitor.txt" && break; sleep 0.1; done
sleep 1
# shellcheck disable=SC2086
kill $watchers
# shellcheck disable=SC2086
wait $watchers 2> /dev/null
raw hostile hostile
T=400 raw mutate mutate "${MUTATIONS:-3000}"
say errors 'rdma link add rxe0 type rxe netdev d0; rdma link add y type nonesuch netdev d0
	rdma link add y type rxe netdev nonesuch; rdma dev set rxe0 name rxe0; rdma link del nonesuch
	rdma dev set rxe0 adaptive-moderation on; rdma -d dev show rxe0; rdma dev set rxe0 adaptive-moderation off
	rdma system set privileged-qkey on; rdma system show; rdma system set privileged-qkey off; rdma system show'
kill $objects $listener
wait $objects $listener 2> /dev/null
say after 'rdma resource show'
# The texts are compared outside; here they only have to be there.
t replies "grep -q RES_QP_ENTRY $SAY/dump.txt && grep -q STAT_HWCOUNTER_ENTRY $SAY/dump-counters.txt"
t keys-hidden "grep -q RES_LKEY $SAY/dump.txt && ! grep -q RES_LKEY $SAY/dump-nobody.txt"
t notifications "[ \$(grep -c EVENT_TYPE $SAY/monitor-raw.txt) -ge 5 ]"
t verdicts "[ \$(wc -l < $SAY/hostile.txt) -gt 3000 ]"
ip netns del other
finish
