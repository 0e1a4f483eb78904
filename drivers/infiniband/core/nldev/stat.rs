// SPDX-License-Identifier: GPL-2.0

//! Statistics: of ports, of counters, of memory regions.

use kernel::prelude::*;
use rdma::{
    netlink::{
        Attr,
        AttrWriter,
        Attrs,
        Dump,
        DumpHandler,
        Handler,
        Nested,
        Progress,
        Request, //
    },
    nldev::{
        object::{
            self,
            Binding,
            Held, //
        },
        stat, //
    },
    stats::{
        HwStats,
        StatDesc, //
    },
};

use super::{
    driver::put_hwcounter,
    fill,
    policy::{
        POLICY,
        PORT_INDEX,
        RES_LQPN,
        RES_MR,
        RES_MRN,
        RES_MR_ENTRY,
        RES_QP,
        RES_QP_ENTRY,
        RES_TYPE,
        STAT_AUTO_MODE_MASK,
        STAT_COUNTER,
        STAT_COUNTER_ENTRY,
        STAT_COUNTER_ID,
        STAT_HWCOUNTERS,
        STAT_HWCOUNTER_DYNAMIC,
        STAT_HWCOUNTER_ENTRY,
        STAT_HWCOUNTER_ENTRY_NAME,
        STAT_HWCOUNTER_INDEX,
        STAT_MODE,
        STAT_OPCOUNTER_ENABLED,
        STAT_RES, //
    },
    res::{
        Context,
        OfObject,
        Resource, //
    },
    CLIENT, STAT_GET, STAT_GET_STATUS,
};

/// `enum rdma_nl_counter_mode`, the mode in which the core binds queue pairs.
pub(super) const MODE_AUTO: u32 = kernel::bindings::rdma_nl_counter_mode_RDMA_COUNTER_MODE_AUTO;

/// What statistics are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// Queue pairs and their counters.
    Qp,
    /// Memory regions.
    Mr,
}

/// The subject that a request names, if it names one; `EINVAL` if there are no statistics of it.
///
/// It is named by the number of the attribute that is around such objects.
pub(super) fn subject(attrs: &Attrs<'_>) -> Result<Option<Subject>> {
    const QP: u32 = RES_QP.id() as u32;
    const MR: u32 = RES_MR.id() as u32;

    match attrs.get(STAT_RES) {
        None => Ok(None),
        Some(QP) => Ok(Some(Subject::Qp)),
        Some(MR) => Ok(Some(Subject::Mr)),
        Some(_) => Err(EINVAL),
    }
}

/// The values of a set with their names and indices, without those that are switched off.
fn enabled<'a>(
    stats: &'a HwStats,
    is_disabled: impl Fn(usize) -> bool + 'a,
) -> impl Iterator<Item = (usize, &'a StatDesc, u64)> + 'a {
    stats
        .descs()
        .iter()
        .enumerate()
        .filter(move |(index, _)| !is_disabled(*index))
        .filter_map(|(index, desc)| Some((index, desc, stats.value(index)?)))
}

/// Counters of queue pairs.
pub(super) struct Counter;

impl Resource for Counter {
    type Object = object::Counter;
    const TABLE: Attr<Nested> = STAT_COUNTER;
    const ENTRY: Attr<Nested> = STAT_COUNTER_ENTRY;
    const ID: Attr<u32> = STAT_COUNTER_ID;
    const OF_PORT: bool = true;

    fn port(counter: &object::Counter) -> u32 {
        counter.port()
    }

    fn put(
        context: &Context<'_>,
        counter: &Held<object::Counter>,
        out: &mut AttrWriter<'_>,
    ) -> Result {
        // Old values are better than none.
        let _ = counter.refresh();

        out.put(PORT_INDEX, counter.port())?;
        out.put(STAT_COUNTER_ID, counter.number())?;
        put_binding(counter, out)?;

        let mut table = out.nest(RES_QP)?;
        for qp in Held::<object::Qp>::all(context.device).filter(|qp| qp.is_bound_to(counter)) {
            let mut entry = table.nest(RES_QP_ENTRY)?;
            entry.put(RES_LQPN, qp.number())?;
            entry.end()?;
        }
        table.end()?;

        let mut table = out.nest(STAT_HWCOUNTERS)?;
        let stats = counter.values();
        let guard = stats.lock();
        for (_, desc, value) in enabled(stats, |index| guard.is_disabled(index)) {
            put_hwcounter(&mut table, desc.name(), value)?;
        }
        drop(guard);
        table.end()
    }
}

fn put_binding(counter: &Held<object::Counter>, out: &mut AttrWriter<'_>) -> Result {
    match counter.binding() {
        Binding::Auto {
            qp_type,
            by_process,
        } => {
            out.put(STAT_MODE, MODE_AUTO)?;
            out.put_some(RES_TYPE, qp_type)?;
            if by_process {
                fill::put_owner(out, counter.entry())?;
            }
            Ok(())
        }
        Binding::Other(mode) => out.put(STAT_MODE, mode),
    }
}

/// Statistics that a driver keeps of a memory region.
pub(super) struct MrStats;

impl Resource for MrStats {
    type Object = object::Mr;
    const TABLE: Attr<Nested> = RES_MR;
    const ENTRY: Attr<Nested> = RES_MR_ENTRY;
    const ID: Attr<u32> = RES_MRN;

    fn put(context: &Context<'_>, mr: &Held<object::Mr>, out: &mut AttrWriter<'_>) -> Result {
        out.put(RES_MRN, mr.id())?;
        mr.put_stats(context.device, out)
    }
}

/// `STAT_GET`: of a port, or of the subject that is named.
pub(super) struct Get;

impl Handler for Get {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        match subject(attrs)? {
            None => reply_port(request, attrs),
            Some(Subject::Qp) if attrs.has(STAT_COUNTER_ID) => {
                OfObject::<Counter>::handle(request, attrs)
            }
            Some(Subject::Qp) => reply_mode(request, attrs),
            Some(Subject::Mr) => OfObject::<MrStats>::handle(request, attrs),
        }
    }
}

