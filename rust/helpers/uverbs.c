// SPDX-License-Identifier: GPL-2.0

__rust_helper unsigned int rust_helper_rdma_uverbs_attr_bkey(u16 idx)
{
	return uapi_bkey_attr(uapi_key_attr(idx));
}

__rust_helper int rust_helper_uverbs_set_output(const struct uverbs_attr_bundle *bundle,
						const struct uverbs_attr *attr)
{
	return uverbs_set_output(bundle, attr);
}

__rust_helper unsigned long rust_helper_rdma_clear_user(void __user *to, unsigned long n)
{
	return clear_user(to, n);
}

__rust_helper bool rust_helper_rdma_want_init_on_alloc(gfp_t flags)
{
	return want_init_on_alloc(flags);
}

__rust_helper void rust_helper_ib_uverbs_dmabuf_revoke(struct ib_uverbs_dmabuf_file *priv)
{
	ib_uverbs_dmabuf_revoke(priv);
}

__rust_helper int
rust_helper_rdma_io_remap_pfn_range(struct vm_area_struct *vma, unsigned long pfn,
				    unsigned long size, pgprot_t prot)
{
	return io_remap_pfn_range(vma, vma->vm_start, pfn, size, prot);
}

/* What the dynamic debug messages on driver data show of the running command. */
static struct ib_device *rdma_udata_device(struct ib_udata *udata)
{
	struct uverbs_attr_bundle *bundle = rdma_udata_to_uverbs_attr_bundle(udata);

	if (bundle->context)
		return bundle->context->device;
	return srcu_dereference(bundle->ufile->device->ib_dev,
				&bundle->ufile->device->disassociate_srcu);
}

static void *rdma_udata_handler(struct ib_udata *udata)
{
	struct uverbs_attr_bundle *bundle = rdma_udata_to_uverbs_attr_bundle(udata);

	if (!bundle->method_elm)
		return NULL;
	return srcu_dereference(bundle->method_elm->handler,
				&bundle->ufile->device->disassociate_srcu);
}

__rust_helper void rust_helper_rdma_udata_dbg_small(struct ib_udata *udata, size_t minimum)
{
	ibdev_dbg(rdma_udata_device(udata),
		  "System call driver input udata too small (%zu < %zu) for ioctl %ps\n",
		  udata->inlen, minimum, rdma_udata_handler(udata));
}

__rust_helper void rust_helper_rdma_udata_dbg_trailing(struct ib_udata *udata, size_t minimum)
{
	ibdev_dbg(rdma_udata_device(udata),
		  "System call driver input udata not zero from %zu -> %zu for ioctl %ps\n",
		  minimum, udata->inlen, rdma_udata_handler(udata));
}

__rust_helper void rust_helper_rdma_udata_dbg_fault_in(struct ib_udata *udata)
{
	ibdev_dbg(rdma_udata_device(udata),
		  "System call driver input udata EFAULT for ioctl %ps\n",
		  rdma_udata_handler(udata));
}

__rust_helper void rust_helper_rdma_udata_dbg_fault_out(struct ib_udata *udata, size_t len)
{
	ibdev_dbg(rdma_udata_device(udata),
		  "System call driver out udata has EFAULT (%zu into %zu) for ioctl %ps\n",
		  len, udata->outlen, rdma_udata_handler(udata));
}

__rust_helper void rust_helper_rdma_udata_dbg_comp_mask(struct ib_udata *udata, u64 req, u64 valid)
{
	ibdev_dbg(rdma_udata_device(udata),
		  "System call driver input udata has unsupported comp_mask %llx & ~%llx = %llx for ioctl %ps\n",
		  req, valid, req & ~valid, rdma_udata_handler(udata));
}

__rust_helper void rust_helper_rdma_mmap_dbg(struct ib_ucontext *ucontext, unsigned long pgoff,
					     size_t npages, const char *what)
{
	ibdev_dbg(ucontext->device, "mmap: pgoff[%#lx] npages[%#zx] %s\n", pgoff, npages, what);
}
