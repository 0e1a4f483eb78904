/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A fake RDMA device for tests of kernel users of the verbs (ULPs).
 *
 * ib_fake_create() makes a device without hardware whose ports, tables and
 * failures a test scripts, and which records how the core and the ULP call it.
 * Fake devices are connected to one another: work requests move data between
 * their queue pairs, in memory, with the checks and completion statuses of
 * hardware. See Documentation/testing-your-ulp.md.
 *
 * All functions may sleep unless they say otherwise.
 */
#ifndef _RDMA_IB_FAKE_H
#define _RDMA_IB_FAKE_H

#include <rdma/ib_verbs.h>

struct ib_mad;
struct net_device;

/* Operations of the driver, as they are recorded and as they can fail. */
enum ib_fake_op {
	IB_FAKE_QUERY_DEVICE,
	IB_FAKE_QUERY_PORT,
	IB_FAKE_GET_PORT_IMMUTABLE,
	IB_FAKE_QUERY_GID,
	IB_FAKE_ADD_GID,
	IB_FAKE_DEL_GID,
	IB_FAKE_QUERY_PKEY,
	IB_FAKE_MODIFY_DEVICE,
	IB_FAKE_MODIFY_PORT,
	IB_FAKE_ENABLE_DRIVER,
	IB_FAKE_PROCESS_MAD,
	IB_FAKE_ADD_SUB_DEV,
	IB_FAKE_DEL_SUB_DEV,
	IB_FAKE_ALLOC_PD,
	IB_FAKE_DEALLOC_PD,
	IB_FAKE_CREATE_AH,
	IB_FAKE_MODIFY_AH,
	IB_FAKE_QUERY_AH,
	IB_FAKE_DESTROY_AH,
	IB_FAKE_CREATE_CQ,
	IB_FAKE_DESTROY_CQ,
	IB_FAKE_POLL_CQ,
	IB_FAKE_PEEK_CQ,
	IB_FAKE_REQ_NOTIFY_CQ,
	IB_FAKE_MODIFY_CQ,
	IB_FAKE_CREATE_QP,
	IB_FAKE_MODIFY_QP,
	IB_FAKE_QUERY_QP,
	IB_FAKE_DESTROY_QP,
	IB_FAKE_POST_SEND,
	IB_FAKE_POST_RECV,
	IB_FAKE_ATTACH_MCAST,
	IB_FAKE_DETACH_MCAST,
	IB_FAKE_CREATE_SRQ,
	IB_FAKE_MODIFY_SRQ,
	IB_FAKE_QUERY_SRQ,
	IB_FAKE_DESTROY_SRQ,
	IB_FAKE_POST_SRQ_RECV,
	IB_FAKE_GET_DMA_MR,
	IB_FAKE_ALLOC_MR,
	IB_FAKE_MAP_MR_SG,
	IB_FAKE_DEREG_MR,
	IB_FAKE_ALLOC_XRCD,
	IB_FAKE_DEALLOC_XRCD,
	IB_FAKE_GET_NETDEV,
	IB_FAKE_DELLINK,
	IB_FAKE_OPS
};

/* What the ports of a device speak. */
enum ib_fake_protocol {
	IB_FAKE_INFINIBAND,
	IB_FAKE_ROCE,
	IB_FAKE_IWARP,
};

/* Operations that a device lacks altogether, for ib_fake_config.without. */
#define IB_FAKE_NO_SRQ		BIT(0)
#define IB_FAKE_NO_MODIFY_CQ	BIT(1)
#define IB_FAKE_NO_ALLOC_MR	BIT(2)
#define IB_FAKE_NO_MCAST	BIT(3)
#define IB_FAKE_NO_QUERY_QP	BIT(4)
#define IB_FAKE_NO_PROCESS_MAD	BIT(5)
#define IB_FAKE_NO_MODIFY_AH	BIT(6)
#define IB_FAKE_NO_QUERY_AH	BIT(7)
#define IB_FAKE_NO_MODIFY_DEVICE BIT(8)
#define IB_FAKE_NO_MODIFY_PORT	BIT(9)
#define IB_FAKE_NO_SUB_DEV	BIT(10)
#define IB_FAKE_NO_XRCD		BIT(11)
#define IB_FAKE_NO_PEEK_CQ	BIT(12)

/* What a device is made with; zeroes are the defaults. */
struct ib_fake_config {
	const char *name;		/* "fake%d" */
	enum ib_fake_protocol protocol;
	u32 ports;			/* 1 */
	u32 comp_vectors;		/* 1 */
	u32 gids;			/* GIDs of a port: 4 */
	u16 pkeys;			/* partition keys of a port: 4 */
	u32 max_fast_reg_pages;		/* pages of a fast registration: 256 */
	u32 without;			/* IB_FAKE_NO_* */
	struct net_device *netdev;	/* of port 1, which is ACTIVE then; iWARP needs one */
	u64 kernel_cap_flags;		/* IBK_* beyond those of every fake */
	/* Makes an operation fail during registration, see ib_fake_fail(). */
	enum ib_fake_op fail_op;
	int fail_error;
};

