// SPDX-License-Identifier: GPL-2.0

__rust_helper bool rust_helper_rdma_pfn_valid(unsigned long pfn)
{
	return pfn_valid(pfn);
}

__rust_helper struct page *rust_helper_rdma_pfn_to_page(unsigned long pfn)
{
	return pfn_to_page(pfn);
}

__rust_helper bool rust_helper_ib_uses_virt_dma(struct ib_device *dev)
{
	return ib_uses_virt_dma(dev);
}

__rust_helper void *rust_helper_rdma_dma_alloc_coherent(struct device *dev, size_t size,
							dma_addr_t *handle, gfp_t gfp)
{
	return dma_alloc_coherent(dev, size, handle, gfp);
}

__rust_helper void rust_helper_rdma_dma_free_coherent(struct device *dev, size_t size,
						      void *cpu_addr, dma_addr_t handle)
{
	dma_free_coherent(dev, size, cpu_addr, handle);
}

__rust_helper u32 rust_helper_ib_inc_rkey(u32 rkey)
{
	return ib_inc_rkey(rkey);
}
