// SPDX-License-Identifier: GPL-2.0

//! Changes to statistics: which counters count, and for which queue pairs.

use kernel::prelude::*;
use rdma::{
    device::Get,
    netlink::{
        AttrIter,
        Attrs,
        Handler,
        Request, //
    },
    nldev::stat, //
    stats::{
        HwStats,
        StatDesc, //
    },
};

use super::{
    fill,
    policy::{
        PORT_INDEX,
        RES_LQPN,
        STAT_AUTO_MODE_MASK,
        STAT_COUNTER_ID,
        STAT_HWCOUNTERS,
        STAT_MODE,
        STAT_OPCOUNTER_ENABLED,
        STAT_RES, //
    },
    stat::{
        subject,
        Subject,
        MODE_AUTO, //
    },
    CLIENT, STAT_SET,
};

/// A queue pair and a counter.
struct Bound {
    qp: u32,
    counter: u32,
}

/// Changes how queue pairs get to counters. Returns the pair that the reply tells of, if one was
/// bound.
fn set_mode<'a>(
    request: &mut Request<'a>,
    attrs: &Attrs<'a>,
    device: &Get,
    port: u32,
    mode: u32,
) -> Result<Option<Bound>> {
    if subject(attrs)? != Some(Subject::Qp) {
        return Err(EINVAL);
    }
    if mode == MODE_AUTO {
        let mask = attrs.get(STAT_AUTO_MODE_MASK).unwrap_or(0);
        let optional = attrs.get(STAT_OPCOUNTER_ENABLED).unwrap_or(0) != 0;
        stat::set_auto_mode(request, device, port, mask, optional)?;
        return Ok(None);
    }
    let qp = attrs.require(RES_LQPN)?;
    let counter = match attrs.get(STAT_COUNTER_ID) {
        Some(counter) => {
            stat::bind(device, port, qp, counter)?;
            counter
        }
        None => stat::bind_new(device, port, qp)?,
    };
    Ok(Some(Bound { qp, counter }))
}

/// Has exactly those of the optional counters count that a container lists.
fn set_counting(device: &Get, port: u32, stats: &HwStats, container: AttrIter<'_>) -> Result {
    let mut wanted = KVec::from_elem(false, stats.len(), GFP_KERNEL)?;
    for (_, payload) in container {
        let index = u32::from_ne_bytes(payload.try_into().map_err(|_| EINVAL)?) as usize;
        if !stats.descs().get(index).is_some_and(StatDesc::is_optional) {
            return Err(EINVAL);
        }
        *wanted.get_mut(index).ok_or(EINVAL)? = true;
    }
    for (index, (desc, wanted)) in stats.descs().iter().zip(&wanted).enumerate() {
        if desc.is_optional() {
            stat::switch(device, port, index as u32, *wanted)?;
        }
    }
    Ok(())
}

/// `STAT_SET`.
pub(super) struct Set;

impl Handler for Set {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        attrs.require(PORT_INDEX)?;
        let (device, port) = fill::device_and_port(request.netns(), attrs)?;
        let (mode, counting) = (attrs.get(STAT_MODE), attrs.get(STAT_HWCOUNTERS));
        if mode.is_none() && counting.is_none() {
            return Err(EINVAL);
        }
        let bound = match mode {
            Some(mode) => set_mode(request, attrs, &device, port, mode)?,
            None => None,
        };
        if let Some(container) = counting {
            let stats = HwStats::of_port(&device, port).ok_or(EINVAL)?;
            set_counting(&device, port, stats, container)?;
        }

        let told = request.reply(CLIENT, STAT_SET, |out| {
            fill::put_device(out, &device)?;
            out.put(PORT_INDEX, port)?;
            if let Some(bound) = &bound {
                out.put(STAT_COUNTER_ID, bound.counter)?;
                out.put(RES_LQPN, bound.qp)?;
            }
            Ok(())
        });
        if let (Err(_), Some(bound)) = (&told, &bound) {
            // The sender would not know what it has got. Nothing is to be done about a failure.
            let _ = stat::unbind(&device, port, bound.qp, bound.counter);
        }
        told
    }
}

/// `STAT_DEL`.
pub(super) struct Del;

impl Handler for Del {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        attrs.require(STAT_RES)?;
        let counter = attrs.require(STAT_COUNTER_ID)?;
        let qp = attrs.require(RES_LQPN)?;
        if subject(attrs)? != Some(Subject::Qp) {
            return Err(EINVAL);
        }
        let (device, port) = fill::device_and_port(request.netns(), attrs)?;

        // Answered as if something had been set: so it has always been.
        request.reply(CLIENT, STAT_SET, |out| {
            fill::put_device(out, &device)?;
            out.put(PORT_INDEX, port)?;
            out.put(STAT_COUNTER_ID, counter)?;
            out.put(RES_LQPN, qp)?;
            stat::unbind(&device, port, qp, counter)
        })
    }
}
