// SPDX-License-Identifier: GPL-2.0

//! Completion queues that the core polls, and those that the consumer polls.

use super::util::{flush, wait_until, Counter, Cq, Fake};
use core::ptr;
use kernel::{bindings, error::from_err_ptr, prelude::*, sync::atomic::Relaxed};

#[kunit_tests(rust_verbs_cq)]
mod tests {
    use super::*;
    use crate::util::{Pd, Qp};
    // Both globs below have these.
    use bindings::*;
    use kernel::{alloc::flags::GFP_KERNEL, error::code::EOPNOTSUPP};

    /// A queue pair in the error state: every request ends at once.
    struct Broken {
        qp: *mut ib_qp,
        cq: *mut ib_cq,
        pd: Pd,
        device: Fake,
    }

    impl Broken {
        fn new(context: ib_poll_context) -> Result<Self> {
            let device = Fake::new()?;
            let pd = Pd::new(&device)?;
            // SAFETY: The device is live.
            let cq = from_err_ptr(unsafe {
                __ib_alloc_cq(
                    device.raw(),
                    ptr::null_mut(),
                    64,
                    0,
                    context,
                    c"kunit_verbs".as_ptr().cast(),
                )
            })?;
            let mut attr: ib_qp_init_attr = pin_init::zeroed();
            attr.qp_type = ib_qp_type_IB_QPT_RC;
            attr.send_cq = cq;
            attr.recv_cq = cq;
            attr.cap.max_send_wr = 32;
            attr.cap.max_recv_wr = 32;
            attr.cap.max_recv_sge = 1;
            // SAFETY: The domain and the queue are live.
            let qp = from_err_ptr(unsafe {
                ib_create_qp_kernel(pd.raw(), &mut attr, c"kunit_verbs".as_ptr().cast())
            });
            let qp = qp.inspect_err(|_| {
                // SAFETY: The queue is ours.
                unsafe { ib_free_cq(cq) }
            })?;
            let this = Self { qp, cq, pd, device };
            for state in [ib_qp_state_IB_QPS_INIT, ib_qp_state_IB_QPS_ERR] {
                let mut attr: KBox<ib_qp_attr> = KBox::new(pin_init::zeroed(), GFP_KERNEL)?;
                attr.qp_state = state;
                attr.port_num = 1;
                let mut mask = ib_qp_attr_mask_IB_QP_STATE;
                if state == ib_qp_state_IB_QPS_INIT {
                    mask |= ib_qp_attr_mask_IB_QP_PORT
                        | ib_qp_attr_mask_IB_QP_PKEY_INDEX
                        | ib_qp_attr_mask_IB_QP_ACCESS_FLAGS;
                }
                // SAFETY: The queue pair is live, and the attributes are valid.
                kernel::error::to_result(unsafe { ib_modify_qp(qp, &mut *attr, mask as i32) })?;
            }
            Ok(this)
        }

        /// Posts a receive request that ends at once.
        fn post(&self, cqe: &mut ib_cqe) -> Result {
            let mut wr: ib_recv_wr = pin_init::zeroed();
            wr.__bindgen_anon_1.wr_cqe = cqe;
            // SAFETY: The queue pair is live, and the entry stays until the request ends.
            let ret = unsafe {
                let post = (*self.device.raw()).ops.post_recv.ok_or(EOPNOTSUPP)?;
                post(self.qp, &wr, &mut ptr::null())
            };
            kernel::error::to_result(ret)
        }
    }

    impl Drop for Broken {
        fn drop(&mut self) {
            let _ = self.pd.raw();
            // SAFETY: Both are ours.
            unsafe {
                ib_destroy_qp_user(self.qp, ptr::null_mut());
                ib_free_cq(self.cq);
            }
        }
    }

    static DONE: Counter = Counter::new(0);

    /// # Safety
    ///
    /// None: uses nothing that it is called with.
    unsafe extern "C" fn done(_cq: *mut ib_cq, _wc: *mut ib_wc) {
        DONE.fetch_add(1, Relaxed);
    }

    /// A debug kernel reports this one in any context that must not sleep.
    ///
    /// # Safety
    ///
    /// None: uses nothing that it is called with.
    unsafe extern "C" fn done_sleeping(_cq: *mut ib_cq, _wc: *mut ib_wc) {
        kernel::time::delay::fsleep(kernel::time::Delta::from_millis(1));
        DONE.fetch_add(1, Relaxed);
    }

    fn cqe() -> ib_cqe {
        ib_cqe { done: Some(done) }
    }

    #[test]
    fn polled_by_a_worker() -> Result {
        for context in [
            ib_poll_context_IB_POLL_WORKQUEUE,
            ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE,
        ] {
            let sleeping = || ib_cqe {
                done: Some(done_sleeping),
            };
            let (mut one, mut two) = (sleeping(), sleeping());
            let broken = Broken::new(context)?;
            let before = DONE.load(Relaxed);
            broken.post(&mut one)?;
            broken.post(&mut two)?;
            assert!(wait_until(|| DONE.load(Relaxed) == before + 2));
        }
        Ok(())
    }

    #[test]
    fn polled_in_softirq() -> Result {
        let mut one = cqe();
        let broken = Broken::new(ib_poll_context_IB_POLL_SOFTIRQ)?;
        let before = DONE.load(Relaxed);
        broken.post(&mut one)?;
        assert!(wait_until(|| DONE.load(Relaxed) == before + 1));
        Ok(())
    }

    #[test]
    fn polled_by_the_consumer() -> Result {
        let mut one = cqe();
        let broken = Broken::new(ib_poll_context_IB_POLL_DIRECT)?;
        let before = DONE.load(Relaxed);
        broken.post(&mut one)?;
        flush();
        assert_eq!(DONE.load(Relaxed), before);
        // SAFETY: The queue is live.
        assert_eq!(unsafe { ib_process_cq_direct(broken.cq, -1) }, 1);
        assert_eq!(DONE.load(Relaxed), before + 1);
        // SAFETY: As above.
        assert_eq!(unsafe { ib_process_cq_direct(broken.cq, -1) }, 0);
        Ok(())
    }

    #[test]
    fn told_once_per_arming() -> Result {
        static TOLD: Counter = Counter::new(0);
        let device = Fake::new()?;
        let pd = Pd::new(&device)?;
        let cq = Cq::counting(&device, 8, Some(&TOLD))?;
        let qp = Qp::new(&pd, &cq, ib_qp_type_IB_QPT_RC)?;
        qp.to_init(0)?;
        qp.to_error()?;
        let mut nothing: ib_sge = pin_init::zeroed();
        qp.recv(1, &mut nothing)?;
        flush();
        assert_eq!(TOLD.load(Relaxed), 0);
        // There is one already, and the consumer wants to know.
        let flags =
            ib_cq_notify_flags_IB_CQ_NEXT_COMP | ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS;
        assert!(cq.arm(flags) > 0);
        assert!(cq.poll().is_some());
        assert_eq!(cq.arm(flags), 0);
        qp.recv(2, &mut nothing)?;
        qp.recv(3, &mut nothing)?;
        flush();
        assert_eq!(TOLD.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn moderation() -> Result {
        let device = Fake::new()?;
        let cq = Cq::new(&device, 8)?;
        // SAFETY: The queue is live.
        assert_eq!(unsafe { rdma_set_cq_moderation(cq.raw(), 3, 9) }, 0);
        assert_eq!(device.calls(ib_fake_op_IB_FAKE_MODIFY_CQ), 1);
        Ok(())
    }
}
