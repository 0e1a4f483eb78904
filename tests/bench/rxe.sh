#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rxe.sh STREAM short|long: one round of the benchmark of rdma_rxe, in the VM:
# "name value" lines. Two namespaces, joined by a veth pair, MTU 1500 (path MTU
# 1024). Under -icount a nanosecond is an instruction.
set -eu
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
stream=$1 set=$2
rig_veth >&2
table=$(mktemp)

pt() { # PROGRAM SIZE COUNT [OPTION]...: leaves the last line of figures in $table
	local program=$1 size=$2 count=$3 pid
	shift 3
	set -- -x 1 -F -s "$size" -n "$count" "$@"
	# WRITE knows no events.
	[ "$program" = ib_write_bw ] || set -- -e "$@"
	ip netns exec peer "$program" -d rxe1 "$@" > /dev/null 2>&1 &
	pid=$!
	wait_listen 18515 $pid || :
	"$program" -d rxe0 "$@" 10.9.0.2 2> /dev/null | awk '$1 ~ /^[0-9]+$/ && NF >= 5 { v = $0 } END { print v }' > "$table"
	wait $pid || :
}
human() { if [ "$1" -ge 1048576 ]; then echo "$(($1 >> 20))MiB"; elif [ "$1" -ge 1024 ]; then echo "$(($1 >> 10))KiB"; else echo "$1B"; fi; }
lat() { # OPERATION SIZE
	pt "ib_$1_lat" "$2" 200
	awk -v n="$1-lat-$(human "$2")-us" 'NF { print n, $5 }' "$table"
}
write_lat() { # SIZE
	# ib_write_lat polls memory, for which it takes two CPUs: one WRITE at a
	# time instead, and the time until its completion.
	pt ib_write_bw "$1" 200 -t 1
	awk -v n="write-lat-$(human "$1")-us" 'NF && $5 { print n, 1 / $5 }' "$table"
}
bw() { # OPERATION SIZE COUNT [QPS]
	pt "ib_$1_bw" "$2" "$3" -q "${4:-1}"
	# Packets of 1024 bytes, and so instructions for each: all that is done
	# for it on both sides, answers included.
	awk -v n="$1-bw-$(human "$2")${4:+-$4-qp}" -v size="$2" '
		NF && size >= 1024 { print n "-MBs", $4; print n "-insn-per-packet", 1e9 / ($4 * 1024) }
		NF && size < 1024 { print n "-kmsgs", $5 * 1000 }' "$table"
}
tcp_udp() { # PROTOCOL COUNT
	local pid rate
	ip netns exec peer "$stream" "$1" 10.9.0.2 &
	pid=$!
	sleep 3
	if rate=$("$stream" "$1" 10.9.0.2 "$2"); then echo "$1-64KiB-MBs $rate"; fi
	kill $pid 2> /dev/null || :
	wait $pid || :
}

for op in send read; do lat $op 2; done
write_lat 2
# So many that it does not matter when the sender learns of the last one: the
# receiver, on the same CPU, has figures to compute by then.
for op in send write read; do bw $op 65536 400; done
bw send 64 2000
bw send 65536 80 8
tcp_udp tcp 200
tcp_udp udp 200
if [ "$set" = long ]; then
	for op in send read; do lat $op 4096; done
	write_lat 4096
	for op in write read; do bw $op 64 2000; done
	for op in send write read; do
		bw $op 4096 500
		bw $op 1048576 20
	done
	bw read 65536 20 8
	for op in send read; do bw $op 65536 5 64; done
fi
