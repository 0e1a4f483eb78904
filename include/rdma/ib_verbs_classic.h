/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The classic calls of the kernel's verbs interface, on today's core.
 *
 * A ULP that was written against the older signatures includes this header
 * after <rdma/ib_verbs.h> and the other RDMA headers that it uses. It offers
 *
 *  - the calls that are gone (ib_query_device(), ib_get_dma_mr(),
 *    ib_reg_phys_mr(), ib_alloc_mw(), ...), under their names;
 *  - the older form of the calls that changed, beside today's form: which one
 *    is meant is told by the number of arguments or by the type of one of
 *    them (ib_alloc_pd(), ib_create_cq(), ib_find_gid(), ib_post_send(), ...);
 *  - an int from the calls that return void today (ib_dealloc_pd(),
 *    ib_destroy_srq(), ib_destroy_cq(), ib_register_event_handler(), ...).
 *
 * What is more than a few lines is in ib_core.ko, under names that begin with
 * ib_classic_ and are exported for GPL modules only. They are no part of the
 * distribution's ib_core.ko: a module that needs one of them does not load
 * there.
 *
 * Structures whose name means something else today: "struct ib_ah_attr" is
 * the full address vector below this point, not the InfiniBand part of
 * struct rdma_ah_attr. Therefore include this header last.
 *
 * Documentation/classic-verbs.md has the table of all calls and their limits.
 */
#ifndef RDMA_IB_VERBS_CLASSIC_H
#define RDMA_IB_VERBS_CLASSIC_H

#include <linux/args.h>
#include <linux/compiler.h>
#include <linux/types.h>

#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_classic.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_verbs.h>

/* Devices, ports, tables. */

static inline int ib_classic_register_event_handler(struct ib_event_handler *handler)
{
	ib_register_event_handler(handler);
	return 0;
}

static inline int ib_classic_unregister_event_handler(struct ib_event_handler *handler)
{
	ib_unregister_event_handler(handler);
	return 0;
}

#define ib_register_event_handler(handler)	\
	ib_classic_register_event_handler(handler)
#define ib_unregister_event_handler(handler)	\
	ib_classic_unregister_event_handler(handler)

/**
 * ib_query_device - copies the attributes of a device
 * @device: device
 * @device_attr: place for them
 *
 * They do not change while the device is registered. Any context.
 *
 * Return: 0, or -EINVAL without a place.
 */
static inline int ib_query_device(struct ib_device *device,
				  struct ib_device_attr *device_attr)
{
	if (!device_attr)
		return -EINVAL;
	*device_attr = device->attrs;
	return 0;
}

/**
 * ib_query_gid - reads an entry of a port's GID table
 * @device: device
 * @port_num: port, from 1
 * @index: place in the table
 * @gid: place for the GID
 *
 * Any context.
 *
 * Return: 0, -EINVAL for a port or index that does not exist, -ENOENT for an
 * empty entry.
 */
static inline int ib_query_gid(struct ib_device *device, u8 port_num, int index,
			       union ib_gid *gid)
{
	return rdma_query_gid(device, port_num, index, gid);
}

/*
 * ib_find_gid(device, gid, u8 *port, u16 *index) searches all ports, whatever
 * their link layer, for a GID of any type; with a u32 *port it is today's
 * call, which searches ports with an InfiniBand link only. -ENOENT if no port
 * has the GID. @index may be NULL.
 */
#define ib_find_gid(device, gid, port_num, index)			\
	__builtin_choose_expr(__same_type(port_num, u8 *),		\
			      ib_classic_find_gid, (ib_find_gid))(device, gid, port_num, index)

/* Protection domains. */

#define ib_classic_alloc_pd_1(device)		\
	__ib_alloc_pd(device, 0, KBUILD_MODNAME)
#define ib_classic_alloc_pd_2(device, flags)	\
	__ib_alloc_pd(device, flags, KBUILD_MODNAME)

/* ib_alloc_pd(device), or today's ib_alloc_pd(device, flags). */
#undef ib_alloc_pd
#define ib_alloc_pd(...)			\
	CONCATENATE(ib_classic_alloc_pd_, COUNT_ARGS(__VA_ARGS__))(__VA_ARGS__)

/*
 * -EBUSY while a queue pair, region, window, address handle or shared receive
 * queue is built on the domain, which stays usable then. The region that the
 * core keeps for local_dma_lkey does not count.
 */
static inline int ib_classic_dealloc_pd(struct ib_pd *pd)
{
	return ib_dealloc_pd_user(pd, NULL);
}

#define ib_dealloc_pd(pd)	ib_classic_dealloc_pd(pd)

/* Address handles. */

