// SPDX-License-Identifier: GPL-2.0

//! The driver's operations: taking them over, and calling those that concern the device.

use core::mem::offset_of;

use super::Device;
use kernel::{
    bindings::{
        self,
        ib_device_ops, //
    },
    error::to_result,
    prelude::*, //
};

/// All that follows the header of `ib_device_ops`: operations, attribute groups and object sizes.
/// Each is one word that is zero until a driver sets it, so they can be treated alike, and none
/// can be forgotten.
const FIRST: usize = offset_of!(ib_device_ops, device_group);
const WORDS: usize = (size_of::<ib_device_ops>() - FIRST) / WORD;
const WORD: usize = size_of::<*const c_void>();

// 133 operations, 2 groups and 13 sizes. When the structure changes, look whether its fields after
// the flags still are of one word each, then change the number.
const _: () = assert!(WORDS == 148);
const _: () = assert!(FIRST % WORD == 0 && size_of::<ib_device_ops>() % WORD == 0);

/// Operations that the kernel's own users of a device need.
macro_rules! mandatory {
    ($($op:ident),* $(,)?) => {
        /// Whether all are there.
        fn has_mandatory(ops: &ib_device_ops) -> bool {
            $(ops.$op.is_some())&&*
        }
    };
}

mandatory!(
    query_device,
    query_port,
    alloc_pd,
    dealloc_pd,
    create_qp,
    modify_qp,
    destroy_qp,
    post_send,
    post_recv,
    create_cq,
    destroy_cq,
    poll_cq,
    req_notify_cq,
    get_dma_mr,
    reg_user_mr,
    dereg_mr,
    get_port_immutable,
);

/// Stands in for the driver's function while its device must not be freed.
///
/// # Safety
///
/// Callable with anything.
// Compared by its address, so there must be only one: what may be inlined has a copy in each crate.
#[inline(never)]
unsafe extern "C" fn held_back(_device: *mut bindings::ib_device) {}

type Dealloc = Option<unsafe extern "C" fn(*mut bindings::ib_device)>;

/// Whose business it is to free a device that was unregistered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Deallocation {
    /// The driver calls `ib_dealloc_device`.
    ByCaller,
    /// The core does, by the driver's `dealloc_driver`.
    ByCore,
    /// The thread whose registration attempt failed does.
    HeldBack,
}

/// The device that does the DMA of another one, or none.
///
/// # Invariants
///
/// The pointer is null or stays valid as long as the RDMA device is registered.
pub struct DmaDevice(*mut bindings::device);

impl DmaDevice {
    /// Wraps a C pointer.
    ///
    /// # Safety
    ///
    /// `raw` is null or stays valid as long as the RDMA device is registered.
    pub unsafe fn from_raw(raw: *mut bindings::device) -> Self {
        Self(raw)
    }
}

/// The deallocation is held back until this is dropped.
pub struct HeldBack<'d> {
    device: &'d Device,
    op: Dealloc,
}

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        // SAFETY: Part of the device, replaced as a whole.
        unsafe { self.device.dealloc_slot().write_volatile(self.op) }
    }
}

impl Device {
    /// Takes operations over that the device has not got yet.
    ///
    /// # Safety
    ///
    /// `ops` is valid, and the device is not registered, so nobody calls its operations.
    pub unsafe fn merge_ops(&self, ops: *const ib_device_ops) {
        // SAFETY: Part of the device.
        let mine = unsafe { &raw mut (*self.as_raw()).ops };
        // SAFETY: By the caller; the words lie within both structures, and their fields have no
        // padding (asserted above).
        unsafe {
            let from = ops.byte_add(FIRST).cast::<*const c_void>();
            let to = mine.byte_add(FIRST).cast::<*const c_void>();
            for i in 0..WORDS {
                if (*to.add(i)).is_null() {
                    *to.add(i) = *from.add(i);
                }
            }
            if (*ops).driver_id != bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN {
                kernel::warn_on!(
                    (*mine).driver_id != bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN
                        && (*mine).driver_id != (*ops).driver_id
                );
                (*mine).driver_id = (*ops).driver_id;
            }
            if !(*ops).owner.is_null() {
                kernel::warn_on!(!(*mine).owner.is_null() && (*mine).owner != (*ops).owner);
                (*mine).owner = (*ops).owner;
            }
            if (*ops).uverbs_abi_ver != 0 {
                (*mine).uverbs_abi_ver = (*ops).uverbs_abi_ver;
            }
            let binding =
                (*mine).uverbs_no_driver_id_binding() | (*ops).uverbs_no_driver_id_binding();
            (*mine).set_uverbs_no_driver_id_binding(binding);
            let robust = (*mine).uverbs_robust_udata() | (*ops).uverbs_robust_udata();
            (*mine).set_uverbs_robust_udata(robust);
        }
    }

