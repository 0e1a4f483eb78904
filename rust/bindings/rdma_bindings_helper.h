/* SPDX-License-Identifier: GPL-2.0 */
/* Headers whose declarations become the `rdma_bindings` crate. */
#include <linux/hrtimer_types.h>

#include <linux/cc_platform.h>
#include <linux/cgroup_rdma.h>
#include <linux/completion.h>
#include <linux/dim.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/file.h>
#include <linux/hmm.h>
#include <linux/hmm-dma.h>
#include <linux/if_vlan.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/ioport.h>
#include <linux/irq_poll.h>
#include <linux/kref.h>
#include <linux/libnvdimm.h>
#include <linux/mmu_notifier.h>
#include <linux/netdevice.h>
#include <linux/netlink.h>
#include <linux/pci.h>
#include <linux/radix-tree.h>
#include <linux/random.h>
#include <linux/refcount.h>
#include <linux/rwlock.h>
#include <linux/rwsem.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/security.h>
#include <linux/semaphore.h>
#include <linux/srcu.h>
#include <linux/sysfs.h>
#include <linux/udp.h>
#include <linux/utsname.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/addrconf.h>
#include <net/bonding.h>
#include <net/ip.h>
#include <net/ip6_fib.h>
#include <net/ip6_route.h>
#include <net/neighbour.h>
#include <net/net_namespace.h>
#include <net/netevent.h>
#include <net/netlink.h>
#include <net/netns/generic.h>
#include <net/route.h>
#include <net/udp_tunnel.h>
#include <rdma/frmr_pools.h>
#include <rdma/ib.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_classic.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_marshall.h>
#include <rdma/ib_pack.h>
#include <rdma/ib_pma.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_smi.h>
#include <rdma/ib_sysfs.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_verbs.h>
#include <rdma/iter.h>
#include <rdma/iw_cm.h>
#include <rdma/lag.h>
#include <rdma/mr_pool.h>
#include <rdma/opa_addr.h>
#include <rdma/opa_port_info.h>
#include <rdma/opa_smi.h>
#include <rdma/rdma_cm.h>
#include <rdma/rdma_counter.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>
#include <rdma/rw.h>
#include <rdma/signature.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>
#include <rdma/uverbs_types.h>
#include <uapi/rdma/ib_user_verbs.h>
#include <uapi/rdma/rdma_netlink.h>
#include <uapi/rdma/rdma_user_rxe.h>

/*
 * Private headers of the C core. Their structures are shared with the stock
 * ib_uverbs, ib_cm and rdma_cm, so they are ABI.
 */
#include "core_priv.h"
#include "agent.h"
#include "cma_priv.h"
#include "frmr_pools.h"
#include "mad_priv.h"
#include "mad_rmpp.h"
#include "opa_smi.h"
#include "rdma_core.h"
#include "restrack.h"
#include "sa.h"
#include "smi.h"
#include "uverbs.h"

/* Between the C and the Rust of one part. */
#include "../../drivers/infiniband/core/device_glue.h"

/* What test modules share. */
#include "../../include/rdma/ib_fake.h"
