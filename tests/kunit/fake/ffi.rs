// SPDX-License-Identifier: GPL-2.0

//! The functions of `rdma/ib_fake.h`.

use super::{
    device::{self, Config, Fake, Protocol, State},
    engine, fabric,
    mad::{self, Hook},
    ops::Op,
    script::Failure,
};
use kernel::{
    bindings,
    error::from_result,
    ffi::{c_int, c_void},
    prelude::*,
    sync::{atomic::Relaxed, Arc},
};
use rdma::{
    device::Get,
    event::PortEvent,
    gid::Gid,
    net::NetDevice,
    netns::Net,
    provider::{Cq, CqEvent, DeviceRef, PortAttr, Qp, QpEvent, Srq, SrqEvent},
};

/// A fake device, as long as it is registered.
///
/// # Safety
///
/// `device` must be valid.
unsafe fn fake(device: *mut bindings::ib_device) -> Result<DeviceRef<Fake>> {
    // SAFETY: By the contract of this function.
    if !unsafe { bindings::ib_device_try_get(device) } {
        return Err(ENODEV);
    }
    // SAFETY: The reference was just taken.
    DeviceRef::new(unsafe { Get::from_raw(device) }).ok_or(EINVAL)
}

/// # Safety
///
/// `device` must be valid.
unsafe fn state(device: *mut bindings::ib_device) -> Result<Arc<State>> {
    // SAFETY: By the contract of this function.
    Ok(unsafe { fake(device)? }.state.clone())
}

fn or<T: PartialEq + Default>(value: T, default: T) -> T {
    if value == T::default() {
        default
    } else {
        value
    }
}

/// # Safety
///
/// `config` must be valid, its name null or a string, and its network device null or valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_create(
    config: *const bindings::ib_fake_config,
) -> *mut bindings::ib_device {
    // SAFETY: By the contract of this function.
    let raw = unsafe { config.read() };
    let make = || {
        let base = Config::new(Protocol::from_raw(raw.protocol)?);
        let fail = match raw.fail_error {
            0 => None,
            e => Some((
                Op::from_raw(raw.fail_op).ok_or(EINVAL)?,
                Error::from_errno(e),
            )),
        };
        let config = Config {
            ports: or(raw.ports, base.ports),
            comp_vectors: or(raw.comp_vectors, base.comp_vectors),
            gids: or(raw.gids, base.gids),
            pkeys: or(raw.pkeys, base.pkeys),
            max_fast_reg_pages: or(raw.max_fast_reg_pages, base.max_fast_reg_pages),
            without: raw.without,
            kernel_cap_flags: raw.kernel_cap_flags,
            fail,
            ..base
        };
        let name = match raw.name.is_null() {
            true => c"fake%d",
            // SAFETY: By the contract of this function.
            false => unsafe { CStr::from_char_ptr(raw.name) },
        };
        // SAFETY: By the contract of this function, null or held by the caller.
        let netdev = unsafe { NetDevice::from_raw_opt(raw.netdev) };
        let device = device::register(Net::init(), config, name, netdev)?;
        let core = device.core().as_raw();
        fabric::keep(device)?;
        Ok(core)
    };
    make().unwrap_or_else(|e: Error| e.to_ptr())
}

/// # Safety
///
/// `device` must come from `ib_fake_create`, and is gone afterwards.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_destroy(device: *mut bindings::ib_device) {
    // SAFETY: By the contract of this function.
    let device = fabric::unkeep(unsafe { rdma::device::Device::from_raw(device) });
    drop(device);
}

/// # Safety
///
/// Both must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_get_port(
    device: *mut bindings::ib_device,
    port: u32,
    attr: *mut bindings::ib_port_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        let attr = &mut *attr;
        *attr = pin_init::zeroed();
        state(device)?.with_port(port, |port| {
            port.attr.write(attr);
            Ok(0)
        })
    })
}

/// # Safety
///
/// Both must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_set_port(
    device: *mut bindings::ib_device,
    port: u32,
    attr: *const bindings::ib_port_attr,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        let attr = PortAttr::read(&*attr)?;
        state(device)?.with_port(port, |port| {
            // The tables have the length that they were made with.
            port.attr = PortAttr {
                gid_table_len: port.attr.gid_table_len,
                pkey_table_len: port.attr.pkey_table_len,
                ..attr
            };
            Ok(0)
        })
    })
}

/// # Safety
///
/// Both must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_set_gid(
    device: *mut bindings::ib_device,
    port: u32,
    index: u32,
    gid: *const bindings::ib_gid,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        let gid = Gid::read(gid);
        state(device)?.with_port(port, |port| {
            *port.gids.get_mut(index as usize).ok_or(EINVAL)? = gid;
            Ok(0)
        })
    })
}

/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_set_pkey(
    device: *mut bindings::ib_device,
    port: u32,
    index: u16,
    pkey: u16,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        state(device)?.with_port(port, |port| {
            *port.pkeys.get_mut(usize::from(index)).ok_or(EINVAL)? = pkey;
            Ok(0)
        })
    })
}

/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_event(
    device: *mut bindings::ib_device,
    port: u32,
    event: bindings::ib_event_type,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        let device = fake(device)?;
        if event == bindings::ib_event_type_IB_EVENT_DEVICE_FATAL {
            device.dispatch_fatal();
            return Ok(0);
        }
        let event = PortEvent::from_raw(event).ok_or(EINVAL)?;
        device.state.with_port(port, |_| Ok(()))?;
        device.dispatch(event, port);
        Ok(0)
    })
}

