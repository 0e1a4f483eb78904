// SPDX-License-Identifier: GPL-2.0
/* The one place where the tracepoints of the completion queue layer are defined. */

#define CREATE_TRACE_POINTS

#include <trace/events/rdma_core.h>
