// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/ib_mad.h>

EXPORT_SYMBOL(ib_create_send_mad);
EXPORT_SYMBOL(ib_free_recv_mad);
EXPORT_SYMBOL(ib_free_send_mad);
EXPORT_SYMBOL(ib_get_mad_data_offset);
EXPORT_SYMBOL(ib_get_rmpp_segment);
EXPORT_SYMBOL(ib_is_mad_class_rmpp);
EXPORT_SYMBOL(ib_mad_kernel_rmpp_agent);
EXPORT_SYMBOL(ib_modify_mad);
EXPORT_SYMBOL(ib_post_send_mad);
EXPORT_SYMBOL(ib_register_mad_agent);
EXPORT_SYMBOL(ib_response_mad);
EXPORT_SYMBOL(ib_unregister_mad_agent);
