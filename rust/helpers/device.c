// SPDX-License-Identifier: GPL-2.0

__rust_helper bool rust_helper_ib_device_try_get(struct ib_device *device)
{
	return ib_device_try_get(device);
}

__rust_helper struct net *rust_helper_rdma_dev_net(struct ib_device *device)
{
	return rdma_dev_net(device);
}
