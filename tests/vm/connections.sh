#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 900
# Many connections one after the other and at once, with clients that are killed
# and neighbours that are forgotten all the time (B09, B67): every client that was
# not killed is served, and nothing is left. Waiting by completion events loses
# none (B25).
. "$(dirname "$0")/lib.sh"

rig_veth || { result FAIL rig; exit 1; }
modprobe rdma_ucm

objects() { rdma resource show | tr ' ' '\n' | grep -A1 -E '^(pd|cq|qp|cm_id|mr|ctx|srq)$' | paste -sd' '; }
before=$(objects)

# rping's server ends when a client rejects it, as the kernel does for one that is killed before it has answered.
# Another one takes its place then; there is a line in /tmp/server.runs for each.
servers() {
	while ! [ -e /tmp/server.stop ]; do
		echo >> /tmp/server.runs
		ip netns exec peer rping -s -P -a 10.9.0.2 >> /tmp/server.txt 2>&1
		sleep 0.1
	done
}
runs() { wc -l < /tmp/server.runs; }

# client NUMBER: the whole of a connection; every tenth is killed in the middle.
# A neighbour that is forgotten before it could answer may be a clean timeout; then,
# and when the server has ended meanwhile, the client asks again. Anything else fails.
client() {
	local log=/tmp/client.$1 rc run
	if [ $(($1 % 10)) = 9 ]; then
		{ timeout -s KILL "0.$(($1 % 7 + 2))" rping -c -a 10.9.0.2 -C 1000 || :; } > /dev/null 2>&1
		return 0
	fi
	for _ in 1 2 3 4 5; do
		rc=0 run=$(runs)
		timeout 60 rping -c -a 10.9.0.2 -C 1 -v > "$log" 2>&1 || rc=$?
		[ $rc != 0 ] || break
		grep -q 'ADDR_ERROR, error -110' "$log" && continue
		sleep 2
		[ "$(runs)" != "$run" ] || break
	done
	[ $rc = 0 ] || { echo "client $1: status $rc"; tail -n 3 "$log"; }
	return $rc
}
churn() { # CLIENTS AT_ONCE
	local i=0 worker flush server rejected bad=0 pids=()
	servers &
	server=$!
	sleep 2
	(while :; do ip neigh flush dev va; ip -n peer neigh flush dev vb; sleep 0.05; done) &
	flush=$!
	for worker in $(seq "$2"); do
		(
			for i in $(seq "$worker" "$2" "$1"); do client "$i" || exit 1; done
		) &
		pids+=($!)
	done
	for worker in "${pids[@]}"; do wait "$worker" || bad=1; done
	kill $flush
	touch /tmp/server.stop
	pkill -x rping
	wait $server $flush 2> /dev/null
	tail -n 5 /tmp/server.txt
	rejected=$(grep -c 'REJECTED, error 28' /tmp/server.txt)
	echo "$(runs) servers, of which $rejected were rejected"
	[ "$(runs)" -le 5 ] && [ "$(runs)" = $((rejected + 1)) ] || bad=1
	return $bad
}
t clients-200 -T 600 "$(declare -f servers runs client churn); churn 200 8"
t nothing-left "$(declare -f objects); for _ in \$(seq 50); do [ \"\$(objects)\" = '$before' ] && exit; sleep 0.2; done; objects; echo '$before'; exit 1"

# Four pairs that sleep for every completion: a lost event is a pair that never ends.
sleepers() {
	local i pids=() bad=0
	for i in 1 2 3 4; do
		ip netns exec peer timeout 110 ibv_rc_pingpong -d rxe1 -g 1 -e -n 2000 -s 64 -p $((18600 + i)) > "/tmp/s$i" 2>&1 &
		pids+=($!)
	done
	sleep 3
	for i in 1 2 3 4; do
		timeout 110 ibv_rc_pingpong -d rxe0 -g 1 -e -n 2000 -s 64 -p $((18600 + i)) 10.9.0.2 > "/tmp/c$i" 2>&1 &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || bad=1; done
	tail -n 2 /tmp/[sc][1-4]
	return $bad
}
t events "$(declare -f sleepers); sleepers"
finish
