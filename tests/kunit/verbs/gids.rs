// SPDX-License-Identifier: GPL-2.0

//! The cache of GIDs and partition keys, and who keeps an entry.

use super::util::{wait_until, Fake};
use kernel::{bindings, error::from_err_ptr, prelude::*};

#[kunit_tests(rust_verbs_gids)]
mod tests {
    use super::*;
    // Both globs below have these.
    use bindings::*;
    use kernel::error::code::{EINVAL, ENOENT, ETIMEDOUT};

    fn gid(last: u8) -> ib_gid {
        let mut raw = [0; 16];
        raw[0] = 0xfd;
        raw[15] = last;
        ib_gid { raw }
    }

    fn bytes(gid: &ib_gid) -> [u8; 16] {
        // SAFETY: Every view of the union is bytes.
        unsafe { gid.raw }
    }

    /// Sets a GID of port 1 and has the core look.
    fn set(device: &Fake, index: u32, value: &ib_gid) -> Result {
        // SAFETY: The device is live.
        unsafe { ib_fake_set_gid(device.raw(), 1, index, value) };
        let asked = device.calls(ib_fake_op_IB_FAKE_QUERY_GID);
        device.event(1, ib_event_type_IB_EVENT_GID_CHANGE)?;
        if wait_until(|| device.calls(ib_fake_op_IB_FAKE_QUERY_GID) >= asked + 4) {
            // The event goes on after the update; a query waits for neither.
            wait_until(|| cached(device, index).is_some_and(|now| bytes(&now) == bytes(value)));
            Ok(())
        } else {
            Err(ETIMEDOUT)
        }
    }

    fn cached(device: &Fake, index: u32) -> Option<ib_gid> {
        let mut found = gid(0);
        // SAFETY: The device is live, and there is room for a GID.
        let ret = unsafe { rdma_query_gid(device.raw(), 1, index as i32, &mut found) };
        (ret == 0).then_some(found)
    }

    #[test]
    fn follows_the_port() -> Result {
        let device = Fake::new()?;
        let first = cached(&device, 0).ok_or(ENOENT)?;
        assert_eq!(bytes(&first)[..2], [0xfe, 0x80]);
        assert!(cached(&device, 1).is_none());
        set(&device, 1, &gid(1))?;
        assert_eq!(
            cached(&device, 1).map(|gid| bytes(&gid)),
            Some(bytes(&gid(1)))
        );
        Ok(())
    }

    #[test]
    fn a_reference_keeps_the_entry() -> Result {
        let device = Fake::new()?;
        set(&device, 1, &gid(1))?;
        // SAFETY: The device is live.
        let held = from_err_ptr(unsafe { rdma_get_gid_attr(device.raw(), 1, 1) }.cast_mut())?;
        // SAFETY: Held.
        assert_eq!(bytes(unsafe { &(*held).gid }), bytes(&gid(1)));

        // Another GID takes the slot; who holds the old entry still reads the old one.
        set(&device, 1, &gid(2))?;
        assert_eq!(
            cached(&device, 1).map(|gid| bytes(&gid)),
            Some(bytes(&gid(2)))
        );
        // SAFETY: Held.
        unsafe {
            assert_eq!(bytes(&(*held).gid), bytes(&gid(1)));
            assert_eq!((*held).index, 1);
            rdma_hold_gid_attr(held);
            rdma_put_gid_attr(held);
            assert_eq!(bytes(&(*held).gid), bytes(&gid(1)));
            rdma_put_gid_attr(held);
        }
        Ok(())
    }

    #[test]
    fn found_by_value() -> Result {
        let device = Fake::new()?;
        set(&device, 2, &gid(9))?;
        // SAFETY: The device is live.
        let found = unsafe {
            rdma_find_gid_by_port(
                device.raw(),
                &gid(9),
                ib_gid_type_IB_GID_TYPE_IB,
                1,
                core::ptr::null_mut(),
            )
        };
        let found = from_err_ptr(found.cast_mut())?;
        // SAFETY: The reference was just taken, and is put once.
        unsafe {
            assert_eq!(((*found).index, (*found).port_num), (2, 1));
            rdma_put_gid_attr(found);
            let none = rdma_find_gid(
                device.raw(),
                &gid(8),
                ib_gid_type_IB_GID_TYPE_IB,
                core::ptr::null_mut(),
            );
            assert_eq!(from_err_ptr(none.cast_mut()).err(), Some(ENOENT));
        }
        Ok(())
    }

    #[test]
    fn partition_keys() -> Result {
        let device = Fake::new()?;
        let (mut pkey, mut index) = (0, 0);
        // SAFETY: The device is live, and there is room for the results.
        unsafe {
            assert_eq!(ib_fake_set_pkey(device.raw(), 1, 2, 0x8001), 0);
            // Not known before the event.
            assert_eq!(ib_get_cached_pkey(device.raw(), 1, 2, &mut pkey), 0);
            assert_eq!(pkey, 0);
            device.event(1, ib_event_type_IB_EVENT_PKEY_CHANGE)?;
            assert!(wait_until(|| {
                ib_get_cached_pkey(device.raw(), 1, 2, &mut pkey) == 0 && pkey == 0x8001
            }));
            assert_eq!(ib_find_cached_pkey(device.raw(), 1, 0x8001, &mut index), 0);
            assert_eq!(index, 2);
            // Membership does not matter.
            assert_eq!(ib_find_cached_pkey(device.raw(), 1, 0x0001, &mut index), 0);
            assert_eq!(
                ib_find_cached_pkey(device.raw(), 1, 0x0002, &mut index),
                ENOENT.to_errno()
            );
            assert_eq!(
                ib_get_cached_pkey(device.raw(), 1, 99, &mut pkey),
                EINVAL.to_errno()
            );
        }
        Ok(())
    }
}
