// SPDX-License-Identifier: GPL-2.0

//! The core's data per port.
//!
//! An array with an element per port number, so element 0 is a gap except on a switch. What frees
//! it needs an `rcu_head`, which lies before the array.

use core::ptr;

use super::Device;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    static_lock_class,
    sync::atomic::{
        ordering::Full,
        Atomic, //
    },
};

const HEADER: usize = size_of::<bindings::callback_head>();

const _: () = assert!(HEADER % align_of::<bindings::ib_port_data>() == 0);

impl Device {
    fn ports_slot(&self) -> &Atomic<*mut bindings::ib_port_data> {
        // SAFETY: Part of the device; written once, by the exchange below.
        unsafe { Atomic::from_ptr(&raw mut (*self.as_raw()).port_data) }
    }

    /// Makes the array, unless it exists. The number of ports must be set. May sleep.
    pub fn alloc_ports(&self) -> Result {
        if !self
            .ports_slot()
            .load(kernel::sync::atomic::ordering::Acquire)
            .is_null()
        {
            return Ok(());
        }
        let count = (self.end_port() as usize).checked_add(1).ok_or(EINVAL)?;
        let size = count
            .checked_mul(size_of::<bindings::ib_port_data>())
            .and_then(|size| size.checked_add(HEADER))
            .ok_or(ENOMEM)?;
        // SAFETY: Only allocates; the array lies behind the header, which keeps it aligned.
        let (block, array) = unsafe {
            let block = bindings::ib_device_kzalloc(size, bindings::GFP_KERNEL).cast::<u8>();
            if block.is_null() {
                return Err(ENOMEM);
            }
            (block, block.add(HEADER).cast::<bindings::ib_port_data>())
        };
        for port in self.ports() {
            // SAFETY: The array has an element for each port number, zeroed and ours.
            unsafe {
                let data = array.add(port as usize);
                (*data).ib_dev = self.as_raw();
                bindings::__spin_lock_init(
                    &raw mut (*data).pkey_list_lock,
                    c"pkey_list_lock".as_char_ptr(),
                    static_lock_class!().as_ptr(),
                );
                bindings::INIT_LIST_HEAD(&raw mut (*data).pkey_list);
                bindings::__spin_lock_init(
                    &raw mut (*data).netdev_lock,
                    c"netdev_lock".as_char_ptr(),
                    static_lock_class!().as_ptr(),
                );
            }
        }
        if self
            .ports_slot()
            .cmpxchg(ptr::null_mut(), array, Full)
            .is_err()
        {
            // SAFETY: Another thread was faster, and nobody has seen this array.
            unsafe { bindings::kfree(block.cast()) };
        }
        Ok(())
    }

    /// Frees the array a grace period from now.
    ///
    /// # Safety
    ///
    /// The device is being freed, and has an array.
    pub(super) unsafe fn free_ports(&self) {
        // SAFETY: The header lies before the array and is an `rcu_head`.
        unsafe {
            let block = (*self.as_raw()).port_data.cast::<u8>().sub(HEADER);
            bindings::kvfree_call_rcu(block.cast(), block.cast());
        }
    }

    /// Asks the driver what never changes about a port. Called once per port, before the device
    /// becomes visible. May sleep.
    pub fn load_immutable(&self, port: u32) -> Result {
        let data = self.port_data_raw(port);
        if data.is_null() {
            return Err(EINVAL);
        }
        let get = self.ops().get_port_immutable.ok_or(EINVAL)?;
        // SAFETY: The device has the port; nobody reads the place yet.
        to_result(unsafe { get(self.as_raw(), port, &raw mut (*data).immutable) })
    }
}
