#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The demo's part in the VM: two namespaces, a veth pair, one rxe link on each
# end, and traffic between them. The commands are shown as they are run.
set -eu

run() {
	printf '\n# %s\n' "$*"
	"$@"
}

echo "$(uname -sr), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), $(nproc) CPU"
run modprobe ib_uverbs
run modprobe rdma_rxe
run ip netns add left
run ip netns add right
run ip link add veth0 netns left type veth peer name veth1 netns right
for n in left:0:1 right:1:2; do
	IFS=: read -r ns if host <<< "$n"
	run ip -n "$ns" addr add "10.9.0.$host/24" dev "veth$if"
	run ip -n "$ns" link set "veth$if" up
	run ip netns exec "$ns" rdma link add "rxe$if" type rxe netdev "veth$if"
done
for d in rxe0 rxe1; do
	for _ in $(seq 100); do
		grep -q ffff:0a09 /sys/class/infiniband/$d/ports/1/gids/1 && break
		sleep 0.1
	done
done
run rdma link show
run ip netns exec left ibv_devinfo -d rxe0
run ip netns exec right ibv_devinfo -d rxe1

counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }
before=$(counter rxe1 rcvd_pkts)
size=4096 iters=1000
printf '\n# ip netns exec left ibv_rc_pingpong -d rxe0 -g 1 -s %s -n %s -e   (server)\n' $size $iters
ip netns exec left ibv_rc_pingpong -d rxe0 -g 1 -s $size -n $iters -e > /tmp/server 2>&1 &
server=$!
for _ in $(seq 100); do
	ip netns exec left ss -Htln 'sport = :18515' | grep -q . && break
	sleep 0.1
done
rc=0
run ip netns exec right ibv_rc_pingpong -d rxe1 -g 1 -s $size -n $iters -e 10.9.0.1 || rc=$?
wait $server || rc=$?
printf '\n(server)\n'
cat /tmp/server
echo "rxe1 received $(($(counter rxe1 rcvd_pkts) - before)) packets"
bytes=$(awk '/bytes in/ { b += $1 } END { print b + 0 }' /tmp/server)

run rdma link delete rxe0
run rdma link delete rxe1
run ip netns del left
run ip netns del right
where=$(for m in ib_core ib_uverbs_support ib_uverbs rdma_rxe; do
	printf '%-18s %s\n' $m "$(modinfo -n $m)"
done)
run modprobe -r rdma_rxe ib_uverbs

printf '\n=== summary\n%s\n' "$where"
echo "bytes moved        $bytes (RC, both directions)"
echo "status             $rc"
exit $rc
