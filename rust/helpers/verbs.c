// SPDX-License-Identifier: GPL-2.0

__rust_helper void *rust_helper_rdma_zalloc_obj(struct ib_device *dev, size_t size, gfp_t gfp,
						bool is_numa_aware)
{
	return rdma_zalloc_obj(dev, size, gfp, is_numa_aware);
}

__rust_helper void rust_helper_list_add(struct list_head *new, struct list_head *head)
{
	list_add(new, head);
}

__rust_helper void rust_helper_list_del(struct list_head *entry)
{
	list_del(entry);
}
