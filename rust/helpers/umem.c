// SPDX-License-Identifier: GPL-2.0

__rust_helper void rust_helper_rdma_cond_resched(void)
{
	cond_resched();
}

__rust_helper s64 rust_helper_rdma_mm_pinned_add(struct mm_struct *mm, s64 pages)
{
	return atomic64_add_return(pages, &mm->pinned_vm);
}

__rust_helper unsigned long rust_helper_rdma_memlock_limit(void)
{
	return rlimit(RLIMIT_MEMLOCK);
}

__rust_helper unsigned int rust_helper_ib_dma_max_seg_size(struct ib_device *dev)
{
	return ib_dma_max_seg_size(dev);
}

__rust_helper int
rust_helper_ib_dma_map_sgtable_attrs(struct ib_device *dev, struct sg_table *sgt,
				     enum dma_data_direction direction,
				     unsigned long dma_attrs)
{
	return ib_dma_map_sgtable_attrs(dev, sgt, direction, dma_attrs);
}

__rust_helper void
rust_helper_ib_dma_unmap_sgtable_attrs(struct ib_device *dev, struct sg_table *sgt,
				       enum dma_data_direction direction,
				       unsigned long dma_attrs)
{
	ib_dma_unmap_sgtable_attrs(dev, sgt, direction, dma_attrs);
}

__rust_helper unsigned int rust_helper_rdma_huge_page_shift(void)
{
#ifdef CONFIG_HUGETLB_PAGE
	return HPAGE_SHIFT;
#else
	return PAGE_SHIFT;
#endif
}

__rust_helper struct pid *rust_helper_rdma_get_pid(struct pid *pid)
{
	return get_pid(pid);
}

__rust_helper void rust_helper_rdma_pfn_set_dirty(unsigned long hmm_pfn)
{
	set_page_dirty(compound_head(hmm_pfn_to_page(hmm_pfn)));
}

__rust_helper void rust_helper_rdma_reclaim_lock_hint(struct mutex *lock)
{
	if (IS_ENABLED(CONFIG_LOCKDEP)) {
		fs_reclaim_acquire(GFP_KERNEL);
		mutex_lock(lock);
		mutex_unlock(lock);
		fs_reclaim_release(GFP_KERNEL);
	}
}

__rust_helper void rust_helper_rdma_init_delayed_work(struct delayed_work *work,
						      work_func_t func)
{
	INIT_DELAYED_WORK(work, func);
}

__rust_helper int rust_helper_rdma_check_mr_access(struct ib_device *dev, unsigned int flags)
{
	return ib_check_mr_access(dev, flags);
}

__rust_helper unsigned long rust_helper_rdma_page_number(const struct page *page)
{
	return page_to_pfn(page);
}