/*
 * From here on the tag means the classic address vector, in the ULP and in
 * the calls below.
 */
#define ib_ah_attr	ib_classic_ah_attr

/**
 * ib_create_ah - creates an address handle
 * @pd: protection domain
 * @ah_attr: address
 *
 * May sleep, unlike its namesake of old; rdma_create_ah() does not have to.
 *
 * Return: the handle or an ERR_PTR: -EINVAL for an address that makes no sense
 * on the port (on RoCE one without IB_AH_GRH) or an sgid_index outside the
 * table, -ENODATA for an empty entry there.
 */
static inline struct ib_ah *ib_create_ah(struct ib_pd *pd,
					 const struct ib_ah_attr *ah_attr)
{
	return ib_classic_create_ah(pd, ah_attr);
}

/**
 * ib_init_ah_from_wc - derives the way back to the sender of a datagram
 * @device: device
 * @port_num: port that received the datagram
 * @wc: completion of the receive
 * @grh: first 40 bytes of the buffer, if @wc says that there is a GRH
 * @ah_attr: place for the address
 *
 * May sleep, on RoCE up to about a second.
 *
 * Return: 0, -EPROTOTYPE on RoCE without a GRH, -ENOENT if the GID that the
 * datagram was sent to is not the port's any more.
 */
static inline int ib_init_ah_from_wc(struct ib_device *device, u32 port_num,
				     const struct ib_wc *wc,
				     const struct ib_grh *grh,
				     struct ib_ah_attr *ah_attr)
{
	return ib_classic_init_ah_from_wc(device, port_num, wc, grh, ah_attr);
}

/**
 * ib_modify_ah - changes the address of a handle
 * @ah: handle
 * @ah_attr: address
 *
 * May sleep.
 *
 * Return: 0, -EOPNOTSUPP if the device cannot, or as ib_create_ah().
 */
static inline int ib_modify_ah(struct ib_ah *ah, const struct ib_ah_attr *ah_attr)
{
	return ib_classic_modify_ah(ah, ah_attr);
}

/**
 * ib_query_ah - reads the address of a handle
 * @ah: handle
 * @ah_attr: place for the address
 *
 * Return: 0, -EOPNOTSUPP if the device cannot.
 */
static inline int ib_query_ah(struct ib_ah *ah, struct ib_ah_attr *ah_attr)
{
	return ib_classic_query_ah(ah, ah_attr);
}

/**
 * ib_destroy_ah - destroys an address handle
 * @ah: handle
 *
 * May sleep, as ib_create_ah(). If the device refuses, the handle stays.
 *
 * Return: 0 or the device's error.
 */
static inline int ib_destroy_ah(struct ib_ah *ah)
{
	return rdma_destroy_ah_user(ah, RDMA_DESTROY_AH_SLEEPABLE, NULL);
}

/* DMA. */

/**
 * ib_dma_alloc_coherent - allocates memory that CPU and device share
 * @device: device
 * @size: bytes
 * @dma_handle: place for the address to be put into an SGE
 * @flag: GFP_KERNEL, or GFP_ATOMIC where sleeping is not possible
 *
 * The memory is zeroed and page-aligned. For a software device the handle is
 * the kernel address.
 *
 * Return: the kernel address, NULL if there is no memory.
 */
static inline void *ib_dma_alloc_coherent(struct ib_device *device, size_t size,
					  u64 *dma_handle, gfp_t flag)
{
	return ib_classic_dma_alloc_coherent(device, size, dma_handle, flag);
}

/**
 * ib_dma_free_coherent - gives such memory back
 * @device: device
 * @size: bytes, as allocated
 * @cpu_addr: kernel address; NULL is allowed
 * @dma_handle: address in SGEs
 *
 * Process context.
 */
static inline void ib_dma_free_coherent(struct ib_device *device, size_t size,
					void *cpu_addr, u64 dma_handle)
{
	ib_classic_dma_free_coherent(device, size, cpu_addr, dma_handle);
}

/* Memory regions. */

/*
 * ib_get_dma_mr(pd, access): a region that covers all memory.
 *
 * Its lkey is good for any mapped buffer. With remote rights its rkey opens
 * all memory of the machine to every peer of the domain, which is logged as a
 * warning that names the module. End it with ib_dereg_mr(). May sleep.
 *
 * Returns the region or an ERR_PTR: -EINVAL for rights that contradict each
 * other, -EOPNOTSUPP if the device has no such regions.
 */
#define ib_get_dma_mr(pd, mr_access_flags)	\
	ib_classic_get_dma_mr(pd, mr_access_flags, KBUILD_MODNAME)

