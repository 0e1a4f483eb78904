// SPDX-License-Identifier: GPL-2.0

__rust_helper void *rust_helper_rdma_vmalloc_user(unsigned long size)
{
	return vmalloc_user(size);
}

__rust_helper unsigned long rust_helper_rdma_totalram_pages(void)
{
	return totalram_pages();
}

__rust_helper phys_addr_t rust_helper_rdma_virt_to_phys(const void *addr)
{
	return virt_to_phys((void *)addr);
}

__rust_helper void *rust_helper_rdma_hmm_pfn_to_virt(unsigned long hmm_pfn)
{
	return page_address(hmm_pfn_to_page(hmm_pfn));
}

__rust_helper void *rust_helper_rdma_page_to_virt(struct page *page)
{
	return page_address(page);
}

__rust_helper long rust_helper_rdma_pin_remote_page(struct mm_struct *mm, unsigned long addr,
						    bool write, struct page **page)
{
	unsigned int flags = write ? FOLL_WRITE : 0;
	long ret;

	mmap_read_lock(mm);
	ret = pin_user_pages_remote(mm, addr & PAGE_MASK, 1, flags, page, NULL);
	mmap_read_unlock(mm);
	return ret;
}
