// SPDX-License-Identifier: GPL-2.0
/*
 * Queries for paths on behalf of user space, for tests of the resolver: a write
 * to the parameter "resolve" starts one on a fake device and waits for its end,
 * the parameter "result" tells what its asker was told. The administration
 * answers with a path to LID 7.
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/unaligned.h>
#include <rdma/ib_fake.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_sa.h>

#define MASK	(IB_SA_PATH_REC_SERVICE_ID | IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID | \
		 IB_SA_PATH_REC_TRAFFIC_CLASS | IB_SA_PATH_REC_PKEY | IB_SA_PATH_REC_QOS_CLASS)

static struct ib_device *device;	/* NULL when it was destroyed */
static struct ib_sa_client client;
static DEFINE_MUTEX(lock);
static unsigned int administered;	/* requests that the administration got */

/* What the asker was told. */
static struct {
	struct completion done;
	int status;
	unsigned int count;
	struct sa_path_rec rec;
	unsigned long took;
} told;

static enum ib_fake_verdict respond(void *context, const struct ib_fake_mad *mad, u8 *reply)
{
	if (mad->data[1] != IB_MGMT_CLASS_SUBN_ADM ||
	    get_unaligned_be16(mad->data + 16) != IB_SA_ATTR_PATH_REC)
		return IB_FAKE_PASS;
	administered++;
	memcpy(reply, mad->data, 256);
	reply[3] = IB_MGMT_METHOD_GET_RESP;
	put_unaligned_be16(7, reply + 56 + 40);
	return IB_FAKE_REPLY;
}

static void handler(int status, struct sa_path_rec *rec, unsigned int count, void *context)
{
	told.status = status;
	told.count = count;
	if (rec && count)
		told.rec = *rec;
	complete(&told.done);
}

/*
 * "reversible cancel destroy": a path for both ways or for one; after so many
 * milliseconds, if not 0, it is cancelled, or the device destroyed.
 */
static int resolve(const char *value, const struct kernel_param *kp)
{
	struct sa_path_rec rec = { .rec_type = SA_PATH_REC_TYPE_IB };
	unsigned int reversible, cancel, destroy;
	struct ib_sa_query *query;
	unsigned long begin;
	u64 mask = MASK;
	int id;

	if (sscanf(value, "%u %u %u", &reversible, &cancel, &destroy) != 3)
		return -EINVAL;
	if (!device)
		return -ENODEV;
	mutex_lock(&lock);
	memset(&told, 0, sizeof(told));
	init_completion(&told.done);
	administered = 0;
	rec.service_id = cpu_to_be64(0x0102030405060708);
	rec.sgid.global.subnet_prefix = cpu_to_be64(0xfe80000000000000);
	rec.sgid.global.interface_id = cpu_to_be64(0x1111);
	rec.dgid.global.subnet_prefix = cpu_to_be64(0xfe80000000000000);
	rec.dgid.global.interface_id = cpu_to_be64(0x2222);
	rec.traffic_class = 0x33;
	rec.pkey = cpu_to_be16(0x8004);
	rec.qos_class = cpu_to_be16(0x555);
	rec.reversible = reversible;
	if (reversible)
		mask |= IB_SA_PATH_REC_REVERSIBLE;
	begin = jiffies;
	id = ib_sa_path_rec_get(&client, device, 1, &rec, mask, 3000, GFP_KERNEL, handler, NULL,
				&query);
	if (id < 0) {
		told.status = id;
	} else {
		if (cancel) {
			msleep(cancel);
			ib_sa_cancel_query(id, query);
		}
		if (destroy) {
			msleep(destroy);
			ib_fake_destroy(device);
			device = NULL;
		}
		wait_for_completion(&told.done);
	}
	told.took = jiffies - begin;
	mutex_unlock(&lock);
	return 0;
}

static int result(char *buffer, const struct kernel_param *kp)
{
	int len;

	mutex_lock(&lock);
	len = sysfs_emit(buffer, "status %d paths %u dlid %u flags %#x administered %u ms %u\n",
			 told.status, told.count, be16_to_cpu(told.rec.ib.dlid), told.rec.flags,
			 administered, jiffies_to_msecs(told.took));
	mutex_unlock(&lock);
	return len;
}

static const struct kernel_param_ops resolve_ops = { .set = resolve };
static const struct kernel_param_ops result_ops = { .get = result };

module_param_cb(resolve, &resolve_ops, NULL, 0200);
module_param_cb(result, &result_ops, NULL, 0444);

static int __init probe_init(void)
{
	static const struct ib_fake_config config = { .protocol = IB_FAKE_INFINIBAND };
	struct ib_device *made = ib_fake_create(&config);

	if (IS_ERR(made))
		return PTR_ERR(made);
	ib_sa_register_client(&client);
	ib_fake_set_responder(made, 1, respond, NULL);
	device = made;
	return 0;
}

static void __exit probe_exit(void)
{
	if (device)
		ib_fake_destroy(device);
	ib_sa_unregister_client(&client);
}

module_init(probe_init);
module_exit(probe_exit);

MODULE_DESCRIPTION("Queries for paths, for tests of the resolver");
MODULE_LICENSE("GPL");
