#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# prepare.sh: rxe0 and rxe1 on the two ends of a veth, for ib_classic_test.
. "$(dirname "$0")/../../vm/lib.sh"
rig_veth
