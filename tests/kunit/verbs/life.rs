// SPDX-License-Identifier: GPL-2.0

//! Life cycles of verbs objects: what the driver is asked, and what is given back when it refuses.

use super::util::{Ah, Cq, Fake, Mr, Pd, Qp, QpParts, Srq};
use kernel::{bindings, prelude::*};

#[kunit_tests(rust_verbs_life)]
mod tests {
    use super::*;
    // Both globs below have these.
    use bindings::*;
    use kernel::error::code::{EBUSY, EDEADLK, EINVAL, EMLINK, ENOSPC, EOPNOTSUPP, EXDEV};

    const RC: ib_qp_type = ib_qp_type_IB_QPT_RC;

    /// All kinds of objects that a device may have, by the operation that makes them.
    const KINDS: [ib_fake_op; 7] = [
        ib_fake_op_IB_FAKE_ALLOC_PD,
        ib_fake_op_IB_FAKE_GET_DMA_MR,
        ib_fake_op_IB_FAKE_CREATE_CQ,
        ib_fake_op_IB_FAKE_CREATE_QP,
        ib_fake_op_IB_FAKE_CREATE_SRQ,
        ib_fake_op_IB_FAKE_ALLOC_MR,
        ib_fake_op_IB_FAKE_CREATE_AH,
    ];

    fn counts(device: &Fake) -> [u32; 7] {
        KINDS.map(|op| device.objects(op))
    }

    #[test]
    fn pd_has_its_dma_mr() -> Result {
        let device = Fake::new()?;
        let before = counts(&device);
        device.clear();
        let pd = Pd::new(&device)?;
        assert_eq!(
            device.history()?.as_slice(),
            [ib_fake_op_IB_FAKE_ALLOC_PD, ib_fake_op_IB_FAKE_GET_DMA_MR]
        );
        device.clear();
        drop(pd);
        assert_eq!(
            device.history()?.as_slice(),
            [ib_fake_op_IB_FAKE_DEREG_MR, ib_fake_op_IB_FAKE_DEALLOC_PD]
        );
        assert_eq!(counts(&device), before);
        Ok(())
    }

    #[test]
    fn pd_without_its_dma_mr_is_given_back() -> Result {
        let device = Fake::new()?;
        let before = counts(&device);
        device.fail(ib_fake_op_IB_FAKE_GET_DMA_MR, 1, ENOSPC);
        device.clear();
        assert_eq!(Pd::new(&device).err(), Some(ENOSPC));
        assert_eq!(device.calls(ib_fake_op_IB_FAKE_DEALLOC_PD), 1);
        assert_eq!(counts(&device), before);
        // Only the one call was to fail.
        assert!(Pd::new(&device).is_ok());
        Ok(())
    }

    #[test]
    fn fails_until_mended() -> Result {
        let device = Fake::new()?;
        device.fail(ib_fake_op_IB_FAKE_ALLOC_PD, 0, ENOSPC);
        for _ in 0..3 {
            assert_eq!(Pd::new(&device).err(), Some(ENOSPC));
        }
        device.mend(ib_fake_op_IB_FAKE_ALLOC_PD);
        assert!(Pd::new(&device).is_ok());
        Ok(())
    }

    /// Makes every operation of a constructor fail once, and looks for what is left.
    fn refused(
        op: ib_fake_op,
        make: impl Fn(&Fake, &Pd, &Cq) -> Result,
        and_then: impl Fn(&Fake) -> bool,
    ) -> Result<bool> {
        let device = Fake::new()?;
        let pd = Pd::new(&device)?;
        let cq = Cq::new(&device, 16)?;
        let (before, uses) = (counts(&device), pd.uses());
        device.clear();
        device.fail(op, 1, EMLINK);
        let result = make(&device, &pd, &cq);
        let clean = counts(&device) == before && pd.uses() == uses;
        let again = make(&device, &pd, &cq);
        Ok(result == Err(EMLINK) && clean && again.is_ok() && and_then(&device))
    }

    #[test]
    fn refused_pd() -> Result {
        assert!(refused(
            ib_fake_op_IB_FAKE_ALLOC_PD,
            |device, _, _| Pd::new(device).map(drop),
            |device| device.calls(ib_fake_op_IB_FAKE_ALLOC_PD) == 2,
        )?);
        Ok(())
    }

    #[test]
    fn refused_cq() -> Result {
        assert!(refused(
            ib_fake_op_IB_FAKE_CREATE_CQ,
            |device, _, _| Cq::new(device, 4).map(drop),
            |device| device.calls(ib_fake_op_IB_FAKE_DESTROY_CQ) == 1,
        )?);
        Ok(())
    }

    #[test]
    fn refused_qp() -> Result {
        assert!(refused(
            ib_fake_op_IB_FAKE_CREATE_QP,
            |_, pd, cq| Qp::new(pd, cq, RC).map(drop),
            |device| device.calls(ib_fake_op_IB_FAKE_DESTROY_QP) == 1,
        )?);
        Ok(())
    }

    #[test]
    fn refused_srq() -> Result {
        assert!(refused(
            ib_fake_op_IB_FAKE_CREATE_SRQ,
            |_, pd, _| Srq::new(pd).map(drop),
            |device| device.calls(ib_fake_op_IB_FAKE_DESTROY_SRQ) == 1,
        )?);
        Ok(())
    }

