// SPDX-License-Identifier: GPL-2.0

//! The module: devices that are there from the start, and `rdma link add ... type fake`.

use super::{
    control::{self, Control},
    device::{self, Config, Fake, Protocol},
    engine::Engine,
    fabric,
};
use kernel::{bindings, debugfs::Scope, prelude::*};
use rdma::{
    net::NetDevice,
    netns::Net,
    provider::{LinkRegistration, LinkType, Registration},
};

/// Devices that an administrator makes on top of a network device. They speak RoCE, or iWARP if the
/// module was told so, and end with `rdma link del`, or with the module.
struct FakeLink;

impl LinkType for FakeLink {
    const NAME: &'static CStr = c"fake";

    fn new_link(name: &CStr, netdev: &NetDevice) -> Result {
        let protocol = match Protocol::from_raw(super::module_parameters::protocol.value())? {
            Protocol::Iwarp => Protocol::Iwarp,
            Protocol::InfiniBand | Protocol::Roce => Protocol::Roce,
        };
        let config = Config {
            kernel_cap_flags: u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG),
            ..Config::new(protocol)
        };
        fabric::keep(device::register(Net::init(), config, name, Some(netdev))?)
    }
}

/// What the module has, in the order in which it ends.
#[pin_data]
pub(crate) struct FakeModule {
    #[pin]
    link: LinkRegistration<FakeLink>,
    #[pin]
    control: Scope<Control>,
    devices: Devices,
    engine: Engine,
}

/// The devices that nobody has ended.
struct Devices;

impl Drop for Devices {
    fn drop(&mut self) {
        fabric::drop_kept();
    }
}

impl kernel::InPlaceModule for FakeModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(|| {
            // SAFETY: Called once, and first.
            unsafe { fabric::init() };
            let engine = Engine::start()?;
            let devices = Devices;
            make_devices()?;
            Ok::<_, Error>(try_pin_init!(Self {
                link <- LinkRegistration::new(),
                control <- control::files(),
                devices,
                engine,
            }? Error))
        })
    }
}

fn make_devices() -> Result {
    let protocol = Protocol::from_raw(super::module_parameters::protocol.value())?;
    for _ in 0..super::module_parameters::devices.value() {
        let config = Config {
            kernel_cap_flags: u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG),
            ..Config::new(protocol)
        };
        let device: Registration<Fake> = device::register(Net::init(), config, c"fake%d", None)?;
        fabric::keep(device)?;
    }
    Ok(())
}
