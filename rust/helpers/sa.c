// SPDX-License-Identifier: GPL-2.0

__rust_helper void rust_helper_ib_sa_client_get(struct ib_sa_client *client)
{
	ib_sa_client_get(client);
}

__rust_helper void rust_helper_ib_sa_client_put(struct ib_sa_client *client)
{
	ib_sa_client_put(client);
}

__rust_helper bool rust_helper_rdma_is_valid_unicast_lid(struct rdma_ah_attr *attr)
{
	return rdma_is_valid_unicast_lid(attr);
}