    #[test]
    fn refused_mr() -> Result {
        assert!(refused(
            ib_fake_op_IB_FAKE_ALLOC_MR,
            |_, pd, _| Mr::new(pd, 4).map(drop),
            |device| device.calls(ib_fake_op_IB_FAKE_DEREG_MR) == 1,
        )?);
        Ok(())
    }

    #[test]
    fn refused_ah() -> Result {
        assert!(refused(
            ib_fake_op_IB_FAKE_CREATE_AH,
            |_, pd, _| Ah::new(pd, 5).map(drop),
            |device| device.calls(ib_fake_op_IB_FAKE_DESTROY_AH) == 1,
        )?);
        Ok(())
    }

    /// A driver that does not let go keeps the object usable, and countable.
    fn stays<T>(
        op: ib_fake_op,
        device: &Fake,
        pd: &Pd,
        object: T,
        end: impl Fn(T) -> core::result::Result<(), (T, Error)>,
    ) -> Result<bool> {
        let (before, uses) = (counts(device), pd.uses());
        device.fail(op, 1, EDEADLK);
        let Err((object, e)) = end(object) else {
            return Ok(false);
        };
        let kept = e == EDEADLK && counts(device) == before && pd.uses() == uses;
        Ok(kept && end(object).is_ok() && pd.uses() < uses)
    }

    #[test]
    fn driver_keeps_qp() -> Result {
        let device = Fake::new()?;
        let (pd, cq) = (Pd::new(&device)?, Cq::new(&device, 4)?);
        let qp = Qp::new(&pd, &cq, RC)?;
        assert!(stays(
            ib_fake_op_IB_FAKE_DESTROY_QP,
            &device,
            &pd,
            qp,
            Qp::end
        )?);
        Ok(())
    }

    #[test]
    fn driver_keeps_srq() -> Result {
        let device = Fake::new()?;
        let pd = Pd::new(&device)?;
        let srq = Srq::new(&pd)?;
        assert!(stays(
            ib_fake_op_IB_FAKE_DESTROY_SRQ,
            &device,
            &pd,
            srq,
            Srq::end
        )?);
        Ok(())
    }

    #[test]
    fn driver_keeps_ah() -> Result {
        let device = Fake::new()?;
        let pd = Pd::new(&device)?;
        let ah = Ah::new(&pd, 7)?;
        assert!(stays(
            ib_fake_op_IB_FAKE_DESTROY_AH,
            &device,
            &pd,
            ah,
            Ah::end
        )?);
        Ok(())
    }

    #[test]
    fn driver_keeps_cq() -> Result {
        let device = Fake::new()?;
        let cq = Cq::new(&device, 4)?;
        let before = counts(&device);
        device.fail(ib_fake_op_IB_FAKE_DESTROY_CQ, 1, EDEADLK);
        let Err((cq, e)) = cq.end() else {
            return Err(EINVAL);
        };
        assert_eq!(e, EDEADLK);
        assert_eq!(counts(&device), before);
        assert!(cq.poll().is_none());
        assert!(cq.end().is_ok());
        Ok(())
    }

    #[test]
    fn in_use_is_busy() -> Result {
        let device = Fake::new()?;
        let (pd, cq) = (Pd::new(&device)?, Cq::new(&device, 4)?);
        let srq = Srq::new(&pd)?;
        let parts = QpParts {
            srq: Some(&srq),
            ..QpParts::new(RC)
        };
        let qp = Qp::with(&pd, &cq, &parts)?;
        device.clear();
        let Err((cq, e)) = cq.end() else {
            return Err(EINVAL);
        };
        assert_eq!(e, EBUSY);
        let Err((srq, e)) = srq.end() else {
            return Err(EINVAL);
        };
        assert_eq!(e, EBUSY);
        // The driver was not asked.
        assert_eq!(device.history()?.len(), 0);
        drop(qp);
        assert!(srq.end().is_ok());
        assert!(cq.end().is_ok());
        Ok(())
    }

    #[test]
    fn absent_operations() -> Result {
        let mut config = Fake::config(ib_fake_protocol_IB_FAKE_INFINIBAND);
        // SRQ, ALLOC_MR, QUERY_QP of ib_fake.h.
        config.without = (1 << 0) | (1 << 2) | (1 << 4);
        let device = Fake::with(&config)?;
        let (pd, cq) = (Pd::new(&device)?, Cq::new(&device, 4)?);
        assert_eq!(Srq::new(&pd).err(), Some(EOPNOTSUPP));
        assert_eq!(Mr::new(&pd, 4).err(), Some(EOPNOTSUPP));
        let qp = Qp::new(&pd, &cq, RC)?;
        assert_eq!(qp.state().err(), Some(EOPNOTSUPP));
        Ok(())
    }

    #[test]
    fn registration_that_fails() -> Result {
        for op in [
            ib_fake_op_IB_FAKE_QUERY_DEVICE,
            ib_fake_op_IB_FAKE_GET_PORT_IMMUTABLE,
            ib_fake_op_IB_FAKE_ENABLE_DRIVER,
        ] {
            let mut config = Fake::config(ib_fake_protocol_IB_FAKE_INFINIBAND);
            config.ports = 2;
            config.fail_op = op;
            config.fail_error = EXDEV.to_errno();
            assert_eq!(Fake::with(&config).err(), Some(EXDEV));
            // The name and everything else is free again.
            assert!(Fake::new().is_ok());
        }
        Ok(())
    }
}
