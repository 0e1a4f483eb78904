/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types and functions behind <rdma/ib_verbs_classic.h>, which is what a ULP
 * includes. A provider includes this one for the promises it may make and for
 * struct ib_bind_mw_wr.
 */
#ifndef RDMA_IB_CLASSIC_H
#define RDMA_IB_CLASSIC_H

#include <linux/bits.h>
#include <linux/container_of.h>
#include <linux/if_ether.h>
#include <linux/types.h>

#include <rdma/ib_verbs.h>

/*
 * What a provider may promise in ib_device_attr.kernel_cap_flags, above the
 * bits of enum ib_kernel_cap_flags. Nothing but the classic calls reads them.
 */

/*
 * ops.post_send() takes IB_WR_BIND_MW from kernel queue pairs, as a
 * struct ib_bind_mw_wr.
 */
#define IBK_CLASSIC_BIND_MW	BIT_ULL(63)

/*
 * These operations, which only user space calls otherwise, also take kernel
 * objects with a NULL udata: ops.resize_user_cq(), and ops.rereg_user_mr()
 * with IB_MR_REREG_PD alone on a fast-registration region. rxe is known to,
 * without the promise.
 */
#define IBK_CLASSIC_USER_OPS	BIT_ULL(62)

/**
 * struct ib_classic_ah_attr - address vector; "struct ib_ah_attr" in a ULP
 * @grh: global route, meaningful with IB_AH_GRH in @ah_flags. The member
 *	sgid_attr is ignored and never set.
 * @dlid: destination LID; not used on RoCE
 * @sl: service level
 * @src_path_bits: low bits of the source LID
 * @static_rate: enum ib_rate
 * @ah_flags: IB_AH_GRH or 0
 * @port_num: port of the device
 * @dmac: Ethernet address of the next hop on RoCE. All zeroes: it is looked
 *	up, which may take about a second.
 */
struct ib_classic_ah_attr {
	struct ib_global_route	grh;
	u16			dlid;
	u8			sl;
	u8			src_path_bits;
	u8			static_rate;
	u8			ah_flags;
	u8			port_num;
	u8			dmac[ETH_ALEN];
};

/**
 * struct ib_phys_buf - a stretch of physical memory
 * @addr: physical address (virt_to_phys(), page_to_phys()), not a bus address.
 *	There must be a struct page behind it.
 * @size: bytes, not 0
 */
struct ib_phys_buf {
	u64	addr;
	u64	size;
};

/**
 * struct ib_mr_attr - what ib_query_mr() tells
 * @pd: protection domain
 * @device_virt_addr: first address of the region, as peers use it
 * @size: bytes; all ones for a region of ib_get_dma_mr()
 * @mr_access_flags: enum ib_access_flags
 * @lkey: local key
 * @rkey: remote key
 */
struct ib_mr_attr {
	struct ib_pd	*pd;
	u64		device_virt_addr;
	u64		size;
	int		mr_access_flags;
	u32		lkey;
	u32		rkey;
};

/**
 * struct ib_mw_bind_info - what a memory window opens
 * @mr: region that the window lies in; it must have IB_ACCESS_MW_BIND
 * @addr: first address
 * @length: bytes; 0 closes a window of type 1
 * @mw_access_flags: remote rights, IB_ACCESS_REMOTE_*
 */
struct ib_mw_bind_info {
	struct ib_mr	*mr;
	u64		addr;
	u64		length;
	int		mw_access_flags;
};

/**
 * struct ib_mw_bind - request of ib_bind_mw()
 * @wr_id: comes back in the completion
 * @send_flags: IB_SEND_SIGNALED, IB_SEND_FENCE
 * @bind_info: what the window opens
 */
struct ib_mw_bind {
	u64			wr_id;
	int			send_flags;
	struct ib_mw_bind_info	bind_info;
};

/**
 * struct ib_bind_mw_wr - work request of opcode IB_WR_BIND_MW
 * @wr: the common part
 * @mw: window, of the queue pair's protection domain
 * @rkey: key that the window has from then on: its present one with another
 *	low byte (ib_inc_rkey())
 * @bind_info: what the window opens
 *
 * ib_bind_mw() makes it. A ULP may also post it itself; it then updates
 * mw->rkey. Only for devices with IBK_CLASSIC_BIND_MW: others do not know the
 * fields behind @wr and read nonsense.
 */
struct ib_bind_mw_wr {
	struct ib_send_wr	wr;
	struct ib_mw		*mw;
	u32			rkey;
	struct ib_mw_bind_info	bind_info;
};

static inline const struct ib_bind_mw_wr *bind_mw_wr(const struct ib_send_wr *wr)
{
	return container_of(wr, struct ib_bind_mw_wr, wr);
}

/* In ib_core.ko, EXPORT_SYMBOL_GPL; the calls that use them have the documentation. */

int ib_classic_find_gid(struct ib_device *device, const union ib_gid *gid,
			u8 *port_num, u16 *index);

int ib_classic_ah_attr_to_rdma(struct ib_device *device,
			       const struct ib_classic_ah_attr *from,
			       struct rdma_ah_attr *to);
struct ib_ah *ib_classic_create_ah(struct ib_pd *pd,
				   const struct ib_classic_ah_attr *ah_attr);
int ib_classic_init_ah_from_wc(struct ib_device *device, u32 port_num,
			       const struct ib_wc *wc, const struct ib_grh *grh,
			       struct ib_classic_ah_attr *ah_attr);
int ib_classic_modify_ah(struct ib_ah *ah,
			 const struct ib_classic_ah_attr *ah_attr);
int ib_classic_query_ah(struct ib_ah *ah, struct ib_classic_ah_attr *ah_attr);

void *ib_classic_dma_alloc_coherent(struct ib_device *device, size_t size,
				    u64 *dma_handle, gfp_t flag);
void ib_classic_dma_free_coherent(struct ib_device *device, size_t size,
				  void *cpu_addr, u64 dma_handle);

struct ib_mr *ib_classic_get_dma_mr(struct ib_pd *pd, int mr_access_flags,
				    const char *caller);
struct ib_mr *ib_classic_reg_phys_mr(struct ib_pd *pd,
				     const struct ib_phys_buf *phys_buf_array,
				     int num_phys_buf, int mr_access_flags,
				     u64 *iova_start);
int ib_classic_rereg_phys_mr(struct ib_mr *mr, int mr_rereg_mask,
			     struct ib_pd *pd,
			     const struct ib_phys_buf *phys_buf_array,
			     int num_phys_buf, int mr_access_flags,
			     u64 *iova_start);
int ib_classic_query_mr(struct ib_mr *mr, struct ib_mr_attr *mr_attr);

struct ib_mw *ib_classic_alloc_mw(struct ib_pd *pd, enum ib_mw_type type);
int ib_classic_bind_mw(struct ib_qp *qp, struct ib_mw *mw,
		       const struct ib_mw_bind *mw_bind);
int ib_classic_dealloc_mw(struct ib_mw *mw);

int ib_classic_resize_cq(struct ib_cq *cq, int cqe);
int ib_classic_peek_cq(struct ib_cq *cq, int wc_cnt);

#endif /* RDMA_IB_CLASSIC_H */