/**
 * ib_reg_phys_mr - registers a list of physical buffers as one region
 * @pd: protection domain
 * @phys_buf_array: the buffers. All but the first must begin, and all but the
 *	last must end, on a page boundary.
 * @num_phys_buf: their number
 * @mr_access_flags: rights, enum ib_access_flags
 * @iova_start: address that peers use for the first byte; it lies as far into
 *	its page as the first buffer does. The address given is the one used.
 *
 * The region ends where the last buffer ends; access outside is refused. A
 * queue pair of the domain, connected to itself, does the registration, so
 * this takes as long as creating one. May sleep. End it with ib_dereg_mr().
 *
 * Return: the region or an ERR_PTR: -EINVAL for buffers, rights or an address
 * against the rules above, -E2BIG for more pages than the device registers at
 * once (max_fast_reg_page_list_len), -EOPNOTSUPP if the device cannot register
 * memory by work request or cannot connect a queue pair by itself (iWARP).
 */
static inline struct ib_mr *ib_reg_phys_mr(struct ib_pd *pd,
					   struct ib_phys_buf *phys_buf_array,
					   int num_phys_buf, int mr_access_flags,
					   u64 *iova_start)
{
	return ib_classic_reg_phys_mr(pd, phys_buf_array, num_phys_buf,
				      mr_access_flags, iova_start);
}

/**
 * ib_rereg_phys_mr - changes a region of ib_reg_phys_mr()
 * @mr: region
 * @mr_rereg_mask: what changes: IB_MR_REREG_TRANS (buffers and address),
 *	IB_MR_REREG_PD, IB_MR_REREG_ACCESS
 * @pd: domain, with IB_MR_REREG_PD
 * @phys_buf_array: buffers, with IB_MR_REREG_TRANS. They must fit into as many
 *	pages as the region was made with, rounded up to a power of two.
 * @num_phys_buf: their number
 * @mr_access_flags: rights, with IB_MR_REREG_ACCESS
 * @iova_start: address, with IB_MR_REREG_TRANS
 *
 * The keys change: read mr->lkey and mr->rkey again. Nothing may use the
 * region meanwhile. May sleep.
 *
 * Return: 0; -EINVAL for arguments against the rules (also if @mr is not such
 * a region), -ENOMEM, -E2BIG, or -EOPNOTSUPP if the device cannot move a
 * region to another domain: then the region is as it was. Any other error
 * leaves it without valid keys, to be reregistered or deregistered.
 */
static inline int ib_rereg_phys_mr(struct ib_mr *mr, int mr_rereg_mask,
				   struct ib_pd *pd,
				   struct ib_phys_buf *phys_buf_array,
				   int num_phys_buf, int mr_access_flags,
				   u64 *iova_start)
{
	return ib_classic_rereg_phys_mr(mr, mr_rereg_mask, pd, phys_buf_array,
					num_phys_buf, mr_access_flags, iova_start);
}

/**
 * ib_query_mr - reads the attributes of a region
 * @mr: region of ib_get_dma_mr() or ib_reg_phys_mr()
 * @mr_attr: place for them
 *
 * Any context.
 *
 * Return: 0, -EINVAL without a place, -EOPNOTSUPP for a region of another
 * call: nobody notes its rights.
 */
static inline int ib_query_mr(struct ib_mr *mr, struct ib_mr_attr *mr_attr)
{
	return ib_classic_query_mr(mr, mr_attr);
}

/* Memory windows. */

/**
 * ib_alloc_mw - allocates a memory window
 * @pd: protection domain
 * @type: IB_MW_TYPE_1 or IB_MW_TYPE_2
 *
 * Its key opens nothing until the window is bound. May sleep.
 *
 * Return: the window or an ERR_PTR: -EINVAL for another type, -EOPNOTSUPP if
 * the device has none.
 */
static inline struct ib_mw *ib_alloc_mw(struct ib_pd *pd, enum ib_mw_type type)
{
	return ib_classic_alloc_mw(pd, type);
}

/**
 * ib_bind_mw - posts the request that binds a window
 * @qp: queue pair, of the window's domain, in RTS
 * @mw: window
 * @mw_bind: what it opens
 *
 * Once posted, mw->rkey is the new key. It is good after the completion
 * (opcode IB_WC_BIND_MW, or IB_WC_MW_BIND_ERR if the device refuses). Any
 * context, as ib_post_send().
 *
 * Return: 0, -EOPNOTSUPP if the device does not promise IBK_CLASSIC_BIND_MW,
 * -EINVAL without a region, or the error of ib_post_send().
 */
static inline int ib_bind_mw(struct ib_qp *qp, struct ib_mw *mw,
			     struct ib_mw_bind *mw_bind)
{
	return ib_classic_bind_mw(qp, mw, mw_bind);
}