    /// Notes whether the kernel's own users can use the device.
    pub fn note_kverbs_provider(&self) {
        let complete = has_mandatory(self.ops());
        // SAFETY: The device is being registered by this thread only.
        unsafe { (*self.as_raw()).set_kverbs_provider(u16::from(complete)) };
    }

    /// Notes the device that does the DMA, and whether its transfers are bounced because the
    /// memory of the guest is encrypted.
    pub fn set_dma_device(&self, dma_device: DmaDevice) {
        let DmaDevice(dma_device) = dma_device;
        // SAFETY: The device is being registered by this thread only; `dma_device` is valid by its
        // type invariant.
        unsafe {
            kernel::warn_on!(!dma_device.is_null() && (*dma_device).dma_parms.is_null());
            (*self.as_raw()).dma_device = dma_device;
            if !dma_device.is_null()
                && bindings::cc_platform_has(bindings::cc_attr_CC_ATTR_GUEST_MEM_ENCRYPT)
            {
                (*self.as_raw()).set_cc_dma_bounce(1);
            }
        }
    }

    /// Asks the driver for the attributes of the device. Called once, before the device becomes
    /// visible. May sleep.
    pub fn load_attrs(&self) -> Result {
        let query = self.ops().query_device.ok_or(EINVAL)?;
        // SAFETY: The device is being registered by this thread only; a kernel caller has no
        // user data.
        to_result(unsafe {
            let attrs = &raw mut (*self.as_raw()).attrs;
            attrs.write_bytes(0, 1);
            query(self.as_raw(), attrs, core::ptr::null_mut())
        })
    }

    /// Lets the driver do what it has to when the device becomes visible. May sleep.
    pub fn enable_driver(&self) -> Result {
        match self.ops().enable_driver {
            // SAFETY: The device is registered.
            Some(enable) => to_result(unsafe { enable(self.as_raw()) }),
            None => Ok(()),
        }
    }

    fn dealloc_slot(&self) -> *mut Dealloc {
        // SAFETY: Part of the device.
        unsafe { &raw mut (*self.as_raw()).ops.dealloc_driver }
    }

    /// Whose business it is to free the device.
    pub fn deallocation(&self) -> Deallocation {
        // SAFETY: Part of the device, replaced as a whole.
        match unsafe { self.dealloc_slot().read_volatile() } {
            None => Deallocation::ByCaller,
            Some(op) if op as usize == held_back as usize => Deallocation::HeldBack,
            Some(_) => Deallocation::ByCore,
        }
    }

