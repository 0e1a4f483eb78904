// SPDX-License-Identifier: GPL-2.0

//! Management datagrams through the core, between a test that plays the fabric and one that plays
//! the firmware.

use super::util::{wait_until, Counter, Fake};
use kernel::{bindings, prelude::*, sync::atomic::Relaxed};

#[kunit_tests(rust_verbs_mads)]
mod tests {
    use super::*;
    // Both globs have it.
    use bindings::*;
    use kernel::error::code::ENOENT;

    const MAD: usize = 256;
    const PERFORMANCE: u8 = 0x04;
    const GET: u8 = 0x01;
    const GET_RESP: u8 = 0x81;

    /// What the responder has seen: method in the low byte, destination LID above.
    static SEEN: Counter = Counter::new(0);
    static STATUS: Counter = Counter::new(0);
    static ASKED: Counter = Counter::new(0);

    /// Plays the firmware: answers with the same bytes, as a response.
    ///
    /// # Safety
    ///
    /// Called with a datagram, and room for one.
    unsafe extern "C" fn firmware(
        _context: *mut c_void,
        mad: *const ib_fake_mad,
        reply: *mut u8,
    ) -> ib_fake_verdict {
        ASKED.fetch_add(1, Relaxed);
        // SAFETY: By the contract of this function.
        unsafe {
            core::ptr::copy_nonoverlapping((*mad).data, reply, MAD);
            *reply.add(3) = GET_RESP;
        }
        ib_fake_verdict_IB_FAKE_REPLY
    }

    /// Plays the fabric: notes what leaves the port.
    ///
    /// # Safety
    ///
    /// Called with a datagram.
    unsafe extern "C" fn fabric(
        _context: *mut c_void,
        mad: *const ib_fake_mad,
        _reply: *mut u8,
    ) -> ib_fake_verdict {
        // SAFETY: By the contract of this function.
        let (bytes, dlid) = unsafe { (*(*mad).data.cast::<[u8; 8]>(), (*mad).dlid) };
        let [_, _, _, method, high, low, ..] = bytes;
        STATUS.store(u16::from_be_bytes([high, low]).into(), Relaxed);
        SEEN.store(dlid << 8 | u32::from(method), Relaxed);
        ib_fake_verdict_IB_FAKE_DROP
    }

    /// Has a Get of performance management arrive from a LID.
    fn arrive(device: &Fake, qp: u32, slid: u32) -> c_int {
        let mut bytes = [0u8; MAD];
        bytes[0] = 1;
        bytes[1] = PERFORMANCE;
        bytes[2] = 1;
        bytes[3] = GET;
        bytes[17] = 0x12;
        let mad = ib_fake_mad {
            port: 1,
            qp,
            slid,
            src_qp: 1,
            data: bytes.as_ptr(),
            ..pin_init::zeroed()
        };
        // SAFETY: The device is live, and the datagram has its size.
        unsafe { ib_fake_deliver_mad(device.raw(), &mad) }
    }

    fn set(device: &Fake, agent: ib_fake_mad_fn, responder: ib_fake_mad_fn) {
        // SAFETY: The device is live, and the functions need no context.
        unsafe {
            ib_fake_set_agent(device.raw(), agent, core::ptr::null_mut());
            ib_fake_set_responder(device.raw(), 1, responder, core::ptr::null_mut());
        }
    }

    #[test]
    fn answered_by_the_driver() -> Result {
        let device = Fake::new()?;
        set(&device, Some(firmware), Some(fabric));
        SEEN.store(0, Relaxed);
        assert_eq!(arrive(&device, 1, 0x77), 0);
        // The answer goes back to where the request came from.
        assert!(wait_until(
            || SEEN.load(Relaxed) == 0x77 << 8 | u32::from(GET_RESP)
        ));
        assert!(device.calls(ib_fake_op_IB_FAKE_PROCESS_MAD) > 0);
        set(&device, None, None);
        Ok(())
    }

    #[test]
    fn refused_by_the_core() -> Result {
        const UNSUPPORTED: u32 = 0x000c;
        let device = Fake::new()?;
        set(&device, None, Some(fabric));
        SEEN.store(0, Relaxed);
        let asked = ASKED.load(Relaxed);
        assert_eq!(arrive(&device, 1, 0x78), 0);
        // Nobody wants it, so the core says so (IBTA 13.4.7).
        assert!(wait_until(
            || SEEN.load(Relaxed) == 0x78 << 8 | u32::from(GET_RESP)
        ));
        assert_eq!(STATUS.load(Relaxed), UNSUPPORTED);
        assert_eq!(ASKED.load(Relaxed), asked);
        set(&device, None, None);
        Ok(())
    }

    #[test]
    fn only_where_there_is_management() -> Result {
        // Without RoCE's QP0.
        let device = Fake::with(&Fake::config(ib_fake_protocol_IB_FAKE_ROCE))?;
        assert_eq!(arrive(&device, 0, 1), ENOENT.to_errno());
        Ok(())
    }
}