impl DumpHandler for Get {
    fn dump(dump: &mut Dump<'_>) -> Result<Progress> {
        let attrs = dump.attrs(&POLICY).map_err(|_| EINVAL)?;
        match subject(&attrs)?.ok_or(EINVAL)? {
            Subject::Qp => OfObject::<Counter>::dump(dump),
            Subject::Mr => OfObject::<MrStats>::dump(dump),
        }
    }
}

/// Answers with the statistics of a port, counters included.
fn reply_port<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
    let device = fill::device(request.netns(), attrs)?;
    let port = attrs.require(PORT_INDEX)?;
    let ops = device.ops();
    if ops.alloc_hw_port_stats.is_none() || ops.get_hw_stats.is_none() {
        return Err(EINVAL);
    }
    let stats = HwStats::of_port(&device, port).ok_or(EINVAL)?;

    request.reply(CLIENT, STAT_GET, |out| {
        fill::put_device(out, &device)?;
        out.put(PORT_INDEX, port)?;

        let mut guard = stats.lock();
        let known = guard.fetch(&device, port, 0).map_err(|_| EINVAL)?;
        let mut table = out.nest(STAT_HWCOUNTERS)?;
        for (index, desc, value) in enabled(stats, |index| guard.is_disabled(index))
            .take_while(|(index, ..)| *index < known)
        {
            let counted = stat::counted(&device, port, index as u32);
            put_hwcounter(&mut table, desc.name(), value.wrapping_add(counted))?;
        }
        table.end()
    })
}

/// Answers with who binds the queue pairs of a port.
fn reply_mode<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
    attrs.require(STAT_MODE)?;
    attrs.require(PORT_INDEX)?;
    let (device, port) = fill::device_and_port(request.netns(), attrs)?;

    request.reply(CLIENT, STAT_GET, |out| {
        let mode = stat::mode(&device, port)?;
        fill::put_device(out, &device)?;
        out.put(PORT_INDEX, port)?;
        out.put(STAT_MODE, mode.mode)?;
        if mode.mode == MODE_AUTO {
            out.put(STAT_AUTO_MODE_MASK, mode.mask)?;
            out.put(STAT_OPCOUNTER_ENABLED, mode.bind_optional.into())?;
        }
        Ok(())
    })
}

/// `STAT_GET_STATUS`: which counters a port has, and which of the optional ones count.
pub(super) struct Status;

impl Handler for Status {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let (device, port) = fill::device_and_port(request.netns(), attrs)?;
        let stats = HwStats::of_port(&device, port).ok_or(EINVAL)?;

        request.reply(CLIENT, STAT_GET_STATUS, |out| {
            fill::put_device(out, &device)?;
            out.put(PORT_INDEX, port)?;

            let mut table = out.nest(STAT_HWCOUNTERS)?;
            let guard = stats.lock();
            for (index, desc) in stats.descs().iter().enumerate() {
                let mut entry = table.nest(STAT_HWCOUNTER_ENTRY)?;
                entry.put(STAT_HWCOUNTER_ENTRY_NAME, desc.name())?;
                entry.put(STAT_HWCOUNTER_INDEX, index as u32)?;
                let counts = desc
                    .is_optional()
                    .then(|| u8::from(!guard.is_disabled(index)));
                entry.put_some(STAT_HWCOUNTER_DYNAMIC, counts)?;
                entry.end()?;
            }
            drop(guard);
            table.end()
        })
    }
}
