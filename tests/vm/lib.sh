# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by the suites, which run in the VM. A result is one line on stdout:
# "PASS|FAIL|SKIP SUITE:NAME DETAIL". What commands print goes to a log in
# $OUT/log; it is shown on stderr when the test fails.

SUITE=$(basename "$0" .sh)
OUT=${OUT:-/out}
LOG=$OUT/log
mkdir -p "$LOG"

# An emulated kernel with all checkers takes so much longer. All limits are
# multiplied: those of t and pair, those that tests set with timeout, those of
# the Python programs.
slower=1
[ "${kernel:-stock}" = stock ] || slower=4
export slower
if [ $slower != 1 ]; then
	timeout() { # [-k SECONDS] [-s SIGNAL] SECONDS CMD...
		local opts=()
		while [[ $1 == -* ]]; do
			opts+=("$1" "$2")
			shift 2
		done
		env timeout "${opts[@]}" $(($1 * slower)) "${@:2}"
	}
	export -f timeout
fi

result() { # STATUS NAME [DETAIL]
	printf '%s %s:%s %s\n' "$1" "$SUITE" "$2" "$(printf %s "${3-}" | tr '\n\t' '  ' | cut -c1-200)"
	printf '<6>test: %s %s:%s\n' "$1" "$SUITE" "$2" > /dev/kmsg
}

log_of() { printf '%s/%s.txt' "$LOG" "${1//[^A-Za-z0-9_.-]/_}"; }

# t NAME [-T SECONDS] CMD...: a shell command; 0 passes, 4 and 77 skip.
t() {
	local name=$1 limit=120 log rc=0
	shift
	if [ "$1" = -T ]; then limit=$2; shift 2; fi
	limit=$((limit * slower))
	log=$(log_of "$name")
	printf '$ %s\n' "$*" > "$log"
	printf '<6>test: start %s:%s\n' "$SUITE" "$name" > /dev/kmsg
	env timeout -k 5 "$limit" bash -c "$*" >> "$log" 2>&1 < /dev/null || rc=$?
	case $rc in
	0) result PASS "$name" ;;
	4 | 77) result SKIP "$name" "$(tail -n 1 "$log")" ;;
	124 | 137) result FAIL "$name" "timeout after $limit s" ;;
	*) result FAIL "$name" "status $rc: $(tail -n 1 "$log")" ;;
	esac
	case $rc in
	0 | 4 | 77) return 0 ;;
	esac
	tail -n 20 "$log" | sed 's/^/    /' >&2
	return 1
}

# pair NAME [-T SECONDS] SERVER CLIENT: passes when both end with 0.
pair() {
	local name=$1 limit=60 log rc=0 src=0 pid
	shift
	if [ "$1" = -T ]; then limit=$2; shift 2; fi
	limit=$((limit * slower))
	log=$(log_of "$name")
	printf 'server$ %s\nclient$ %s\n' "$1" "$2" > "$log"
	printf '<6>test: start %s:%s\n' "$SUITE" "$name" > /dev/kmsg
	env timeout -k 5 "$limit" bash -c "$1" > "$log.srv" 2>&1 < /dev/null &
	pid=$!
	wait_listen "${PORT:-18515}" $pid
	env timeout -k 5 "$limit" bash -c "$2" >> "$log" 2>&1 < /dev/null || rc=$?
	[ $rc = 0 ] || kill $pid 2> /dev/null
	wait $pid || src=$?
	{ printf -- '--- server, status %s\n' $src; cat "$log.srv"; } >> "$log"
	rm -f "$log.srv"
	if [ $rc = 0 ] && [ $src = 0 ]; then
		result PASS "$name"
	else
		result FAIL "$name" "client $rc, server $src: $(grep -vE '^(server|client)\$|^---' "$log" | tail -n 1)"
		tail -n 20 "$log" | sed 's/^/    /' >&2
		return 1
	fi
}