/// # Safety
///
/// `qp` must be a live queue pair of a fake device.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_qp_event(
    qp: *mut bindings::ib_qp,
    event: bindings::ib_event_type,
) -> c_int {
    const EVENTS: [(bindings::ib_event_type, QpEvent); 8] = [
        (bindings::ib_event_type_IB_EVENT_QP_FATAL, QpEvent::Fatal),
        (
            bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
            QpEvent::RequestError,
        ),
        (
            bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
            QpEvent::AccessError,
        ),
        (
            bindings::ib_event_type_IB_EVENT_COMM_EST,
            QpEvent::CommunicationEstablished,
        ),
        (
            bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
            QpEvent::SqDrained,
        ),
        (
            bindings::ib_event_type_IB_EVENT_PATH_MIG,
            QpEvent::PathMigrated,
        ),
        (
            bindings::ib_event_type_IB_EVENT_PATH_MIG_ERR,
            QpEvent::PathMigrationError,
        ),
        (
            bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
            QpEvent::LastWqeReached,
        ),
    ];
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        state((*qp).device)?;
        let known = EVENTS.iter().find(|(raw, _)| *raw == event);
        let (_, event) = known.ok_or(EINVAL)?;
        Qp::<Fake>::from_raw(qp).report(*event);
        Ok(0)
    })
}

/// # Safety
///
/// `cq` must be a live queue of a fake device.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_cq_event(
    cq: *mut bindings::ib_cq,
    event: bindings::ib_event_type,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        state((*cq).device)?;
        if event != bindings::ib_event_type_IB_EVENT_CQ_ERR {
            return Err(EINVAL);
        }
        Cq::<Fake>::from_raw(cq).report(CqEvent::Error);
        Ok(0)
    })
}

/// # Safety
///
/// `srq` must be a live queue of a fake device.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_srq_event(
    srq: *mut bindings::ib_srq,
    event: bindings::ib_event_type,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        state((*srq).device)?;
        let event = match event {
            bindings::ib_event_type_IB_EVENT_SRQ_ERR => SrqEvent::Error,
            bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED => SrqEvent::LimitReached,
            _ => return Err(EINVAL),
        };
        Srq::<Fake>::from_raw(srq).report(event);
        Ok(0)
    })
}

/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_fail(
    device: *mut bindings::ib_device,
    op: bindings::ib_fake_op,
    nth: u32,
    error: c_int,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        let op = Op::from_raw(op).ok_or(EINVAL)?;
        let failure = (error != 0).then(|| Failure::new(nth, Error::from_errno(error)));
        state(device)?.script.fail(op, failure);
        Ok(0)
    })
}

/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_calls(
    device: *mut bindings::ib_device,
    op: bindings::ib_fake_op,
) -> u32 {
    let Some(op) = Op::from_raw(op) else { return 0 };
    // SAFETY: By the contract of this function.
    unsafe { state(device) }.map_or(0, |state| state.script.count(op))
}

/// # Safety
///
/// Both must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_call_at(
    device: *mut bindings::ib_device,
    index: u32,
    call: *mut bindings::ib_fake_call,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        call.write(state(device)?.script.call_at(index).ok_or(ENOENT)?);
        Ok(0)
    })
}

/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_clear_calls(device: *mut bindings::ib_device) {
    // SAFETY: By the contract of this function.
    if let Ok(state) = unsafe { state(device) } {
        state.script.clear();
    }
}

/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_objects(
    device: *mut bindings::ib_device,
    created_by: bindings::ib_fake_op,
) -> u32 {
    let Some(op) = Op::from_raw(created_by) else {
        return 0;
    };
    // SAFETY: By the contract of this function.
    unsafe { state(device) }.map_or(0, |state| state.objects(op))
}

/// # Safety
///
/// None: any time.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_flush() {
    engine::flush();
}

/// # Safety
///
/// `device` must be valid.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_hold(
    device: *mut bindings::ib_device,
    hold: bool,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        let state = state(device)?;
        state.held.store(hold, Relaxed);
        if hold {
            engine::flush();
        } else {
            for pair in fabric::pairs_of(&state) {
                engine::kick(&pair);
            }
        }
        Ok(0)
    })
}

/// # Safety
///
/// `device` must be valid, and the function callable with the context until it is taken back.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_set_responder(
    device: *mut bindings::ib_device,
    port: u32,
    function: bindings::ib_fake_mad_fn,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        let hook = Hook::new(function, context);
        state(device)?.with_port(port, |port| {
            port.responder = hook;
            Ok(())
        })?;
        engine::flush();
        Ok(0)
    })
}

/// # Safety
///
/// `device` must be valid, and the function callable with the context until it is taken back.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_set_agent(
    device: *mut bindings::ib_device,
    function: bindings::ib_fake_mad_fn,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        state(device)?.set_agent(Hook::new(function, context));
        Ok(0)
    })
}

/// # Safety
///
/// Both must be valid, and the datagram have its 256 bytes.
#[export]
pub(crate) unsafe extern "C" fn ib_fake_deliver_mad(
    device: *mut bindings::ib_device,
    mad: *const bindings::ib_fake_mad,
) -> c_int {
    // SAFETY: By the contract of this function.
    from_result(|| unsafe {
        let mad = &*mad;
        mad::deliver(&state(device)?, mad, &*mad.data.cast())?;
        Ok(0)
    })
}
