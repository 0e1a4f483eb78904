// SPDX-License-Identifier: GPL-2.0

//! Devices: what they say of themselves, and what all that belongs to a device shares.

use kernel::{
    bindings, new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        Mutex, //
    },
};
use rdma::{
    event::PortEvent,
    gid::Gid,
    net::{
        netdev::Mac,
        roce,
        NetDevice, //
    },
    port::{
        LinkLayer,
        Pkey, //
    },
    provider::{
        Device,
        DeviceAttr,
        DeviceChange,
        Driver,
        LinkWidth,
        MadOutcome,
        MadReply,
        MadRequest,
        Mtu,
        PortAttr,
        PortChange,
        PortImmutable,
        PortProtocol,
        PortStats,
        StatValues,
        Udata, //
    },
    stats::StatDesc,
    sysfs::{
        Access,
        Any,
        DeviceAttribute,
        DeviceFile,
        Output,
        StaticGroup,
        StaticList, //
    },
};

use crate::{
    counters::{
        self,
        Counter,
        Counters, //
    },
    ids::{
        self,
        IdTable, //
    },
    link::Queues,
    mcast::McastTable,
    params,
    pools::Pools,
    port,
    qp::QpCore,
    rx::RoceReceiver,
    sockets::SocketShare,
};

/// Q_Key and P_Key violations stop counting here (IBTA 14.2.5.6).
const VIOLATIONS_MAX: u32 = 0xffff;

/// What all objects and packets of a device share. It lives as long as any of them.
#[pin_data]
pub(crate) struct Shared {
    /// Statistics of the port.
    pub(crate) counters: Counters,
    /// Queue pairs by number.
    pub(crate) qps: Arc<IdTable<QpCore>>,
    /// All other objects.
    pub(crate) objects: ids::Tables,
    /// Groups and their members.
    #[pin]
    pub(crate) mcast: McastTable<QpCore>,
    /// Memory for packets.
    #[pin]
    pub(crate) pools: Pools,
    /// Where queue pairs run.
    pub(crate) queues: Arc<Queues>,
    /// The Ethernet address of the interface, in the upper six bytes of the big-endian number.
    mac: Atomic<u64>,
    /// The MTU of the port, as the number of C.
    mtu: Atomic<u32>,
    bad_pkeys: Atomic<u32>,
    bad_qkeys: Atomic<u32>,
}

impl Shared {
    fn new(netdev: &NetDevice, queues: Arc<Queues>) -> Result<Arc<Self>> {
        let counters = Counters::new()?;
        let qps = ids::queue_pairs()?;
        let objects = ids::Tables::new()?;
        let pools = Pools::new()?;
        let shared = Arc::pin_init(
            pin_init!(Self {
                counters,
                qps,
                objects,
                mcast <- McastTable::new(),
                pools <- pools,
                queues,
                mac: Atomic::new(0),
                mtu: Atomic::new(0),
                bad_pkeys: Atomic::new(0),
                bad_qkeys: Atomic::new(0),
            }),
            GFP_KERNEL,
        )?;
        shared.set_mac(netdev.mac());
        shared.set_interface_mtu(netdev.mtu());
        Ok(shared)
    }

    /// That of a device.
    pub(crate) fn of(device: &Device<Rxe>) -> &Arc<Self> {
        &device.shared
    }

