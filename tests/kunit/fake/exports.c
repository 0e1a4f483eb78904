// SPDX-License-Identifier: GPL-2.0
#include <linux/export.h>
#include <rdma/ib_fake.h>

EXPORT_SYMBOL_GPL(ib_fake_create);
EXPORT_SYMBOL_GPL(ib_fake_destroy);
EXPORT_SYMBOL_GPL(ib_fake_get_port);
EXPORT_SYMBOL_GPL(ib_fake_set_port);
EXPORT_SYMBOL_GPL(ib_fake_set_gid);
EXPORT_SYMBOL_GPL(ib_fake_set_pkey);
EXPORT_SYMBOL_GPL(ib_fake_event);
EXPORT_SYMBOL_GPL(ib_fake_qp_event);
EXPORT_SYMBOL_GPL(ib_fake_cq_event);
EXPORT_SYMBOL_GPL(ib_fake_srq_event);
EXPORT_SYMBOL_GPL(ib_fake_fail);
EXPORT_SYMBOL_GPL(ib_fake_calls);
EXPORT_SYMBOL_GPL(ib_fake_call_at);
EXPORT_SYMBOL_GPL(ib_fake_clear_calls);
EXPORT_SYMBOL_GPL(ib_fake_objects);
EXPORT_SYMBOL_GPL(ib_fake_flush);
EXPORT_SYMBOL_GPL(ib_fake_hold);
EXPORT_SYMBOL_GPL(ib_fake_set_responder);
EXPORT_SYMBOL_GPL(ib_fake_set_agent);
EXPORT_SYMBOL_GPL(ib_fake_deliver_mad);
