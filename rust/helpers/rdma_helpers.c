// SPDX-License-Identifier: GPL-2.0
/*
 * Functions around the static inlines and macros that Rust code of this
 * project calls; the kernel's own helpers lie in vmlinux. One file per part or
 * header. A helper does nothing but the one call that its name tells.
 */

#include "../bindings/rdma_bindings_helper.h"

#define __rust_helper

#include "addr.c"
#include "cache.c"
#include "classic.c"
#include "counters.c"
#include "cq.c"
#include "device.c"
#include "mad.c"
#include "net.c"
#include "netlink.c"
#include "region.c"
#include "restrack.c"
#include "rw.c"
#include "sa.c"
#include "skb.c"
#include "sync.c"
#include "sysfs.c"
#include "umem.c"
#include "uverbs.c"
#include "verbs.c"

#ifdef __BINDGEN__
#include "core_helpers.c"
#endif
