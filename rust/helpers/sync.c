// SPDX-License-Identifier: GPL-2.0

__rust_helper unsigned long rust_helper_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

__rust_helper void rust_helper_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

__rust_helper bool rust_helper_rdma_in_softirq(void)
{
	return in_softirq() && !in_hardirq() && !irqs_disabled();
}

__rust_helper void rust_helper_rdma_local_bh_disable(void)
{
	local_bh_disable();
}

__rust_helper void rust_helper_rdma_local_bh_enable(void)
{
	local_bh_enable();
}

__rust_helper void rust_helper_rdma_sema_init(struct semaphore *sem, int count)
{
	sema_init(sem, count);
}

__rust_helper void rust_helper_spin_lock_bh(spinlock_t *lock)
{
	spin_lock_bh(lock);
}

__rust_helper void rust_helper_spin_unlock_bh(spinlock_t *lock)
{
	spin_unlock_bh(lock);
}

__rust_helper void rust_helper_rwlock_init(rwlock_t *lock, const char *name,
					   struct lock_class_key *key)
{
#ifdef CONFIG_DEBUG_SPINLOCK
	__rwlock_init(lock, name, key);
#else
	rwlock_init(lock);
#endif
}

__rust_helper unsigned long rust_helper_read_lock_irqsave(rwlock_t *lock)
{
	unsigned long flags;

	read_lock_irqsave(lock, flags);
	return flags;
}

__rust_helper void rust_helper_read_unlock_irqrestore(rwlock_t *lock, unsigned long flags)
{
	read_unlock_irqrestore(lock, flags);
}

__rust_helper unsigned long rust_helper_write_lock_irqsave(rwlock_t *lock)
{
	unsigned long flags;

	write_lock_irqsave(lock, flags);
	return flags;
}

__rust_helper void rust_helper_write_unlock_irqrestore(rwlock_t *lock, unsigned long flags)
{
	write_unlock_irqrestore(lock, flags);
}

__rust_helper bool rust_helper_refcount_inc_not_zero(refcount_t *r)
{
	return refcount_inc_not_zero(r);
}

__rust_helper unsigned int rust_helper_refcount_read(refcount_t *r)
{
	return refcount_read(r);
}

__rust_helper void rust_helper_kref_init(struct kref *kref)
{
	kref_init(kref);
}

__rust_helper void rust_helper_kref_get(struct kref *kref)
{
	kref_get(kref);
}

__rust_helper int rust_helper_kref_get_unless_zero(struct kref *kref)
{
	return kref_get_unless_zero(kref);
}

__rust_helper int rust_helper_kref_put(struct kref *kref, void (*release)(struct kref *kref))
{
	return kref_put(kref, release);
}

__rust_helper void rust_helper_reinit_completion(struct completion *x)
{
	reinit_completion(x);
}

__rust_helper void rust_helper_xa_lock_irq(struct xarray *xa)
{
	xa_lock_irq(xa);
}

__rust_helper void rust_helper_xa_unlock_irq(struct xarray *xa)
{
	xa_unlock_irq(xa);
}

__rust_helper int rust_helper_xa_reserve(struct xarray *xa, unsigned long index, gfp_t gfp)
{
	return xa_reserve(xa, index, gfp);
}

__rust_helper void rust_helper_xa_release(struct xarray *xa, unsigned long index)
{
	xa_release(xa, index);
}

__rust_helper bool rust_helper_xa_empty(struct xarray *xa)
{
	return xa_empty(xa);
}

__rust_helper void *rust_helper_xa_cmpxchg(struct xarray *xa, unsigned long index, void *old,
					   void *entry, gfp_t gfp)
{
	return xa_cmpxchg(xa, index, old, entry, gfp);
}

__rust_helper int rust_helper_xa_insert(struct xarray *xa, unsigned long index, void *entry,
					gfp_t gfp)
{
	return xa_insert(xa, index, entry, gfp);
}

__rust_helper int rust_helper_xa_alloc(struct xarray *xa, u32 *id, void *entry, u32 max, u32 min,
				       gfp_t gfp)
{
	return xa_alloc(xa, id, entry, XA_LIMIT(min, max), gfp);
}

__rust_helper int rust_helper_xa_alloc_cyclic(struct xarray *xa, u32 *id, void *entry, u32 max,
					      u32 min, u32 *next, gfp_t gfp)
{
	return xa_alloc_cyclic(xa, id, entry, XA_LIMIT(min, max), next, gfp);
}

__rust_helper gfp_t rust_helper_xa_flags_alloc(void)
{
	return XA_FLAGS_ALLOC;
}

__rust_helper gfp_t rust_helper_xa_flags_alloc1(void)
{
	return XA_FLAGS_ALLOC1;
}

__rust_helper gfp_t rust_helper_xa_flags_alloc_irq(void)
{
	return XA_FLAGS_ALLOC | XA_FLAGS_LOCK_IRQ;
}

__rust_helper unsigned long rust_helper_xa_lock_irqsave(struct xarray *xa)
{
	unsigned long flags;

	xa_lock_irqsave(xa, flags);
	return flags;
}

__rust_helper void rust_helper_xa_unlock_irqrestore(struct xarray *xa, unsigned long flags)
{
	xa_unlock_irqrestore(xa, flags);
}

__rust_helper xa_mark_t rust_helper_xa_mark(unsigned int n)
{
	return (__force xa_mark_t)n;
}

__rust_helper bool rust_helper_xa_is_zero(const void *entry)
{
	return xa_is_zero(entry);
}

/* Not a function in kernels whose tasks are not preempted. */
__rust_helper void rust_helper_rdma_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}