    /// Makes the core not free the device for a while.
    pub fn hold_back_dealloc(&self) -> HeldBack<'_> {
        // SAFETY: Part of the device, replaced as a whole.
        let op = unsafe { self.dealloc_slot().replace(Some(held_back)) };
        HeldBack { device: self, op }
    }

    /// Lets the driver give up what it has for the device. Called once, after unregistration.
    /// Sleeps.
    pub fn dealloc_driver(&self) {
        // SAFETY: Part of the device, replaced as a whole.
        if let Some(dealloc) = unsafe { self.dealloc_slot().read_volatile() } {
            // SAFETY: The device is not registered any more.
            unsafe { dealloc(self.as_raw()) }
        }
    }

    /// Whether the driver can take a device from its user-space users.
    pub fn can_disassociate(&self) -> bool {
        self.ops().disassociate_ucontext.is_some()
    }

    /// Turns the moderation of completion queues on or off, for those made later.
    pub fn set_use_cq_dim(&self, on: bool) {
        // SAFETY: Part of the device. The other flags of the byte do not change once the device
        // is visible, and callers hold the netlink lock.
        unsafe { (*self.as_raw()).set_use_cq_dim(u16::from(on)) };
    }

    /// Frees the pools of shared completion queues. Sleeps.
    #[inline]
    pub fn clean_cq_pools(&self) {
        // SAFETY: No client is left that could use one.
        unsafe { bindings::ib_cq_pool_cleanup(self.as_raw()) };
    }

    /// Tells the driver of a change of the link; says whether it takes care of it.
    pub fn report_port_event(&self, netdev: &crate::net::NetDevice, event: usize) -> bool {
        let Some(report) = self.ops().report_port_event else {
            return false;
        };
        // SAFETY: Both devices are valid.
        unsafe { report(self.as_raw(), netdev.as_raw(), event) };
        true
    }

    /// Asks the driver for the attributes of a port. May sleep and take RTNL.
    pub fn query_port(&self, port: u32, attr: &mut bindings::ib_port_attr) -> Result {
        let query = self.ops().query_port.ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is valid, and so is the place for the answer.
        to_result(unsafe { query(self.as_raw(), port, attr) })
    }

    /// Asks the driver for a P_Key. May sleep.
    pub fn query_pkey(&self, port: u32, index: u16) -> Result<u16> {
        let query = self.ops().query_pkey.ok_or(EOPNOTSUPP)?;
        let mut pkey = 0;
        // SAFETY: The device is valid, and so is the place for the answer.
        to_result(unsafe { query(self.as_raw(), port, index, &mut pkey) })?;
        Ok(pkey)
    }

    /// Changes attributes of the device. May sleep.
    pub fn modify(&self, mask: i32, modify: &mut bindings::ib_device_modify) -> Result {
        let op = self.ops().modify_device.ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is valid, and so are the attributes.
        to_result(unsafe { op(self.as_raw(), mask, modify) })
    }

    /// Changes attributes of a port; `None` if the driver cannot. May sleep.
    pub fn modify_port(
        &self,
        port: u32,
        mask: i32,
        modify: &mut bindings::ib_port_modify,
    ) -> Option<Result> {
        let op = self.ops().modify_port?;
        // SAFETY: The device is valid, and so are the attributes.
        Some(to_result(unsafe { op(self.as_raw(), port, mask, modify) }))
    }

    /// Has the driver write the version of the firmware, as a string of at most
    /// `IB_FW_VERSION_NAME_MAX` bytes.
    pub fn read_fw_version(&self, buf: &mut [u8; bindings::IB_FW_VERSION_NAME_MAX as usize]) {
        match self.ops().get_dev_fw_str {
            // SAFETY: The device is valid, and the buffer has the size that drivers rely on.
            Some(get) => unsafe { get(self.as_raw(), buf.as_mut_ptr()) },
            None => buf[0] = 0,
        }
    }

    /// Tells listeners on netlink what happened to the device, or to one of its ports. May sleep.
    #[inline]
    pub fn notify(&self, port: u32, what: Notice) -> Result {
        // SAFETY: The device is valid.
        to_result(unsafe { bindings::rdma_nl_notify_event(self.as_raw(), port, what as u32) })
    }
}

/// An event of the netlink group of monitors.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Notice {
    /// A device came.
    Register = bindings::rdma_nl_notify_event_type_RDMA_REGISTER_EVENT,
    /// A device went.
    Unregister = bindings::rdma_nl_notify_event_type_RDMA_UNREGISTER_EVENT,
    /// A port got a network device.
    NetdevAttach = bindings::rdma_nl_notify_event_type_RDMA_NETDEV_ATTACH_EVENT,
    /// A port lost its network device.
    NetdevDetach = bindings::rdma_nl_notify_event_type_RDMA_NETDEV_DETACH_EVENT,
    /// A device got another name.
    Rename = bindings::rdma_nl_notify_event_type_RDMA_RENAME_EVENT,
    /// The network device of a port got another name.
    NetdevRename = bindings::rdma_nl_notify_event_type_RDMA_NETDEV_RENAME_EVENT,
}
