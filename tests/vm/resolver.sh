#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
# The resolver of user space that paths are asked from before the subnet
# administration: questions, answers good and bad, timeouts, cancellation, the
# device going away.
. "$(dirname "$0")/lib.sh"
G=$OUT/golden
H=$(dirname "$0")
mkdir -p "$G"

CASES="nobody question answers nothing_usable failures strangers timeouts cancelled"
# There the C core reads beyond the answer, and waits for user space to the end.
[ "${core:-rust}" = c ] || CASES="$CASES short_path device_gone"

for c in $CASES; do
	modprobe sa_probe || { result FAIL "$c" "no module"; continue; }
	to=$G/$c.txt
	case $c in timeouts | short_path | device_gone) to=$LOG/${c}_told.txt ;; esac
	t "$c" -T 200 "python3 $H/resolver.py $c > $to"
	modprobe -r sa_probe || result FAIL "$c-unload"
done
[ "${core:-rust}" = c ] ||
	t short-paths-are-administered "! grep -v 'status 0 dlid 7 administered 1' $LOG/short_path_told.txt"
finish
