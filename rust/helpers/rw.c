// SPDX-License-Identifier: GPL-2.0

__rust_helper int rust_helper_rw_dma_map_sgtable(struct ib_device *dev, struct sg_table *sgt,
						 enum dma_data_direction dir)
{
	return ib_dma_map_sgtable_attrs(dev, sgt, dir, 0);
}

__rust_helper void rust_helper_rw_dma_unmap_sg(struct ib_device *dev, struct scatterlist *sg,
					       int nents, enum dma_data_direction dir)
{
	ib_dma_unmap_sg(dev, sg, nents, dir);
}

/* The address, or 0 and false: an address may be any number. */
__rust_helper bool rust_helper_rw_dma_map_bvec(struct ib_device *dev, struct bio_vec *bv,
					       enum dma_data_direction dir, u64 *addr)
{
	*addr = ib_dma_map_bvec(dev, bv, dir);
	return !ib_dma_mapping_error(dev, *addr);
}

__rust_helper void rust_helper_ib_dma_unmap_bvec(struct ib_device *dev, u64 addr,
						 unsigned int len, enum dma_data_direction dir)
{
	ib_dma_unmap_bvec(dev, addr, len, dir);
}

__rust_helper struct bio_vec rust_helper_mp_bvec_iter_bvec(const struct bio_vec *bv,
							   struct bvec_iter *iter)
{
	return mp_bvec_iter_bvec(bv, *iter);
}

__rust_helper bool rust_helper_bvec_iter_advance(const struct bio_vec *bv, struct bvec_iter *iter,
						 unsigned int bytes)
{
	return bvec_iter_advance(bv, iter, bytes);
}

__rust_helper phys_addr_t rust_helper_bvec_phys(const struct bio_vec *bv)
{
	return bvec_phys(bv);
}

__rust_helper void rust_helper_sg_set_page(struct scatterlist *sg, struct page *page,
					   unsigned int len, unsigned int offset)
{
	sg_set_page(sg, page, len, offset);
}

__rust_helper void rust_helper_sg_mark_end(struct scatterlist *sg)
{
	sg_mark_end(sg);
}

#ifndef CONFIG_IOMMU_DMA
__rust_helper bool rust_helper_dma_iova_try_alloc(struct device *dev,
						  struct dma_iova_state *state,
						  phys_addr_t phys, size_t size)
{
	return dma_iova_try_alloc(dev, state, phys, size);
}

__rust_helper int rust_helper_dma_iova_link(struct device *dev,
					    struct dma_iova_state *state,
					    phys_addr_t phys, size_t offset,
					    size_t size,
					    enum dma_data_direction dir,
					    unsigned long attrs)
{
	return dma_iova_link(dev, state, phys, offset, size, dir, attrs);
}

__rust_helper int rust_helper_dma_iova_sync(struct device *dev,
					    struct dma_iova_state *state,
					    size_t offset, size_t size)
{
	return dma_iova_sync(dev, state, offset, size);
}

__rust_helper void rust_helper_dma_iova_destroy(struct device *dev,
						struct dma_iova_state *state,
						size_t mapped_len,
						enum dma_data_direction dir,
						unsigned long attrs)
{
	dma_iova_destroy(dev, state, mapped_len, dir, attrs);
}
#endif
