// SPDX-License-Identifier: GPL-2.0

//! Questions to the performance management agent of a port (IBTA 16.1), which the device answers.

use kernel::{
    bindings,
    ffi::c_int,
    prelude::*, //
};

use crate::port::Port;

/// What is asked for, with the number of the attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Attribute {
    /// What the agent can do.
    ClassPortInfo = 0x0001,
    /// The counters.
    PortCounters = 0x0012,
    /// The wide counters.
    PortCountersExtended = 0x001d,
}

/// Bytes before the data of an attribute, after the common header.
const RESERVED: usize = 40;

/// Where a question names the port, after the common header.
const PORT_SELECT: usize = 41;

/// The answer, zero if the device did not write it.
pub struct Data(KBox<bindings::ib_mad>);

impl Data {
    /// A byte of the data of the attribute.
    pub fn byte(&self, at: usize) -> Option<u8> {
        self.0.data.get(RESERVED.checked_add(at)?).copied()
    }

    /// Some bytes of the data of the attribute, in the order of the wire.
    pub fn bytes<const LEN: usize>(&self, at: usize) -> Option<[u8; LEN]> {
        let rest = self.0.data.get(RESERVED.checked_add(at)?..)?;
        rest.first_chunk().copied()
    }
}

/// Asks the agent of a port. May sleep.
///
/// # Errors
///
/// `ENOSYS` if the device does not answer management datagrams, `EINVAL` if it does not answer this
/// one, `ENOMEM`.
pub fn get(port: Port<'_>, attribute: Attribute) -> Result<Data> {
    const ANSWERED: bindings::ib_mad_result =
        bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS | bindings::ib_mad_result_IB_MAD_RESULT_REPLY;

    let process = port.device().ops().process_mad.ok_or(ENOSYS)?;
    let mut question = KBox::new(pin_init::zeroed::<bindings::ib_mad>(), GFP_KERNEL)?;
    let mut answer = KBox::new(pin_init::zeroed::<bindings::ib_mad>(), GFP_KERNEL)?;
    let mut answer_len = size_of::<bindings::ib_mad>();
    let mut pkey_index = 0;

    question.mad_hdr.base_version = 1;
    // The class has eight bits.
    question.mad_hdr.mgmt_class = bindings::IB_MGMT_CLASS_PERF_MGMT as u8;
    question.mad_hdr.class_version = 1;
    // So has the method.
    question.mad_hdr.method = bindings::IB_MGMT_METHOD_GET as u8;
    question.mad_hdr.attr_id = (attribute as u16).to_be();
    if attribute != Attribute::ClassPortInfo {
        if let Some(select) = question.data.get_mut(PORT_SELECT) {
            // Agents know ports by eight bits.
            *select = port.number() as u8;
        }
    }

    // SAFETY: The device has the port; both datagrams have the usual size, and there is neither a
    // completion nor a header to look at.
    let result = unsafe {
        process(
            port.device().as_raw(),
            bindings::ib_process_mad_flags_IB_MAD_IGNORE_MKEY as c_int,
            port.number(),
            core::ptr::null(),
            core::ptr::null(),
            &*question,
            &mut *answer,
            &mut answer_len,
            &mut pkey_index,
        )
    };
    match result as bindings::ib_mad_result & ANSWERED {
        ANSWERED => Ok(Data(answer)),
        _ => Err(EINVAL),
    }
}