# Waits until something listens on TCP port $1, in any namespace, or $2 ended.
wait_listen() {
	local hex
	hex=$(printf ':%04X ' "$1")
	for _ in $(seq 100); do
		cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | grep -q "$hex.* 0A " && return
		for n in /run/netns/*; do
			[ -e "$n" ] || continue
			nsenter --net="$n" cat /proc/thread-self/net/tcp /proc/thread-self/net/tcp6 2> /dev/null |
				grep -q "$hex.* 0A " && return
		done
		kill -0 "$2" 2> /dev/null || return
		sleep 0.1
	done
}

# shellcheck disable=SC2120 # suites may name more modules
load_stack() {
	local m
	for m in rdma_rxe ib_uverbs "$@"; do modprobe "$m" || return 1; done
}

# Whose rdma_rxe.ko is loaded: "c", the distribution's, or "rust".
rxe_driver() {
	case $(modinfo -n rdma_rxe) in
	*/updates/*) echo rust ;;
	*) echo c ;;
	esac
}

# GID 1 (the IPv4 address) of a device is there.
wait_gid() {
	local f=/sys/class/infiniband/$1/ports/1/gids/${2:-1}
	for _ in $(seq 100); do
		case $(cat "$f" 2> /dev/null) in
		'' | 0000:0000:0000:0000:0000:0000:0000:0000) sleep 0.1 ;;
		*) return 0 ;;
		esac
	done
	return 1
}

# rxe0 on a dummy, 10.9.0.1 and fd00:9::1.
rig_dummy() {
	load_stack || return 1
	ip link add d0 type dummy
	ip link set d0 address 02:00:00:00:00:01 up
	ip addr add 10.9.0.1/24 dev d0
	ip addr add fd00:9::1/64 dev d0 nodad
	rdma link add rxe0 type rxe netdev d0 || return 1
	wait_gid rxe0 2
}

# Two namespaces: rxe0 on va here (10.9.0.1), rxe1 on vb in "peer" (10.9.0.2).
rig_veth() {
	load_stack || return 1
	ip netns add peer
	ip link add va type veth peer name vb
	ip link set vb netns peer
	ip link set va address 02:00:00:00:00:01 up
	ip addr add 10.9.0.1/24 dev va
	ip addr add fd00:9::1/64 dev va nodad
	ip -n peer link set vb address 02:00:00:00:00:02 up
	ip -n peer link set lo up
	ip -n peer addr add 10.9.0.2/24 dev vb
	ip -n peer addr add fd00:9::2/64 dev vb nodad
	rdma link add rxe0 type rxe netdev va || return 1
	ip netns exec peer rdma link add rxe1 type rxe netdev vb || return 1
	wait_gid rxe0 2 && wait_gid rxe1 2 && ping -c 1 -W 5 10.9.0.2 > /dev/null
}

# Index of the RoCE v2 GID of device $1 that holds address $2 (as in sysfs).
gid_index() {
	local d=/sys/class/infiniband/$1/ports/1 i
	for i in $(seq 0 15); do
		[ "$(cat "$d/gids/$i")" = "$2" ] && { echo "$i"; return; }
	done
	return 1
}

stack_modules='rdma_rxe rdma_ucm ib_umad rdma_cm ib_cm iw_cm ib_uverbs ib_uverbs_support ib_core'

remove_links() {
	local d n
	for d in /sys/class/infiniband/*; do
		[ -e "$d" ] && timeout 30 rdma link delete "${d##*/}" 2> /dev/null
	done
	for n in /run/netns/*; do
		[ -e "$n" ] || continue
		n=${n##*/}
		for d in $(ip netns exec "$n" rdma link 2> /dev/null | sed 's#^link \([^/]*\)/.*#\1#'); do
			ip netns exec "$n" timeout 30 rdma link delete "$d" 2> /dev/null
		done
		ip netns del "$n"
	done
	for d in d0 va; do ip link del $d 2> /dev/null; done
	return 0
}

unload_stack() {
	local m
	for _ in 1 2 3 4 5; do
		for m in $stack_modules; do
			[ -d /sys/module/$m ] && timeout 60 modprobe -r $m 2> /dev/null
		done
		[ -d /sys/module/ib_core ] || return 0
		sleep 0.5
	done
	grep -E '^(ib_|rdma_|iw_)' /proc/modules
	return 1
}

# The end of every suite: nothing holds a reference.
finish() {
	remove_links
	if unload_stack > "$LOG/unload.txt" 2>&1; then
		result PASS unload
	else
		result FAIL unload "$(awk '{ print $1, $3, $4 }' "$LOG/unload.txt" | paste -sd' ')"
	fi
}
