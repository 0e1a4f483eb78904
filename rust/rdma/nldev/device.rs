// SPDX-License-Identifier: GPL-2.0

//! Finding devices, and what there is to tell about them.

use core::ptr::NonNull;

use kernel::{
    bindings,
    prelude::*,
    sync::aref::ARef,
    task::Task, //
};

use crate::{
    device::{
        Device,
        Get,
        Name, //
    },
    net::NetDevice,
    netlink::{
        Dump,
        Progress,
        TextBuf, //
    },
    netns::Net,
    restrack::{
        Kind,
        Table,
        Tables, //
    }, //
};

/// Bytes of a firmware version, the terminating NUL included.
const FW_VERSION_MAX: usize = bindings::IB_FW_VERSION_NAME_MAX as usize;
/// Bytes of the name of a network device, the terminating NUL included.
const NETDEV_NAME_MAX: usize = bindings::IFNAMSIZ as usize;

/// The registered device with this index, if the namespace may see it. May sleep.
#[inline]
pub fn by_index(netns: &Net, index: u32) -> Option<Get> {
    // SAFETY: The namespace is valid.
    let device = unsafe { bindings::ib_device_get_by_index(netns.as_raw(), index) };
    // SAFETY: The function returns null or a device with a count for the caller.
    (!device.is_null()).then(|| unsafe { Get::from_raw(device) })
}

/// What a dump does with one device after the other.
pub trait Visitor {
    /// Takes a device; tells whether to stop and send what is there.
    ///
    /// The device cannot leave the registry or get another name meanwhile. May sleep, but not
    /// register, unregister or rename devices.
    fn visit(dump: &mut Dump<'_>, device: &Device) -> bool;
}

/// Visits the registered devices that the dump's namespace may see, in the order of their
/// indices. May sleep.
#[inline]
pub fn visit_all<V: Visitor>(dump: &mut Dump<'_>) -> Progress {
    let (skb, cb) = dump.as_raw();
    // SAFETY: Both are those of the running dump, which `visit` gets back.
    if unsafe { bindings::ib_enum_all_devs(Some(visit::<V>), skb, cb) } == 0 {
        Progress::Done
    } else {
        Progress::More
    }
}

/// The callback of the walk.
///
/// # Safety
///
/// Called by the walk, with the lock of the registry held and the arguments of [`visit_all`].
unsafe extern "C" fn visit<V: Visitor>(
    device: *mut bindings::ib_device,
    skb: *mut bindings::sk_buff,
    cb: *mut bindings::netlink_callback,
    _position: c_uint,
) -> c_int {
    let (Some(skb), Some(cb)) = (NonNull::new(skb), NonNull::new(cb)) else {
        return 0;
    };
    // SAFETY: `visit_all` passes on a dump that is running, and does not use it meanwhile; the
    // registry keeps the device.
    let stop = unsafe { V::visit(&mut Dump::from_raw(skb, cb), Device::from_raw(device)) };
    c_int::from(stop)
}

/// What netlink tells of a device beyond the ordinary accessors.
impl Device {
    /// The table of the objects of one kind.
    pub fn objects(&self, kind: Kind) -> &Table {
        Tables::of_device(self).of(kind)
    }

    /// How many objects of a kind there are, with or without those of drivers.
    #[inline]
    pub fn count_objects(&self, kind: Kind, details: bool) -> u32 {
        // SAFETY: The device is valid.
        unsafe { bindings::rdma_restrack_count(self.as_raw(), kind as u32, details) }
    }

    /// The firmware's version, if there is firmware.
    pub fn firmware(&self) -> Option<TextBuf<FW_VERSION_MAX>> {
        let mut buf = [0u8; FW_VERSION_MAX];
        // SAFETY: The device is valid, and drivers write at most that many bytes.
        unsafe { bindings::ib_get_device_fw_str(self.as_raw(), buf.as_mut_ptr().cast()) };
        // A driver may have filled the buffer to the end.
        if let Some(last) = buf.last_mut() {
            *last = 0;
        }
        let version = CStr::from_bytes_until_nul(&buf).ok()?;
        (!version.is_empty()).then(|| TextBuf::new(version))
    }

