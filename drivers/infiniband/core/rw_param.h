/* SPDX-License-Identifier: GPL-2.0 */
/* What the Rust part "rw" calls in rw_param.c. */
#ifndef RDMA_RW_PARAM_H
#define RDMA_RW_PARAM_H

#include <linux/types.h>

bool rdma_rw_is_mr_forced(void);

#endif