    /// The Ethernet address of the interface.
    pub(crate) fn mac(&self) -> Mac {
        let [a, b, c, d, e, f, _, _] = self.mac.load(Relaxed).to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// Notes a new Ethernet address.
    pub(crate) fn set_mac(&self, mac: Mac) {
        let [a, b, c, d, e, f] = mac;
        self.mac
            .store(u64::from_be_bytes([a, b, c, d, e, f, 0, 0]), Relaxed);
    }

    /// The MTU of the port.
    pub(crate) fn mtu(&self) -> Mtu {
        Mtu::from_raw(self.mtu.load(Relaxed)).unwrap_or(Mtu::B256)
    }

    /// Derives the MTU of the port from that of the interface; says whether it changed.
    pub(crate) fn set_interface_mtu(&self, mtu: u32) -> bool {
        let mtu = port::mtu(mtu) as u32;
        self.mtu.xchg(mtu, Relaxed) != mtu
    }

    /// Counts a packet with a bad partition key.
    pub(crate) fn count_bad_pkey(&self) {
        saturating_inc(&self.bad_pkeys);
    }

    /// Counts a datagram with a bad queue key.
    pub(crate) fn count_bad_qkey(&self) {
        saturating_inc(&self.bad_qkeys);
    }
}

fn saturating_inc(counter: &Atomic<u32>) {
    let old = counter.load(Relaxed);
    if old < VIOLATIONS_MAX {
        // Whoever loses the race has counted the same moment.
        let _ = counter.cmpxchg(old, old + 1, Relaxed);
    }
}

/// The counters, as the core knows them.
static COUNTERS: [StatDesc; counters::COUNT] = {
    let mut descs = [const { StatDesc::new(c"") }; counters::COUNT];
    let mut i = 0;
    while i < counters::COUNT {
        descs[i] = StatDesc::new(counters::NAMES[i]);
        i += 1;
    }
    descs
};

/// What an administrator may change.
struct Settings {
    system_guid: [u8; 8],
    capabilities: u32,
}

/// The driver's part of a device.
#[pin_data]
pub(crate) struct Rxe {
    /// What objects and packets hold on to.
    pub(crate) shared: Arc<Shared>,
    #[pin]
    sockets: Mutex<Option<SocketShare<RoceReceiver>>>,
    /// The address of the interface when the link was made, or a random one.
    mac: Mac,
    node_guid: [u8; 8],
    #[pin]
    settings: Mutex<Settings>,
}

impl Rxe {
    /// The driver's part of a device on top of `netdev`, whose namespace has open sockets.
    pub(crate) fn new(
        netdev: &NetDevice,
        sockets: SocketShare<RoceReceiver>,
        queues: Arc<Queues>,
    ) -> Result<impl PinInit<Self, Error>> {
        let shared = Shared::new(netdev, queues)?;
        let mac = netdev.hw_addr().unwrap_or_else(port::random_mac);
        let system_guid = port::guid(mac);
        let node_guid = port::node_guid(netdev, mac);
        Ok(try_pin_init!(Self {
            shared,
            sockets <- new_mutex!(Some(sockets)),
            mac,
            node_guid,
            settings <- new_mutex!(Settings {
                system_guid,
                capabilities: bindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP,
            }),
        }))
    }

    /// The GUID of the node.
    pub(crate) fn guid(&self) -> [u8; 8] {
        self.node_guid
    }

