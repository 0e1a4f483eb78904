#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# set: rust
# timeout: 900
# vm: --rxe=rust
# The suite smoke on our rdma_rxe.
# shellcheck source=tests/vm/smoke.sh
. "$(dirname "$0")/smoke.sh"
