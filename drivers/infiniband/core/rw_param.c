// SPDX-License-Identifier: GPL-2.0
/* A parameter that is not in sysfs; parameters need C. */

#include <linux/moduleparam.h>

#include "rw_param.h"

bool rdma_rw_force_mr;
module_param_named(force_mr, rdma_rw_force_mr, bool, 0);
MODULE_PARM_DESC(force_mr, "Force usage of MRs for RDMA READ/WRITE operations");

/* Whether registration is to be used even where nothing is won. */
bool rdma_rw_is_mr_forced(void)
{
	return READ_ONCE(rdma_rw_force_mr);
}
