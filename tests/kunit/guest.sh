#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guest.sh [MODULE=GLOB]... [-- CONTROL...]: runs in the VM. Loads each module,
# in which those KUnit suites run that GLOB matches, keeps their results as
# /out/results/MODULE/SUITE and unloads everything again. Then the deliberate
# bugs, see scripts/kunit.
K=/sys/kernel/debug/kunit
TESTS=$(dirname "$0")
rc=0

say() {
	printf '%s\n' "$*"
	printf '<6>kunit: %s\n' "$*" > /dev/kmsg
}

# The results of the suites that are new in debugfs. No process is started for
# a suite: there are many, and this kernel takes its time for each.
declare -A seen
collect() { # MODULE
	local file suite lines
	mkdir -p "/out/results/$1"
	for file in "$K"/*/results; do
		suite=${file%/results}
		suite=${suite##*/}
		[ -z "${seen[$suite]-}" ] && [ -e "$file" ] || continue
		seen[$suite]=1
		mapfile -t lines < "$file"
		printf '%s\n' "${lines[@]}" > "/out/results/$1/$suite"
	done
}

# Those of the kernel itself have run at boot.
for file in "$K"/*/; do
	file=${file%/}
	seen[${file##*/}]=1
done

# Loads a module; only suites that GLOB matches run, also in what it depends on.
load() { # MODULE GLOB
	say "load $1"
	printf %s "$2" > /sys/module/kunit/parameters/filter_glob
	if ! modprobe "$1" 2> /tmp/err; then
		say "FAIL load $1: $(< /tmp/err)"
		rc=1
		return 1
	fi
	collect "$1"
}

while [ $# -gt 0 ] && [ "$1" != -- ]; do
	m=${1%%=*} glob=${1#*=}
	printf %s "$glob" > /sys/module/kunit/parameters/filter_glob
	for d in "$TESTS"/*/; do
		# What a module's suites need in the VM: devices, namespaces.
		[ -x "${d}prepare.sh" ] && [[ $(< "${d}module.mk") =~ (^|[[:space:]])$m\.o ]] || continue
		say "prepare $m"
		"${d}prepare.sh" > "/out/prepare-$m.txt" 2>&1 || {
			say "FAIL prepare $m: $(tail -n 1 "/out/prepare-$m.txt")"
			rc=1
		}
	done
	load "$m" "$glob"
	shift
done
say "unload"

# A report can turn lockdep off; without it the suites have shown less.
if [ "$(awk '/debug_locks:/ { print $2 }' /proc/lockdep_stats)" != 1 ]; then
	say "FAIL lockdep was off at the end"
	rc=1
fi

# Users first; a module that cannot go again has a reference leak. Network devices last: when one
# goes under a link of Soft-RoCE, the kernel complains if the link takes a while, as it does here.
for _ in 1 2 3 4 5 6 7 8; do
	mapfile -t unused < <(awk '$1 !~ /^(virtio|9p|overlay|call_counts)/ && $3 == 0 {
		if ($1 == "veth") last = $1; else print $1
	} END { if (last) print last }' /proc/modules)
	[ ${#unused[@]} = 0 ] || timeout 120 rmmod "${unused[@]}" 2> /tmp/err || grep -v 'in use' /tmp/err
	grep -qv '^call_counts ' /proc/modules || break
	sleep 0.3
done
while read -r m _ n by _; do
	[ "$m" != call_counts ] || continue
	say "FAIL unload $m: used $n times by $by"
	rc=1
done < /proc/modules

# A leak is shown by the name of its function, for which these modules stay.
[ "${1-}" != -- ] || shift
for m; do
	# The kernel reports a sleep in atomic context once a second at most.
	sleep 1.5
	load "$m" '*'
done
exit $rc