/*
 * Makes and registers a device. An InfiniBand port starts ACTIVE, with a LID
 * of its own, the GID fe80::<GUID>, the partition key 0xffff and the subnet
 * manager at LID 1; others are DOWN until they get a network device. Returns
 * an ERR_PTR().
 */
struct ib_device *ib_fake_create(const struct ib_fake_config *config);

/* Unregisters the device, which waits until its users have let go of it. */
void ib_fake_destroy(struct ib_device *device);

/* Attributes of a port. Setting them dispatches no event. */
int ib_fake_get_port(struct ib_device *device, u32 port, struct ib_port_attr *attr);
int ib_fake_set_port(struct ib_device *device, u32 port, const struct ib_port_attr *attr);

/* An entry of a table of a port, as the next query of the core finds it. */
int ib_fake_set_gid(struct ib_device *device, u32 port, u32 index, const union ib_gid *gid);
int ib_fake_set_pkey(struct ib_device *device, u32 port, u16 index, u16 pkey);

/* Dispatches an event of the device or of a port. Any context. */
int ib_fake_event(struct ib_device *device, u32 port, enum ib_event_type event);

/* Reports an event of an object to its user. -EINVAL if it has not that event. */
int ib_fake_qp_event(struct ib_qp *qp, enum ib_event_type event);
int ib_fake_cq_event(struct ib_cq *cq, enum ib_event_type event);
int ib_fake_srq_event(struct ib_srq *srq, enum ib_event_type event);

/*
 * Makes the @nth call of an operation from now fail with @error (a negative
 * errno): 1 is the next one, 0 all of them. An error of 0 ends that. For
 * operations without a result, nothing happens; get_netdev() finds nothing.
 * Any context.
 */
int ib_fake_fail(struct ib_device *device, enum ib_fake_op op, u32 nth, int error);

/* A call of an operation. The meaning of @args is that of the operation's. */
struct ib_fake_call {
	enum ib_fake_op op;
	int injected;		/* error that it was made to fail with, or 0 */
	u64 args[3];
};

/* Number of calls of an operation since the last ib_fake_clear_calls(). */
u32 ib_fake_calls(struct ib_device *device, enum ib_fake_op op);

/*
 * The call number @index of those that were recorded, 0 is the oldest; -ENOENT
 * after the last. The last 1024 are kept.
 */
int ib_fake_call_at(struct ib_device *device, u32 index, struct ib_fake_call *call);
void ib_fake_clear_calls(struct ib_device *device);

/* Number of objects that the driver has at the moment. */
u32 ib_fake_objects(struct ib_device *device, enum ib_fake_op created_by);

/*
 * Work requests are executed in the background. ib_fake_flush() waits until
 * those that are posted now are done, or wait for a receive of the peer.
 * While a device is held, its send requests stay in their queues.
 */
void ib_fake_flush(void);
int ib_fake_hold(struct ib_device *device, bool hold);

/* A management datagram on its way. */
struct ib_fake_mad {
	u32 port;		/* of the device that it belongs to */
	u32 qp;			/* 0 or 1 */
	u32 slid;
	u32 dlid;
	u32 src_qp;
	u16 pkey_index;
	u8 sl;
	const u8 *data;		/* 256 bytes */
};

enum ib_fake_verdict {
	IB_FAKE_PASS,		/* as if nobody had looked */
	IB_FAKE_REPLY,		/* the answer has been written */
	IB_FAKE_DROP,		/* it is lost */
};

typedef enum ib_fake_verdict (*ib_fake_mad_fn)(void *context, const struct ib_fake_mad *mad, u8 *reply);

/*
 * Has @fn look at what a port sends on QP0 and QP1, as the subnet manager or
 * administrator, and answer with the 256 bytes at @reply. Called in process
 * context, one at a time. Null ends that; then no call is running any more.
 */
int ib_fake_set_responder(struct ib_device *device, u32 port, ib_fake_mad_fn fn, void *context);

/* Has @fn answer what the core asks process_mad(); as above. */
int ib_fake_set_agent(struct ib_device *device, ib_fake_mad_fn fn, void *context);

/*
 * Has a datagram arrive at QP0 or QP1 of a port. -ENOENT without a queue pair
 * there, -ENOBUFS if it has no receive request.
 */
int ib_fake_deliver_mad(struct ib_device *device, const struct ib_fake_mad *mad);

#endif
