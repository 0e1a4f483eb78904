// SPDX-License-Identifier: GPL-2.0

//! Tracked objects: how many there are, one of them, all of them.
//!
//! A [`Resource`] says what is to be told of an object of one type. [`OfObject`] makes the answer
//! to a request and the dump of a table from it, so that one path serves all types, their raw
//! forms ([`Raw`]) and their statistics.

use core::marker::PhantomData;

use kernel::prelude::*;
use rdma::{
    device::Device,
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
        device::visit_all,
        object::{
            Held,
            Object,
            RawDetails, //
        },
    },
    restrack::Kind,
};

use super::{
    dev::{
        DeviceInfo,
        EachDevice, //
    },
    fill,
    policy::{
        POLICY,
        RES_SUMMARY,
        RES_SUMMARY_ENTRY,
        RES_SUMMARY_ENTRY_CURR,
        RES_SUMMARY_ENTRY_MAX,
        RES_SUMMARY_ENTRY_NAME, //
    },
    CLIENT, RES_GET,
};

/// Who asks for an object, and where.
pub(super) struct Context<'a> {
    /// The device that has the object.
    pub(super) device: &'a Device,
    /// Whether the reader may see keys.
    pub(super) admin: bool,
}

/// What netlink tells of one type of object.
pub(super) trait Resource {
    /// The type.
    type Object: Object;
    /// The attribute around all objects of a dump.
    const TABLE: Attr<Nested>;
    /// The attribute around one object of a dump.
    const ENTRY: Attr<Nested>;
    /// The attribute with an object's id in a request.
    const ID: Attr<u32>;
    /// Whether objects of this type belong to a port, which a request for one of them has to name.
    const OF_PORT: bool = false;

    /// The port of an object of a type that belongs to ports.
    fn port(_object: &Self::Object) -> u32 {
        0
    }

    /// Tells of an object. May sleep.
    ///
    /// With `EAGAIN` a driver has an object left out of a dump.
    fn put(context: &Context<'_>, object: &Held<Self::Object>, out: &mut AttrWriter<'_>) -> Result;
}

/// The form of a resource that only the driver understands.
pub(super) struct Raw<R>(PhantomData<R>);

impl<R: Resource<Object: RawDetails>> Resource for Raw<R> {
    type Object = R::Object;
    const TABLE: Attr<Nested> = R::TABLE;
    const ENTRY: Attr<Nested> = R::ENTRY;
    const ID: Attr<u32> = R::ID;
    const OF_PORT: bool = R::OF_PORT;

    fn port(object: &R::Object) -> u32 {
        R::port(object)
    }

    fn put(context: &Context<'_>, object: &Held<R::Object>, out: &mut AttrWriter<'_>) -> Result {
        object.put_raw(context.device, out)
    }
}

/// Tells of an object; `EAGAIN` if it is not of the port asked for.
fn put_if_of_port<R: Resource>(
    context: &Context<'_>,
    port: Option<u32>,
    object: &Held<R::Object>,
    out: &mut AttrWriter<'_>,
) -> Result {
    match port {
        // Port 0, that of a switch, means all ports here.
        Some(port) if R::OF_PORT && port != 0 && port != R::port(object) => Err(EAGAIN),
        _ => R::put(context, object, out),
    }
}

/// The answers to requests for a [`Resource`].
pub(super) struct OfObject<R>(PhantomData<R>);

impl<R: Resource> Handler for OfObject<R> {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let id = attrs.require(R::ID)?;
        let device = fill::device(request.netns(), attrs)?;
        let port = fill::port(&device, attrs)?;
        if port.is_some_and(|port| port != 0) != R::OF_PORT {
            return Err(EINVAL);
        }
        let object = Held::find(&device, id)?;

        request.reply(CLIENT, request.op(), |out| {
            fill::put_device(out, &device)?;
            let context = Context {
                device: &device,
                admin: request.has_net_admin(),
            };
            put_if_of_port::<R>(&context, port, &object, out)
        })
    }
}

