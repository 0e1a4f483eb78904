#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# One of the two machines of scripts/interop: interop-peer.sh NUMBER [quick].
. "$(dirname "$0")/lib.sh"
SUITE=interop
H=$(cd "$(dirname "$0")" && pwd)

me=$1
peer=$((3 - me))
modprobe virtio_net && load_stack && modprobe sch_netem || { result FAIL "load-$me"; exit 1; }
for nic in /sys/class/net/[!l]*; do nic=${nic##*/}; break; done
ip link set "$nic" mtu 9000 up
ip addr add "10.9.1.$me/24" dev "$nic"
ip addr add "fd00:91::$me/64" dev "$nic" nodad
rdma link add rxe0 type rxe netdev "$nic" || { result FAIL "link-$me"; exit 1; }
wait_gid rxe0 2
DRIVER=$(rxe_driver)
export DRIVER
timeout 3000 python3 "$H/interop.py" "$me" rxe0 "$nic" ${2:+"$2"} || result FAIL "machine-$me" "status $?"

# The connection manager of one with that of the other.
modprobe rdma_ucm
for server in 1 2; do
	log=$LOG/rping-$server.txt
	if [ "$me" = $server ]; then
		timeout 300 rping -s -a "10.9.1.$me" -C 10 > "$log" 2>&1
		continue
	fi
	rc=1
	for _ in $(seq 30); do
		timeout 120 rping -c -a "10.9.1.$peer" -C 10 -v > "$log" 2>&1 && { rc=0; break; }
		sleep 1
	done
	if [ $rc = 0 ]; then result PASS "rping-from-$me"; else result FAIL "rping-from-$me" "$(tail -n 1 "$log")"; fi
done
if rdma link delete rxe0 && modprobe -r rdma_rxe; then
	result PASS "unload-$me"
else
	result FAIL "unload-$me"
fi
