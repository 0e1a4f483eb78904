// SPDX-License-Identifier: GPL-2.0

__rust_helper unsigned int rust_helper_rdma_num_online_cpus(void)
{
	return num_online_cpus();
}
