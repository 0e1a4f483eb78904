// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading of the module.
//!
//! Each thing that is started is an object that stops it when dropped; they are dropped in the
//! reverse order of starting, whether loading failed half way or the module is unloaded.

use super::{
    netdev::LinkWatch,
    CLASS, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex,
    warn_on, //
};
use rdma::{
    class::ClassRegistration,
    net::notifier::{
        Netdev,
        Registration, //
    },
    pin_once::PinOnce,
    registry,
    subsystem::{
        self,
        Running,
        Shared,
        SharedQueue,
        Subsystem,
        UNBOUND_MAX_ACTIVE, //
    },
    workqueue::{
        HIGHPRI,
        MEM_RECLAIM,
        PERCPU,
        SYSFS,
        UNBOUND, //
    },
};

/// What runs while the module is loaded. Fields are dropped in this order, the reverse of the order
/// of starting.
struct Core {
    _link_watch: Pin<KBox<Registration<Netdev, LinkWatch>>>,
    _subsystems: Subsystems,
    _class: ClassRegistration,
    _queues: Queues,
}

static CORE: PinOnce<Mutex<Option<Core>>> = PinOnce::new();

/// The work queues of the core.
struct Queues {
    _completions_unbound: SharedQueue,
    _completions: SharedQueue,
    _events: SharedQueue,
    _unregister: SharedQueue,
}

impl Queues {
    fn start() -> Result<Self> {
        let events = Shared::Events.create(c"infiniband", PERCPU, 0)?;
        let unregister = Shared::Unregister.create(c"ib-unreg-wq", UNBOUND, UNBOUND_MAX_ACTIVE)?;
        let completions =
            Shared::Completions.create(c"ib-comp-wq", HIGHPRI | MEM_RECLAIM | SYSFS | PERCPU, 0)?;
        let completions_unbound = Shared::CompletionsUnbound.create(
            c"ib-comp-unb-wq",
            UNBOUND | HIGHPRI | MEM_RECLAIM | SYSFS,
            UNBOUND_MAX_ACTIVE,
        )?;
        Ok(Self {
            _completions_unbound: completions_unbound,
            _completions: completions,
            _events: events,
            _unregister: unregister,
        })
    }
}

/// The parts of the core in the order of starting, with what the log says when one fails.
const ORDER: [(Subsystem, &str); 8] = [
    (Subsystem::Netlink, "Couldn't init netlink"),
    (Subsystem::Addr, "Couldn't init IB address resolution"),
    (Subsystem::Mad, "Couldn't init IB MAD"),
    (Subsystem::Sa, "Couldn't init SA"),
    (Subsystem::Netns, "Couldn't init compat dev"),
    (Subsystem::Nldev, "Couldn't init device netlink"),
    (Subsystem::LocalService, "Couldn't init resolver netlink"),
    (Subsystem::RoceGid, "Couldn't init RoCE GID management"),
];

/// The parts that run, in the order of starting.
struct Subsystems([Option<Running>; ORDER.len()]);

impl Subsystems {
    fn start() -> Result<Self> {
        let mut started = Self([const { None }; ORDER.len()]);
        for (slot, (subsystem, complaint)) in started.0.iter_mut().zip(ORDER) {
            let running = subsystem
                .start()
                .inspect_err(|err| pr_warn!("{}: {}\n", complaint, err.to_errno()))?;
            *slot = Some(running);
        }
        Ok(started)
    }
}

impl Drop for Subsystems {
    fn drop(&mut self) {
        for running in self.0.iter_mut().rev() {
            drop(running.take());
        }
    }
}

impl Core {
    fn start() -> Result<Self> {
        let queues = Queues::start()?;
        let class = CLASS
            .register()
            .inspect_err(|_| pr_warn!("Couldn't create InfiniBand device class\n"))?;
        let subsystems = Subsystems::start()?;
        let link_watch = KBox::pin_init(Registration::new(LinkWatch), GFP_KERNEL)?;
        Ok(Self {
            _link_watch: link_watch,
            _subsystems: subsystems,
            _class: class,
            _queues: queues,
        })
    }
}

/// Loads the core. Sleeps.
pub(crate) fn init() -> Result {
    registry::init()?;
    CORE.init(new_mutex!(None, "rdma_core"));
    let core = Core::start()?;
    *CORE.get().ok_or(ENODEV)?.lock() = Some(core);
    Ok(())
}

/// Unloads the core, which has no users any more. Sleeps.
pub(crate) fn exit() {
    let core = CORE.get().and_then(|core| core.lock().take());
    drop(core);
    // Of this module's functions.
    subsystem::finish_rcu();
    let registry = registry::get();
    warn_on!(!registry.clients.is_empty());
    warn_on!(!registry.devices.is_empty());
}