/**
 * ib_dealloc_mw - gives a window back
 * @mw: window; if it is bound, its key ends
 *
 * May sleep. If the device refuses, the window stays.
 *
 * Return: 0 or the device's error.
 */
static inline int ib_dealloc_mw(struct ib_mw *mw)
{
	return ib_classic_dealloc_mw(mw);
}

/* Completion queues. */

static inline struct ib_cq *
ib_classic_create_cq(struct ib_device *device, ib_comp_handler comp_handler,
		     void (*event_handler)(struct ib_event *, void *),
		     void *cq_context, int cqe, int comp_vector, const char *caller)
{
	/* A negative number becomes one that no device has. */
	struct ib_cq_init_attr attr = {
		.cqe = cqe,
		.comp_vector = comp_vector,
	};

	return __ib_create_cq(device, comp_handler, event_handler, cq_context,
			      &attr, caller);
}

#define ib_classic_create_cq_5(device, comp, event, context, attr)		\
	__ib_create_cq(device, comp, event, context, attr, KBUILD_MODNAME)
#define ib_classic_create_cq_6(device, comp, event, context, cqe, vector)	\
	ib_classic_create_cq(device, comp, event, context, cqe, vector, KBUILD_MODNAME)

/*
 * ib_create_cq(device, comp, event, context, cqe, comp_vector), or today's
 * ib_create_cq(device, comp, event, context, attr).
 */
#undef ib_create_cq
#define ib_create_cq(...)							\
	CONCATENATE(ib_classic_create_cq_, COUNT_ARGS(__VA_ARGS__))(__VA_ARGS__)

/* -EBUSY while a queue pair uses the queue. */
static inline int ib_classic_destroy_cq(struct ib_cq *cq)
{
	return ib_destroy_cq_user(cq, NULL);
}

#define ib_destroy_cq(cq)	ib_classic_destroy_cq(cq)

/**
 * ib_resize_cq - changes the number of entries of a completion queue
 * @cq: queue
 * @cqe: least number of entries
 *
 * Completions that were not polled stay. May sleep.
 *
 * Return: 0 and at least as many entries in cq->cqe; -EINVAL for fewer than
 * there are completions, or for none, or for more than the device has;
 * -EOPNOTSUPP if the device does not resize queues of the kernel (see
 * IBK_CLASSIC_USER_OPS) or the queue is shared.
 */
static inline int ib_resize_cq(struct ib_cq *cq, int cqe)
{
	return ib_classic_resize_cq(cq, cqe);
}

/**
 * ib_modify_cq - sets how long notifications are held back
 * @cq: queue
 * @cq_count: completions that raise one
 * @cq_period: microseconds after which one is raised at the latest
 *
 * Return: 0, -EOPNOTSUPP if the device cannot or the queue is shared.
 */
static inline int ib_modify_cq(struct ib_cq *cq, u16 cq_count, u16 cq_period)
{
	return rdma_set_cq_moderation(cq, cq_count, cq_period);
}

/**
 * ib_peek_cq - counts completions without taking them
 * @cq: queue
 * @wc_cnt: number to count to
 *
 * Any context.
 *
 * Return: the number of completions, at most @wc_cnt; -EINVAL for a negative
 * one; -EOPNOTSUPP if the device cannot tell.
 */
static inline int ib_peek_cq(struct ib_cq *cq, int wc_cnt)
{
	return ib_classic_peek_cq(cq, wc_cnt);
}

/* Shared receive queues. */

/* -EBUSY while a queue pair uses the queue. */
static inline int ib_classic_destroy_srq(struct ib_srq *srq)
{
	return ib_destroy_srq_user(srq, NULL);
}

#define ib_destroy_srq(srq)	ib_classic_destroy_srq(srq)

/*
 * Posting: the place for the failing request may point to const requests, as
 * today, or to plain ones.
 */
#define ib_classic_bad_wr(type, bad)						\
	__builtin_choose_expr(__same_type(bad, struct type **),			\
			      (const struct type **)(bad), bad)

#define ib_post_send(qp, wr, bad)	\
	ib_post_send(qp, wr, ib_classic_bad_wr(ib_send_wr, bad))
#define ib_post_recv(qp, wr, bad)	\
	ib_post_recv(qp, wr, ib_classic_bad_wr(ib_recv_wr, bad))
#define ib_post_srq_recv(srq, wr, bad)	\
	ib_post_srq_recv(srq, wr, ib_classic_bad_wr(ib_recv_wr, bad))

#endif /* RDMA_IB_VERBS_CLASSIC_H */