    /// The kind of sub-device, 0 for an ordinary device.
    pub fn sub_type(&self) -> u8 {
        // SAFETY: The device is valid; written before it is registered.
        unsafe { (&raw const (*self.as_raw()).type_).read() as u8 }
    }

    /// The name of the device that this is a sub-device of.
    pub fn parent_name(&self) -> Option<Name> {
        // SAFETY: The device is valid; written before it is registered.
        let parent = unsafe { (&raw const (*self.as_raw()).parent).read() };
        // SAFETY: A device stays until its sub-devices are gone.
        (!parent.is_null()).then(|| unsafe { Device::from_raw(parent) }.name())
    }

    /// Who chose the name (`enum rdma_nl_name_assign_type`).
    pub fn name_assign_type(&self) -> u8 {
        // SAFETY: The device is valid.
        unsafe { (&raw const (*self.as_raw()).name_assign_type).read_volatile() as u8 }
    }

    /// The namespace that owns the device. The device may move while this is used, and then the
    /// namespace may go; a caller that is not told of moves holds RCU or a reference.
    ///
    /// # Safety
    ///
    /// The namespace stays for `'a`.
    pub unsafe fn netns<'a>(&self) -> Option<&'a Net> {
        let net = self.net_raw();
        // SAFETY: Promised by the caller.
        (!net.is_null()).then(|| unsafe { Net::from_raw(net) })
    }

    /// Whether user space may remove the device.
    pub fn allows_user_unregister(&self) -> bool {
        self.attrs().kernel_cap_flags
            & u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG)
            != 0
    }

    /// How many completion counters the driver has room for; 0 if it has none.
    pub fn max_comp_counters(&self) -> u32 {
        let Some(query) = self.ops().query_comp_cntr_caps else {
            return 0;
        };
        let mut caps: bindings::ib_comp_cntr_caps = pin_init::zeroed();
        // SAFETY: The device is valid, and the operation fills the structure. Without a bundle
        // the caller is the kernel. What a driver that fails leaves is what it filled in.
        unsafe { query(self.as_raw(), &mut caps, core::ptr::null_mut()) };
        caps.max_counters
    }
}

/// A network device as netlink shows it in a namespace.
pub struct NetdevInfo {
    /// The index.
    pub index: u32,
    /// The name.
    pub name: TextBuf<NETDEV_NAME_MAX>,
}

/// The network device of a port. May sleep.
#[inline]
pub fn port_netdev(device: &Device, port: u32) -> Option<ARef<NetDevice>> {
    // SAFETY: The device is valid, and the function returns a reference or null.
    unsafe { NetDevice::from_raw_owned(bindings::ib_device_get_netdev(device.as_raw(), port)) }
}

impl NetDevice {
    /// Whether the device is in a namespace.
    pub fn is_in(&self, netns: &Net) -> bool {
        // SAFETY: The device is valid.
        core::ptr::eq(unsafe { bindings::dev_net(self.as_raw()) }, netns.as_raw())
    }

    /// Index and name. A rename at the same time may mix the two names.
    pub fn info(&self) -> NetdevInfo {
        // SAFETY: The device is valid and its name an array of that size, which is only changed
        // in place.
        let mut name = unsafe {
            (&raw const (*self.as_raw()).name)
                .cast::<[u8; NETDEV_NAME_MAX]>()
                .read_volatile()
        };
        if let Some(last) = name.last_mut() {
            *last = 0;
        }
        NetdevInfo {
            index: self.ifindex() as u32,
            name: TextBuf::new(CStr::from_bytes_until_nul(&name).unwrap_or_default()),
        }
    }
}

/// The id of a thread for the current process; 0 if it is gone or not to be seen from here.
pub fn pid_seen_from_here(task: &Task) -> u32 {
    // SAFETY: The task is valid; a null namespace means that of the current process.
    let pid = unsafe {
        bindings::__task_pid_nr_ns(
            task.as_ptr(),
            bindings::pid_type_PIDTYPE_PID,
            core::ptr::null_mut(),
        )
    };
    pid as u32
}