/// The cursor is the id of the next object.
impl<R: Resource> DumpHandler for OfObject<R> {
    fn dump(dump: &mut Dump<'_>) -> Result<Progress> {
        let attrs = dump.attrs(&POLICY).map_err(|_| EINVAL)?;
        let device = fill::device(dump.netns(), &attrs)?;
        let port = fill::port(&device, &attrs)?;
        let details = fill::wants_details(&attrs);
        let context = Context {
            device: &device,
            admin: dump.has_net_admin(),
        };
        let (start, op) = (dump.cursor(), dump.op());

        let mut message = dump.message(CLIENT, op)?;
        fill::put_device(&mut message, &device)?;
        let mut table = message.nest_unmarked(R::TABLE)?;
        let mut next = start;

        // A cursor beyond the ids means that all have been seen.
        while let Ok(from) = u32::try_from(next) {
            let Some(object) = Held::next(&device, from, details) else {
                break;
            };
            let told = table.nest_unmarked(R::ENTRY).and_then(|mut entry| {
                put_if_of_port::<R>(&context, port, &object, &mut entry)?;
                entry.end()
            });
            match told {
                Ok(()) => (),
                // Another port's: left out, with whatever was written.
                Err(error) if error == EAGAIN => (),
                // The buffer is full. An object that does not fit an empty one never will.
                Err(error) if error == EMSGSIZE && next != start => break,
                Err(error) => return Err(error),
            }
            next = u64::from(object.id()) + 1;
        }
        if next == start {
            // Nothing left: without a word.
            return Ok(Progress::Done);
        }
        table.end()?;
        message.end();
        dump.set_cursor(next);
        Ok(Progress::More)
    }
}

/// What the summary lists, in this order: name, kind, and the most that the device has room for
/// (0 if that is not known).
type SummaryRow = (&'static CStr, Kind, fn(&Device) -> u64);

const SUMMARY: [SummaryRow; 8] = [
    (c"pd", Kind::Pd, |device| device.attrs().max_pd.into()),
    (c"cq", Kind::Cq, |device| device.attrs().max_cq.into()),
    (c"qp", Kind::Qp, |device| device.attrs().max_qp.into()),
    (c"cm_id", Kind::CmId, |_| 0),
    (c"mr", Kind::Mr, |device| device.attrs().max_mr.into()),
    (c"ctx", Kind::Ctx, |_| 0),
    (c"srq", Kind::Srq, |device| device.attrs().max_srq.into()),
    (c"comp_cntr", Kind::CompCntr, |device| {
        device.max_comp_counters().into()
    }),
];

fn put_summary(out: &mut AttrWriter<'_>, device: &Device, details: bool) -> Result {
    fill::put_device(out, device)?;
    let mut table = out.nest_unmarked(RES_SUMMARY)?;
    for (name, kind, max) in SUMMARY {
        let mut entry = table.nest_unmarked(RES_SUMMARY_ENTRY)?;
        entry.put(RES_SUMMARY_ENTRY_NAME, name)?;
        entry.put(
            RES_SUMMARY_ENTRY_CURR,
            device.count_objects(kind, details).into(),
        )?;
        let max = Some(max(device)).filter(|max| *max != 0);
        entry.put_some(RES_SUMMARY_ENTRY_MAX, max)?;
        entry.end()?;
    }
    table.end()
}

/// `RES_GET`.
pub(super) struct Summary;

impl Handler for Summary {
    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let device = fill::device(request.netns(), attrs)?;
        let details = fill::wants_details(attrs);
        request.reply(CLIENT, RES_GET, |out| put_summary(out, &device, details))
    }
}

impl DeviceInfo for Summary {
    const OP: u32 = RES_GET;

    fn put(out: &mut AttrWriter<'_>, device: &Device) -> Result {
        put_summary(out, device, false)
    }
}

impl DumpHandler for Summary {
    fn dump(dump: &mut Dump<'_>) -> Result<Progress> {
        Ok(visit_all::<EachDevice<Self>>(dump))
    }
}
