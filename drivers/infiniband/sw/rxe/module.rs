// SPDX-License-Identifier: GPL-2.0

//! The module: what is registered, and in which order.

use kernel::{
    prelude::*,
    ThisModule, //
};
use rdma::{
    net::{
        notifier,
        pernet, //
    },
    provider::{
        LinkRegistration,
        Registration, //
    },
};

use crate::{
    device::Rxe,
    flight,
    link::{
        Interfaces,
        Links,
        Published,
        RxeLink,
        SocketCloser, //
    },
};

/// Unregisters all devices, however they came to be, and waits for what still refers to the module.
struct Devices;

impl Drop for Devices {
    fn drop(&mut self) {
        Registration::<Rxe>::unregister_all();
        flight::settle();
    }
}

/// All that the module has registered. Fields are dropped in this order, the reverse of that of
/// initialisation but for the namespaces, which outlive the links.
#[pin_data]
pub(crate) struct RxeModule {
    #[pin]
    link_type: LinkRegistration<RxeLink>,
    devices: Devices,
    #[pin]
    interfaces: notifier::Registration<notifier::Netdev, Interfaces>,
    #[pin]
    namespaces: pernet::Registration<SocketCloser>,
    links: Published,
    last_words: LastWords,
}

impl kernel::InPlaceModule for RxeModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            last_words: LastWords,
            links: Links::publish()?,
            namespaces <- pernet::Registration::new(),
            interfaces <- notifier::Registration::new(Interfaces),
            devices: Devices,
            link_type <- LinkRegistration::new(),
            _: { pr_info!("loaded\n"); },
        })
    }
}

/// Says that the module is gone.
struct LastWords;

impl Drop for LastWords {
    fn drop(&mut self) {
        pr_info!("unloaded\n");
    }
}
