#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: long
# timeout: 900
# kernel-files: tools/testing/selftests/rdma tools/testing/selftests/kselftest
# The kernel's own tools/testing/selftests/rdma, unmodified.
. "$(dirname "$0")/lib.sh"

mkdir -p /dev/net
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
S=$OUT/kernel-files/tools/testing/selftests/rdma
for s in rxe_ipv6 rxe_socket_with_netns rxe_test_NETDEV_UNREGISTER rxe_sent_rcvd_bytes rxe_rping_between_netns; do
	t $s -T 200 "cd $S && bash ./$s.sh"
	for n in $(ip netns list | awk '{ print $1 }'); do ip netns del "$n"; done
	sleep 1
done
t rxe_netns_names -T 300 "cd $S && bash ./rxe_netns_names.sh"
grep -E '^(ok|not ok)' "$LOG/rxe_netns_names.txt" | while IFS= read -r l; do
	n=$(echo "$l" | sed -E 's/^(not )?ok [0-9]+ //; s/ # .*//; s/[^A-Za-z0-9]+/-/g')
	case $l in
	*'# SKIP'*) result SKIP "netns-names:$n" ;;
	ok*) result PASS "netns-names:$n" ;;
	*) result FAIL "netns-names:$n" ;;
	esac
done
finish
