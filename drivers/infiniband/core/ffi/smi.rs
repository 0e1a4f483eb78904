// SPDX-License-Identifier: GPL-2.0

//! Subnet management routing for the C side; prototypes in `smi.h` and
//! `opa_smi.h`.

use crate::smi::{
    self,
    Action,
    Forward,
    Node, //
};
use kernel::{
    bindings,
    prelude::*, //
};
use rdma::mad::smp::{
    OpaSmp,
    Smp, //
};

fn action(action: Action) -> bindings::smi_action {
    match action {
        Action::Discard => bindings::smi_action_IB_SMI_DISCARD,
        Action::Handle => bindings::smi_action_IB_SMI_HANDLE,
    }
}

fn forward(forward: Forward) -> bindings::smi_forward_action {
    match forward {
        Forward::Local => bindings::smi_forward_action_IB_SMI_LOCAL,
        Forward::Send => bindings::smi_forward_action_IB_SMI_SEND,
        Forward::Relay => bindings::smi_forward_action_IB_SMI_FORWARD,
    }
}

/// Advances an InfiniBand packet that is about to be sent by `port_num`.
///
/// # Safety
///
/// `smp` is a whole packet owned by the caller, the MAD layer.
#[export]
pub(crate) unsafe extern "C" fn smi_handle_dr_smp_send(
    smp: *mut bindings::ib_smp,
    is_switch: bool,
    port_num: u32,
) -> bindings::smi_action {
    // SAFETY: By this function's contract.
    let smp = unsafe { Smp::from_raw(smp) };
    let node = Node {
        is_switch,
        port: port_num,
    };
    action(smi::prepare_send(&mut smp.route(), node))
}

/// Checks an InfiniBand packet that came in by `port_num`.
///
/// # Safety
///
/// `smp` is a whole packet owned by the caller, the MAD layer.
#[export]
pub(crate) unsafe extern "C" fn smi_handle_dr_smp_recv(
    smp: *mut bindings::ib_smp,
    is_switch: bool,
    port_num: u32,
    phys_port_cnt: c_int,
) -> bindings::smi_action {
    // SAFETY: By this function's contract.
    let smp = unsafe { Smp::from_raw(smp) };
    let node = Node {
        is_switch,
        port: port_num,
    };
    let port_count = phys_port_cnt.try_into().unwrap_or(0);
    action(smi::accept(&mut smp.route(), node, port_count))
}

/// Where an accepted InfiniBand packet goes.
///
/// # Safety
///
/// `smp` is a whole packet owned by the caller, the MAD layer.
#[export]
pub(crate) unsafe extern "C" fn smi_check_forward_dr_smp(
    smp: *mut bindings::ib_smp,
) -> bindings::smi_forward_action {
    // SAFETY: By this function's contract.
    let smp = unsafe { Smp::from_raw(smp) };
    forward(smi::next_stop(&smp.route()))
}

/// The port that a switch forwards an InfiniBand packet out of.
///
/// # Safety
///
/// `smp` is a whole packet owned by the caller, the MAD layer.
#[export]
pub(crate) unsafe extern "C" fn smi_get_fwd_port(smp: *mut bindings::ib_smp) -> c_int {
    // SAFETY: By this function's contract.
    let smp = unsafe { Smp::from_raw(smp) };
    smi::exit_port(&smp.route()).map_or(0, c_int::from)
}

/// Advances an Omni-Path packet that is about to be sent by `port_num`.
///
/// # Safety
///
/// `smp` is a whole packet owned by the caller, the MAD layer.
#[export]
pub(crate) unsafe extern "C" fn opa_smi_handle_dr_smp_send(
    smp: *mut bindings::opa_smp,
    is_switch: bool,
    port_num: u32,
) -> bindings::smi_action {
    // SAFETY: By this function's contract.
    let smp = unsafe { OpaSmp::from_raw(smp) };
    let node = Node {
        is_switch,
        port: port_num,
    };
    action(smi::prepare_send(&mut smp.route(), node))
}

/// Checks an Omni-Path packet that came in by `port_num`.
///
/// # Safety
///
/// `smp` is a whole packet owned by the caller, the MAD layer.
#[export]
pub(crate) unsafe extern "C" fn opa_smi_handle_dr_smp_recv(
    smp: *mut bindings::opa_smp,
    is_switch: bool,
    port_num: u32,
    phys_port_cnt: c_int,
) -> bindings::smi_action {
    // SAFETY: By this function's contract.
    let smp = unsafe { OpaSmp::from_raw(smp) };
    let node = Node {
        is_switch,
        port: port_num,
    };
    let port_count = phys_port_cnt.try_into().unwrap_or(0);
    action(smi::accept(&mut smp.route(), node, port_count))
}

/// Where an accepted Omni-Path packet goes.
///
/// # Safety
///
/// `smp` is a whole packet owned by the caller, the MAD layer.
#[export]
pub(crate) unsafe extern "C" fn opa_smi_check_forward_dr_smp(
    smp: *mut bindings::opa_smp,
) -> bindings::smi_forward_action {
    // SAFETY: By this function's contract.
    let smp = unsafe { OpaSmp::from_raw(smp) };
    forward(smi::next_stop(&smp.route()))
}

/// The port that a switch forwards an Omni-Path packet out of.
///
/// # Safety
///
/// `smp` is a whole packet owned by the caller, the MAD layer.
#[export]
pub(crate) unsafe extern "C" fn opa_smi_get_fwd_port(smp: *mut bindings::opa_smp) -> c_int {
    // SAFETY: By this function's contract.
    let smp = unsafe { OpaSmp::from_raw(smp) };
    smi::exit_port(&smp.route()).map_or(0, c_int::from)
}
