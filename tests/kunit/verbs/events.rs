// SPDX-License-Identifier: GPL-2.0

//! Events: from the device to handlers, in which order and how often.

use super::util::{wait_until, Counter, Cq, Fake, Pd, Qp, QpParts};
use kernel::{bindings, prelude::*, sync::atomic::Relaxed, types::Opaque};

#[kunit_tests(rust_verbs_events)]
mod tests {
    use super::*;
    // Both globs below have these.
    use bindings::*;
    use kernel::{alloc::flags::GFP_KERNEL, error::code::EINVAL};

    /// A handler of the events of a device.
    #[repr(C)]
    struct Handler {
        raw: Opaque<ib_event_handler>,
        count: Counter,
        last: Counter,
        port: Counter,
    }

    impl Handler {
        fn new(device: &Fake) -> Result<Pin<KBox<Self>>> {
            let mut raw: ib_event_handler = pin_init::zeroed();
            raw.device = device.raw();
            raw.handler = Some(on_event);
            let this = KBox::pin(
                Self {
                    raw: Opaque::new(raw),
                    count: Counter::new(0),
                    last: Counter::new(0),
                    port: Counter::new(0),
                },
                GFP_KERNEL,
            )?;
            // SAFETY: Pinned, and unregistered before it goes.
            unsafe {
                let raw = this.raw.get();
                INIT_LIST_HEAD(&raw mut (*raw).list);
                ib_register_event_handler(raw);
            }
            Ok(this)
        }
    }

    impl Drop for Handler {
        fn drop(&mut self) {
            // SAFETY: Registered by `new`.
            unsafe { ib_unregister_event_handler(self.raw.get()) };
        }
    }

    /// # Safety
    ///
    /// Called by the core with a handler of this file and a valid event.
    unsafe extern "C" fn on_event(handler: *mut ib_event_handler, event: *mut ib_event) {
        // SAFETY: The handler is the first member of ours; events of ports carry the port.
        unsafe {
            let this = &*handler.cast::<Handler>();
            this.last.store((*event).event, Relaxed);
            this.port.store((*event).element.port_num, Relaxed);
            this.count.fetch_add(1, Relaxed);
        }
    }

    /// But for the change of GIDs, which is told for each GID that did change.
    const PORT_EVENTS: [ib_event_type; 6] = [
        ib_event_type_IB_EVENT_PORT_ACTIVE,
        ib_event_type_IB_EVENT_PORT_ERR,
        ib_event_type_IB_EVENT_LID_CHANGE,
        ib_event_type_IB_EVENT_PKEY_CHANGE,
        ib_event_type_IB_EVENT_SM_CHANGE,
        ib_event_type_IB_EVENT_CLIENT_REREGISTER,
    ];

    #[test]
    fn events_of_ports() -> Result {
        let mut config = Fake::config(ib_fake_protocol_IB_FAKE_INFINIBAND);
        config.ports = 2;
        let device = Fake::with(&config)?;
        let (one, two) = (Handler::new(&device)?, Handler::new(&device)?);
        for (n, event) in (1..).zip(PORT_EVENTS) {
            let port = 1 + n % 2;
            device.event(port, event)?;
            assert!(wait_until(|| one.count.load(Relaxed) == n));
            assert!(wait_until(|| two.count.load(Relaxed) == n));
            assert_eq!(
                (one.last.load(Relaxed), one.port.load(Relaxed)),
                (event, port)
            );
        }
        assert_eq!(device.event(3, PORT_EVENTS[0]), Err(EINVAL));
        Ok(())
    }

    #[test]
    fn a_handler_of_another_device() -> Result {
        let (device, other) = (Fake::new()?, Fake::new()?);
        let (mine, its) = (Handler::new(&device)?, Handler::new(&other)?);
        device.event(1, ib_event_type_IB_EVENT_SM_CHANGE)?;
        assert!(wait_until(|| mine.count.load(Relaxed) == 1));
        other.event(1, ib_event_type_IB_EVENT_SM_CHANGE)?;
        assert!(wait_until(|| its.count.load(Relaxed) == 1));
        assert_eq!(mine.count.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn cache_is_fresh_when_handlers_run() -> Result {
        let device = Fake::new()?;
        let handler = Handler::new(&device)?;
        let mut attr = device.port(1)?;
        attr.lmc = 3;
        device.set_port(1, &attr)?;
        device.event(1, ib_event_type_IB_EVENT_LID_CHANGE)?;
        assert!(wait_until(|| handler.count.load(Relaxed) == 1));
        let mut lmc = 0;
        // SAFETY: The device is live.
        assert_eq!(unsafe { ib_get_cached_lmc(device.raw(), 1, &mut lmc) }, 0);
        assert_eq!(lmc, 3);
        Ok(())
    }

    #[test]
    fn the_device_fails() -> Result {
        let device = Fake::new()?;
        let handler = Handler::new(&device)?;
        device.event(0, ib_event_type_IB_EVENT_DEVICE_FATAL)?;
        assert!(wait_until(|| handler.count.load(Relaxed) == 1));
        assert_eq!(
            handler.last.load(Relaxed),
            ib_event_type_IB_EVENT_DEVICE_FATAL
        );
        Ok(())
    }

    #[test]
    fn events_of_objects() -> Result {
        static QP: Counter = Counter::new(0);
        static CQ: Counter = Counter::new(0);
        let device = Fake::new()?;
        let pd = Pd::new(&device)?;
        let cq = Cq::counting(&device, 8, Some(&CQ))?;
        let parts = QpParts {
            events: Some(&QP),
            ..QpParts::new(ib_qp_type_IB_QPT_RC)
        };
        let qp = Qp::with(&pd, &cq, &parts)?;
        for event in [
            ib_event_type_IB_EVENT_COMM_EST,
            ib_event_type_IB_EVENT_PATH_MIG,
            ib_event_type_IB_EVENT_QP_FATAL,
        ] {
            // SAFETY: The queue pair is live.
            assert_eq!(unsafe { ib_fake_qp_event(qp.raw(), event) }, 0);
            assert!(wait_until(|| QP.load(Relaxed) == event + 1));
        }
        // SAFETY: Both are live.
        unsafe {
            let event = ib_event_type_IB_EVENT_CQ_ERR;
            assert_eq!(ib_fake_cq_event(cq.raw(), event), 0);
            assert!(wait_until(|| CQ.load(Relaxed) == event + 1));
            assert_eq!(
                ib_fake_qp_event(qp.raw(), ib_event_type_IB_EVENT_PORT_ERR),
                EINVAL.to_errno()
            );
        }
        Ok(())
    }
}
