// SPDX-License-Identifier: GPL-2.0

//! Queries to the subnet administration.
//!
//! Each InfiniBand port has a client of the MAD layer, an address handle that leads to the subnet
//! manager, and a note of what the administration can do ([`port`]). A query ([`query`]) is in a
//! table from its start to its end, under the number that its asker can cancel it by. It is with
//! one of two others meanwhile: the resolver in user space ([`service`]), if it is about a path
//! and somebody listens, or the MAD layer. Whoever gives it back decides what the asker is told
//! ([`asker`]), which happens once.
//!
//! Closing a port refuses new queries, cancels those under way, and waits for them, so nothing of
//! a port is used when its device is gone.

mod ah_attr;
mod asker;
mod port;
mod query;
mod service;

use self::{
    asker::{
        Asker,
        PathForm, //
    },
    port::{
        Attachment,
        PortUse, //
    },
    query::Order,
};
use kernel::prelude::*;
use rdma::{
    device::Device,
    device_client::{
        DeviceClient,
        Registration, //
    },
    gfp::Gfp,
    sa::{
        path::Form,
        wire::{
            method,
            Attribute,
            Dialect,
            Draft, //
        },
        Client,
        Components,
        GuidInfo,
        ListHandler,
        Member,
        PathRecord,
        RecordHandler,
        Service, //
    },
    static_lock::StaticSpinLock, //
};

pub(crate) use self::{
    ah_attr::init as init_ah_attr,
    query::{
        cancel,
        Query, //
    },
    service::{
        handle_answer,
        handle_set_timeout, //
    },
};

/// The client of devices.
struct SaClient;

impl DeviceClient for SaClient {
    const NAME: &'static CStr = c"sa";

    fn add(device: &Device) -> Result {
        Attachment::attach(device)
    }

    fn remove(device: &Device) {
        Attachment::detach(device);
    }
}

static CLIENT: StaticSpinLock<Option<Registration<SaClient>>> = StaticSpinLock::new(None);

/// Starts the part, without multicast. Sleeps.
pub(crate) fn init() -> Result {
    service::start()?;
    match Registration::new() {
        Ok(client) => {
            *CLIENT.lock() = Some(client);
            Ok(())
        }
        Err(error) => {
            pr_err!("Couldn't register ib_sa client\n");
            service::stop();
            Err(error)
        }
    }
}

/// Ends the part, when multicast has ended. Sleeps.
pub(crate) fn cleanup() {
    let client = CLIENT.lock().take();
    drop(client);
    service::stop();
    kernel::warn_on!(query::any());
}

/// How a query is started, whatever it asks.
pub(crate) struct Terms<'a> {
    pub(crate) client: &'a Client,
    pub(crate) device: &'a Device,
    pub(crate) port: u32,
    pub(crate) components: Components,
    /// How long to wait for the answer, in milliseconds.
    pub(crate) timeout_ms: usize,
    pub(crate) gfp: Gfp,
    /// Is given the query before its asker can be told anything.
    pub(crate) announce: &'a dyn Fn(&Query),
}

impl Terms<'_> {
    fn port_use(&self) -> Result<PortUse> {
        port::find(self.device, self.port)
    }

    fn draft(&self, method: u8, attribute: Attribute) -> Draft {
        Draft::new(Dialect::Ib, method, attribute, self.components)
    }

    fn start(&self, port: PortUse, dialect: Dialect, draft: Draft, asker: Asker) -> Result<u32> {
        self.start_about(port, dialect, draft, asker, None)
    }

    fn start_about(
        &self,
        port: PortUse,
        dialect: Dialect,
        draft: Draft,
        asker: Asker,
        path: Option<&PathRecord>,
    ) -> Result<u32> {
        let order = Order {
            client: Some(self.client.take()),
            dialect,
            draft,
            timeout_ms: self.timeout_ms,
            asker,
        };
        let question = path.map(|path| service::Question {
            path,
            components: self.components,
        });
        query::start(port, order, question, self.gfp, self.announce)
    }
}

/// Asks for a path; the resolver of user space is asked first.
///
/// Errors: `ENODEV` if there is no administration for the device, `EINVAL` for a record of another
/// form, a port that is not there, or an Omni-Path port that cannot ask; `EAGAIN` if the way to
/// the subnet manager is not known.
pub(crate) fn path(
    terms: &Terms<'_>,
    record: &PathRecord,
    handler: Option<ListHandler<PathRecord>>,
) -> Result<u32> {
    let port = terms.port_use()?;
    let form = match record.form() {
        Form::Ib => PathForm::Ib,
        Form::Opa => port.opa_path_form()?,
        Form::Roce(_) => return Err(EINVAL),
    };
    let asker = handler.map_or(Asker::Nobody, |handler| Asker::Path { handler, form });
    match form {
        PathForm::Opa => {
            let mut draft =
                Draft::new(Dialect::Opa, method::GET, Attribute::Path, terms.components);
            record.pack_opa(draft.data_mut())?;
            terms.start(port, Dialect::Opa, draft, asker)
        }
        PathForm::Ib | PathForm::Converted => {
            let asked = match form {
                PathForm::Converted => record.opa_to_ib(),
                _ => *record,
            };
            let draft = terms.draft(method::GET, Attribute::Path).with(&asked)?;
            terms.start_about(port, Dialect::Ib, draft, asker, Some(&asked))
        }
    }
}

/// Asks for all services that match.
///
/// Errors: as for [`path`].
pub(crate) fn services(
    terms: &Terms<'_>,
    record: &Service,
    handler: Option<ListHandler<Service>>,
) -> Result<u32> {
    let port = terms.port_use()?;
    let draft = terms
        .draft(method::GET_TABLE, Attribute::Service)
        .with(record)?;
    let asker = handler.map_or(Asker::Nobody, Asker::Services);
    terms.start(port, Dialect::Ib, draft, asker)
}

/// Sets, reads or deletes a member of a multicast group.
///
/// Errors: as for [`path`].
pub(crate) fn member(
    terms: &Terms<'_>,
    method: u8,
    record: &Member,
    handler: Option<RecordHandler<Member>>,
) -> Result<u32> {
    let port = terms.port_use()?;
    let draft = terms.draft(method, Attribute::Member).with(record)?;
    let asker = handler.map_or(Asker::Nobody, Asker::Member);
    terms.start(port, Dialect::Ib, draft, asker)
}

/// Sets, reads or deletes GUIDs of a port.
///
/// Errors: as for [`path`]; `EINVAL` for any other method.
pub(crate) fn guid_info(
    terms: &Terms<'_>,
    method: u8,
    record: &GuidInfo,
    handler: Option<RecordHandler<GuidInfo>>,
) -> Result<u32> {
    let port = terms.port_use()?;
    if !matches!(method, method::GET | method::SET | method::DELETE) {
        return Err(EINVAL);
    }
    let draft = terms.draft(method, Attribute::GuidInfo).with(record)?;
    let asker = handler.map_or(Asker::Nobody, Asker::GuidInfo);
    terms.start(port, Dialect::Ib, draft, asker)
}
