#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# One of the two machines of scripts/interop: interop-peer.sh NUMBER [quick]. Both go through the
# same list; the one with the lower number is the server of the first half.
. "$(dirname "$0")/lib.sh"

me=$1
peer=$((3 - me))
modprobe virtio_net && load_stack || { result FAIL "load-$me"; exit 1; }
for nic in /sys/class/net/[!l]*; do nic=${nic##*/}; break; done
ip link set "$nic" up
ip addr add "10.9.1.$me/24" dev "$nic"
ip addr add "fd00:91::$me/64" dev "$nic" nodad
rdma link add rxe0 type rxe netdev "$nic" || { result FAIL "link-$me"; exit 1; }
wait_gid rxe0 2
for _ in $(seq 300); do ping -c 1 -W 1 "10.9.1.$peer" > /dev/null && break; done
v4=$(gid_index rxe0 "0000:0000:0000:0000:0000:ffff:0a09:010$me")
v6=$(gid_index rxe0 "fd00:0091:0000:0000:0000:0000:0000:000$me")

port=20000
both() { # NAME COMMAND: one side serves, the other calls until somebody answers
	local name=$1 rc=1 log
	shift
	port=$((port + 1))
	log=$LOG/$name.txt
	if [ "$serves" = 1 ]; then
		timeout 120 bash -c "$* -p $port" > "$log" 2>&1
		rc=$?
	else
		for _ in $(seq 60); do
			timeout 100 bash -c "$* -p $port 10.9.1.$peer" > "$log" 2>&1
			rc=$?
			grep -qiE "couldn't connect|connection refused" "$log" || break
			sleep 1
		done
	fi
	if [ $rc = 0 ]; then result PASS "$name-$me"; else
		result FAIL "$name-$me" "status $rc: $(tail -n 1 "$log")"
	fi
}

# Quick leaves most lengths out.
sizes='1 255 1023 1024 1025 4096 65535 1048576'
[ "${2-}" != quick ] || sizes='1 1025 65535'
for server in 1 2; do
	serves=$([ $me = $server ] && echo 1 || echo 0)
	for k in rc uc ud srq; do
		for s in $sizes; do
			[ $k = ud ] && [ $s -gt 1024 ] && continue
			extra=
			[ $k = srq ] && extra='-q 4'
			both "$k-$s-server$server" "ibv_${k}_pingpong -d rxe0 -g $v4 -s $s -n 20 $extra -e"
		done
		both "$k-v6-server$server" "ibv_${k}_pingpong -d rxe0 -g $v6 -s 1000 -n 20 -e"
	done
	for p in ib_send_bw ib_write_bw ib_read_bw ib_atomic_bw; do
		size='-s 65536'
		[ $p = ib_atomic_bw ] && size=
		both "$p-server$server" "$p -d rxe0 -x $v4 -F $size -n 50"
	done
	both "write-imm-server$server" "ib_write_bw -d rxe0 -x $v4 -F -s 65536 -n 50 --write_with_imm"
done
rdma link delete rxe0