    /// Gives up the share of the sockets, because the interface leaves the namespace. May sleep.
    pub(crate) fn release_sockets(&self) {
        let share = self.sockets.lock().take();
        drop(share);
    }
}

fn check_port(port: u32) -> Result {
    if port == params::PORT {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

#[vtable]
impl Driver for Rxe {
    type OwnerModule = crate::LocalModule;

    const ID: bindings::rdma_driver_id = bindings::rdma_driver_id_RDMA_DRIVER_RXE;
    const ABI_VERSION: u32 = 2;
    const PORT_STATS: PortStats = PortStats {
        names: &COUNTERS,
        lifespan: bindings::RDMA_HW_STATS_DEFAULT_LIFESPAN as usize,
    };

    type Ucontext = crate::mmap::Ucontext;
    type Pd = crate::pd::Pd;
    type Ah = crate::ah::Ah;
    type Cq = crate::cq::Cq;
    type Qp = crate::qp::Qp;
    type Srq = crate::srq::Srq;
    type Mr = crate::mr::Mr;
    type Mw = crate::mw::Mw;
    type Xrcd = crate::xrcd::Xrcd;

    fn query_device(device: &Device<Self>, attr: &mut DeviceAttr, udata: Udata<'_>) -> Result {
        udata.expect_nothing()?;
        params::fill_device(attr);
        attr.sys_image_guid = u64::from_ne_bytes(device.settings.lock().system_guid);
        Ok(())
    }

    fn query_port(device: &Device<Self>, port: u32) -> Result<PortAttr> {
        check_port(port)?;
        let netdev = roce::netdev_of(device.core(), port).ok_or(ENODEV)?;
        let (speed, width) = roce::eth_speed(device.core(), port)?;
        let (state, phys_state) = port::states(&netdev);
        let shared = &device.shared;
        Ok(PortAttr {
            state,
            phys_state,
            max_mtu: Mtu::B4096,
            active_mtu: shared.mtu(),
            gid_table_len: params::GID_TABLE_LEN,
            capabilities: device.settings.lock().capabilities,
            max_message: params::MAX_MSG_SIZE,
            bad_pkeys: shared.bad_pkeys.load(Relaxed),
            bad_qkeys: shared.bad_qkeys.load(Relaxed),
            pkey_table_len: 1,
            width: LinkWidth::from_raw(width).unwrap_or(LinkWidth::X1),
            speed,
            ..PortAttr::new()
        })
    }

    fn port_immutable(_: &Device<Self>, port: u32) -> Result<PortImmutable> {
        check_port(port)?;
        Ok(PortImmutable {
            protocol: PortProtocol::RoceV2,
            gid_table_len: params::GID_TABLE_LEN,
            pkey_table_len: 1,
            max_mad_size: bindings::IB_MGMT_MAD_SIZE,
        })
    }

    fn link_layer(_: &Device<Self>, _port: u32) -> LinkLayer {
        LinkLayer::Ethernet
    }

    fn query_gid(device: &Device<Self>, _port: u32, _index: u32) -> Result<Gid> {
        let mut gid = [0; 16];
        for (to, from) in gid.iter_mut().zip(device.mac) {
            *to = from;
        }
        Ok(Gid::from_bytes(gid))
    }

    fn query_pkey(_: &Device<Self>, _port: u32, index: u16) -> Result<Pkey> {
        if index == 0 {
            Ok(Pkey(params::DEFAULT_PKEY))
        } else {
            Err(EINVAL)
        }
    }

    fn modify_device(device: &Device<Self>, change: &DeviceChange) -> Result {
        if let Some(guid) = change.system_guid {
            device.settings.lock().system_guid = guid.to_be_bytes();
        }
        if let Some(desc) = &change.node_desc {
            device.set_node_desc(desc);
        }
        Ok(())
    }

    fn modify_port(device: &Device<Self>, port: u32, change: &PortChange) -> Result {
        check_port(port)?;
        if change.shutdown || change.init_type.is_some() {
            return Err(EOPNOTSUPP);
        }
        let mut settings = device.settings.lock();
        settings.capabilities |= change.set_capabilities;
        settings.capabilities &= !change.clear_capabilities;
        if change.reset_bad_qkeys {
            device.shared.bad_qkeys.store(0, Relaxed);
        }
        Ok(())
    }

    fn enable(device: &Device<Self>) -> Result {
        let netdev = roce::netdev_of(device.core(), params::PORT).ok_or(ENODEV)?;
        let dev = device.core().as_dev();
        if port::is_active(&netdev) {
            device.dispatch(PortEvent::Active, params::PORT);
            dev_info!(dev, "set active\n");
        } else {
            device.dispatch(PortEvent::Err, params::PORT);
            device.shared.counters.add(Counter::LinkDowned, 1);
            dev_info!(dev, "set down\n");
        }
        dev_info!(dev, "added {}\n", netdev.name());
        Ok(())
    }

    fn process_mad(
        device: &Device<Self>,
        request: &MadRequest<'_>,
        reply: &mut MadReply<'_>,
    ) -> MadOutcome {
        crate::mad::process(&device.shared.counters, request, reply)
    }

    fn read_port_stats(device: &Device<Self>, port: u32, values: &mut StatValues<'_>) -> Result {
        check_port(port)?;
        for (index, value) in device.shared.counters.values().into_iter().enumerate() {
            values.set(index, value);
        }
        Ok(())
    }
}

/// The file `parent` in the directory of a device: the name of its interface, for tools.
struct Parent;

impl DeviceFile for Parent {
    type Scope = Any;

    fn show(&self, device: &rdma::device::Device, out: &mut Output<'_>) -> Result {
        let netdev = roce::netdev_of(device, params::PORT).ok_or(ENODEV)?;
        out.bytes(netdev.name().as_bytes());
        out.bytes(b"\n");
        Ok(())
    }
}

static PARENT: [DeviceAttribute<Parent>; 1] =
    [DeviceAttribute::new(c"parent", Access::ReadOnly, Parent)];
static LIST: StaticList<2> = StaticList::new(&PARENT);

/// The files in the directory of a device.
pub(crate) static FILES: StaticGroup = StaticGroup::new(&LIST);
