// SPDX-License-Identifier: GPL-2.0

//! Fake devices: what lies behind each `struct ib_device`.

use super::{
    cq::FakeCq,
    fabric,
    mad::Hook,
    memory::{FakeMr, Regions},
    objects::{FakeAh, FakePd, FakeXrcd},
    ops::{Op, COUNT},
    qp::FakeQp,
    script::{Failure, Script},
    srq::FakeSrq,
};
use kernel::{
    bindings,
    prelude::*,
    str::CString,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        new_mutex, new_spinlock_irq, Arc, Mutex, SpinLockIrq,
    },
    workqueue::{impl_has_work, new_work, Work, WorkItem},
};
use rdma::{
    gid::{Gid, GidAttr},
    net::NetDevice,
    netns::Net,
    port::{LinkLayer, Pkey},
    provider::{
        Absent, Device, DeviceAttr, DeviceChange, Driver, LinkWidth, MadOutcome, MadReply,
        MadRequest, Mtu, NewDevice, Op as TableOp, OpTable, PhysState, PortAttr, PortChange,
        PortImmutable, PortProtocol, Registration, SubDeviceKind, Udata,
    },
};

/// What a port speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    InfiniBand,
    Roce,
    Iwarp,
}

impl Protocol {
    pub(crate) fn from_raw(raw: bindings::ib_fake_protocol) -> Result<Self> {
        match raw {
            bindings::ib_fake_protocol_IB_FAKE_INFINIBAND => Ok(Self::InfiniBand),
            bindings::ib_fake_protocol_IB_FAKE_ROCE => Ok(Self::Roce),
            bindings::ib_fake_protocol_IB_FAKE_IWARP => Ok(Self::Iwarp),
            _ => Err(EINVAL),
        }
    }
}

/// What a device is made with.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) protocol: Protocol,
    pub(crate) ports: u32,
    pub(crate) comp_vectors: u32,
    pub(crate) gids: u32,
    pub(crate) pkeys: u16,
    pub(crate) max_fast_reg_pages: u32,
    pub(crate) without: u32,
    pub(crate) kernel_cap_flags: u64,
    pub(crate) fail: Option<(Op, Error)>,
}

impl Config {
    pub(crate) const fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            ports: 1,
            comp_vectors: 1,
            gids: 4,
            pkeys: 4,
            max_fast_reg_pages: 256,
            without: 0,
            kernel_cap_flags: 0,
            fail: None,
        }
    }
}

/// A port as a test has scripted it.
pub(crate) struct PortState {
    pub(crate) attr: PortAttr,
    pub(crate) gids: KVec<Gid>,
    pub(crate) pkeys: KVec<u16>,
    pub(crate) responder: Option<Hook>,
    netdev: Option<ARef<NetDevice>>,
}

/// The part of a device that outlives its registration as long as something uses it.
#[pin_data]
pub(crate) struct State {
    /// Tells devices from one another.
    pub(crate) id: u32,
    pub(crate) config: Config,
    #[pin]
    pub(crate) script: Script,
    #[pin]
    ports: SpinLockIrq<KVec<PortState>>,
    /// Held while the agent runs.
    #[pin]
    pub(crate) agent: Mutex<Option<Hook>>,
    #[pin]
    pub(crate) regions: Regions,
    objects: [Atomic<u32>; COUNT],
    pub(crate) held: Atomic<bool>,
    #[pin]
    retry: Work<State>,
}

impl_has_work! {
    impl HasWork<Self> for State { self.retry }
}

impl WorkItem for State {
    type Pointer = Arc<Self>;

    fn run(_this: Arc<Self>) {
        super::engine::retry_now();
    }
}

impl State {
    fn new(config: Config) -> Result<Arc<Self>> {
        let id = fabric::next_id();
        let mut ports = KVec::with_capacity(config.ports as usize, GFP_KERNEL)?;
        for port in 1..=config.ports {
            ports.push(PortState::new(&config, id, port)?, GFP_KERNEL)?;
        }
        Arc::pin_init(
            try_pin_init!(Self {
                id,
                config,
                script <- Script::new(),
                ports <- new_spinlock_irq!(ports),
                agent <- new_mutex!(None),
                regions <- Regions::new(),
                objects: [const { Atomic::new(0) }; COUNT],
                held: Atomic::new(false),
                retry <- new_work!("State::retry"),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Looks at a port, or changes it; `EINVAL` without that port. Any context.
    pub(crate) fn with_port<R>(
        &self,
        port: u32,
        f: impl FnOnce(&mut PortState) -> Result<R>,
    ) -> Result<R> {
        let index = port.checked_sub(1).ok_or(EINVAL)? as usize;
        f(self.ports.lock().get_mut(index).ok_or(EINVAL)?)
    }

    /// Sets the agent of the device; the one before is not running any more afterwards. May sleep.
    pub(crate) fn set_agent(&self, hook: Option<Hook>) {
        *self.agent.lock() = hook;
    }

    /// Counts an object that the operation has made.
    pub(crate) fn made(&self, by: Op) {
        if let Some(count) = self.objects.get(by.index()) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts an object that is gone.
    pub(crate) fn gone(&self, by: Op) {
        if let Some(count) = self.objects.get(by.index()) {
            count.fetch_sub(1, Relaxed);
        }
    }

    /// Objects that the operation has made and that are still there.
    pub(crate) fn objects(&self, by: Op) -> u32 {
        self.objects
            .get(by.index())
            .map_or(0, |count| count.load(Relaxed))
    }

    /// Ports that have an address, with their numbers: the port of a LID or a GID.
    pub(crate) fn port_of(&self, wanted: &fabric::Address) -> Option<u32> {
        let ports = self.ports.lock();
        for (number, port) in (1..).zip(ports.iter()) {
            if wanted.is_of(port) {
                return Some(number);
            }
        }
        None
    }
}

/// The GUID of a port, or of a device for port 0.
fn guid(id: u32, port: u32) -> [u8; 8] {
    let [a, b, c, d] = id.to_be_bytes();
    [0x02, 0xfa, 0x6e, a, b, c, d, port as u8]
}

impl PortState {
    fn new(config: &Config, id: u32, port: u32) -> Result<Self> {
        let ib = config.protocol == Protocol::InfiniBand;
        let mut gids = KVec::from_elem(Gid::ZERO, config.gids as usize, GFP_KERNEL)?;
        let mut pkeys = KVec::from_elem(0u16, config.pkeys.into(), GFP_KERNEL)?;
        if let (Some(first), true) = (gids.first_mut(), config.protocol != Protocol::Roce) {
            *first = Gid::link_local(guid(id, port));
        }
        if let Some(first) = pkeys.first_mut() {
            *first = 0xffff;
        }
        let lid = if ib { fabric::next_lid() } else { 0 };
        let attr = PortAttr {
            state: if ib {
                bindings::ib_port_state_IB_PORT_ACTIVE
            } else {
                bindings::ib_port_state_IB_PORT_DOWN
            },
            phys_state: if ib {
                PhysState::LinkUp
            } else {
                PhysState::Disabled
            },
            active_mtu: Mtu::B4096,
            gid_table_len: config.gids,
            pkey_table_len: config.pkeys,
            ip_gids: !ib,
            lid,
            sm_lid: u32::from(ib),
            width: LinkWidth::X4,
            subnet_timeout: 18,
            ..PortAttr::new()
        };
        Ok(Self {
            attr,
            gids,
            pkeys,
            responder: None,
            netdev: None,
        })
    }
}

/// A fake device.
pub(crate) struct Fake {
    pub(crate) state: Arc<State>,
}

/// Makes and registers a device, whose first port may have a network device.
pub(crate) fn register(
    net: &Net,
    config: Config,
    name: &CStr,
    netdev: Option<&NetDevice>,
) -> Result<Registration<Fake>> {
    let (device, state) = make(net, config)?;
    if let Some(netdev) = netdev {
        device.set_netdev(1, Some(netdev))?;
        state.with_port(1, |port| {
            port.attr.state = bindings::ib_port_state_IB_PORT_ACTIVE;
            port.attr.phys_state = PhysState::LinkUp;
            port.netdev = Some(netdev.into());
            Ok(())
        })?;
    }
    device.register(name, None)
}

fn make(net: &Net, config: Config) -> Result<(NewDevice<Fake>, Arc<State>)> {
    let mut config = config;
    if config.protocol == Protocol::Iwarp {
        // There are no partitions.
        config.pkeys = 0;
    }
    let state = State::new(config)?;
    state.script.fail_as(&fabric::template());
    if let Some((op, error)) = config.fail {
        state.script.fail(op, Some(Failure::Always(error)));
    }
    let mut ops = OpTable::<Fake>::new();
    for (bit, op) in WITHOUT {
        if config.without & bit != 0 {
            ops = ops.without(op);
        }
    }
    match config.protocol {
        Protocol::InfiniBand => ops = ops.without(TableOp::Netdev),
        Protocol::Roce => {}
        Protocol::Iwarp => ops = ops.without(TableOp::QueryPkey),
    }
    let fake = Fake {
        state: state.clone(),
    };
    let device = NewDevice::with_ops(net, &ops, Ok::<_, Error>(fake))?;
    device.set_ports(config.ports);
    device.set_comp_vectors(config.comp_vectors);
    device.set_node_guid(guid(state.id, 0));
    device.set_node_desc(b"fake");
    device.set_node_type(match config.protocol {
        Protocol::Iwarp => bindings::RDMA_NODE_RNIC as u8,
        _ => bindings::RDMA_NODE_IB_CA as u8,
    });
    Ok((device, state))
}

const WITHOUT_SUB_DEVICES: u32 = 1 << 10;

const WITHOUT: [(u32, TableOp); 13] = [
    (1 << 0, TableOp::Srq),
    (1 << 1, TableOp::ModifyCq),
    (1 << 2, TableOp::AllocMr),
    (1 << 3, TableOp::Mcast),
    (1 << 4, TableOp::QueryQp),
    (1 << 5, TableOp::ProcessMad),
    (1 << 6, TableOp::ModifyAh),
    (1 << 7, TableOp::QueryAh),
    (1 << 8, TableOp::ModifyDevice),
    (1 << 9, TableOp::ModifyPort),
    (WITHOUT_SUB_DEVICES, TableOp::SubDevices),
    (1 << 11, TableOp::Xrcd),
    (1 << 12, TableOp::PeekCq),
];

impl Drop for Fake {
    fn drop(&mut self) {
        fabric::remove_device(&self.state);
        for port in 1..=self.state.config.ports {
            let netdev = self.state.with_port(port, |port| Ok(port.netdev.take()));
            drop(netdev);
        }
        // Nothing that was posted on the device is on its way any more.
        super::engine::flush();
    }
}

#[vtable]
impl Driver for Fake {
    const ID: bindings::rdma_driver_id = bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN;
    const ABI_VERSION: u32 = 1;

    type Ucontext = Absent;
    type Pd = FakePd;
    type Ah = FakeAh;
    type Cq = FakeCq;
    type Qp = FakeQp;
    type Srq = FakeSrq;
    type Mr = FakeMr;
    type Mw = Absent;
    type Xrcd = FakeXrcd;

    fn query_device(device: &Device<Self>, attr: &mut DeviceAttr, _udata: Udata<'_>) -> Result {
        const CAPS: u64 = (bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS
            | bindings::ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN
            | bindings::ib_device_cap_flags_IB_DEVICE_SRQ_RESIZE
            | bindings::ib_device_cap_flags_IB_DEVICE_BAD_PKEY_CNTR)
            as u64;
        let state = &device.state;
        state.script.enter(Op::QUERY_DEVICE, [0; 3])?;
        attr.fw_ver = 1;
        attr.max_mr_size = u64::MAX;
        attr.page_size_cap = 0xffff_f000;
        attr.max_qp = 1 << 16;
        attr.max_qp_wr = 1 << 14;
        attr.device_cap_flags = CAPS;
        attr.kernel_cap_flags = state.config.kernel_cap_flags;
        attr.max_send_sge = super::transfer::MAX_SGE as u32;
        attr.max_recv_sge = super::transfer::MAX_SGE as u32;
        attr.max_sge_rd = super::transfer::MAX_SGE as u32;
        attr.max_cq = 1 << 16;
        attr.max_cqe = 1 << 16;
        attr.max_mr = 1 << 20;
        attr.max_pd = 1 << 16;
        attr.max_qp_rd_atom = 16;
        attr.max_res_rd_atom = 1 << 16;
        attr.max_qp_init_rd_atom = 16;
        attr.atomic_cap = bindings::ib_atomic_cap_IB_ATOMIC_HCA;
        attr.max_mcast_grp = 1 << 10;
        attr.max_mcast_qp_attach = 1 << 6;
        attr.max_total_mcast_qp_attach = 1 << 16;
        attr.max_ah = 1 << 16;
        attr.max_srq = 1 << 12;
        attr.max_srq_wr = 1 << 14;
        attr.max_srq_sge = super::transfer::MAX_SGE as u32;
        attr.max_fast_reg_page_list_len = state.config.max_fast_reg_pages;
        attr.max_pkeys = state.config.pkeys;
        attr.local_ca_ack_delay = 15;
        Ok(())
    }

    fn query_port(device: &Device<Self>, port: u32) -> Result<PortAttr> {
        device
            .state
            .script
            .enter(Op::QUERY_PORT, [port.into(), 0, 0])?;
        device.state.with_port(port, |state| Ok(state.attr.clone()))
    }

    fn port_immutable(device: &Device<Self>, port: u32) -> Result<PortImmutable> {
        let state = &device.state;
        state
            .script
            .enter(Op::GET_PORT_IMMUTABLE, [port.into(), 0, 0])?;
        let protocol = match state.config.protocol {
            Protocol::InfiniBand => PortProtocol::InfiniBand,
            Protocol::Roce => PortProtocol::Roce,
            Protocol::Iwarp => PortProtocol::Iwarp,
        };
        Ok(PortImmutable {
            protocol,
            gid_table_len: state.config.gids,
            pkey_table_len: state.config.pkeys.into(),
            max_mad_size: match state.config.protocol {
                Protocol::Iwarp => 0,
                _ => rdma::mad::wire::MAD_SIZE as u32,
            },
        })
    }

    fn link_layer(device: &Device<Self>, _port: u32) -> LinkLayer {
        match device.state.config.protocol {
            Protocol::InfiniBand => LinkLayer::InfiniBand,
            _ => LinkLayer::Ethernet,
        }
    }

    fn query_gid(device: &Device<Self>, port: u32, index: u32) -> Result<Gid> {
        let state = &device.state;
        state
            .script
            .enter(Op::QUERY_GID, [port.into(), index.into(), 0])?;
        state.with_port(port, |port| {
            port.gids.get(index as usize).copied().ok_or(EINVAL)
        })
    }

    fn add_gid(device: &Device<Self>, gid: &GidAttr) -> Result {
        let (port, index) = (gid.port_num(), gid.index());
        let state = &device.state;
        state
            .script
            .enter(Op::ADD_GID, [port.into(), index.into(), 0])?;
        state.with_port(port, |port| {
            *port.gids.get_mut(index as usize).ok_or(EINVAL)? = gid.gid();
            Ok(())
        })
    }

    fn del_gid(device: &Device<Self>, gid: &GidAttr) -> Result {
        let (port, index) = (gid.port_num(), gid.index());
        let state = &device.state;
        state
            .script
            .note(Op::DEL_GID, [port.into(), index.into(), 0]);
        state.with_port(port, |port| {
            *port.gids.get_mut(index as usize).ok_or(EINVAL)? = Gid::ZERO;
            Ok(())
        })
    }

    fn query_pkey(device: &Device<Self>, port: u32, index: u16) -> Result<Pkey> {
        let state = &device.state;
        state
            .script
            .enter(Op::QUERY_PKEY, [port.into(), index.into(), 0])?;
        state.with_port(port, |port| {
            let pkey = port.pkeys.get(usize::from(index)).ok_or(EINVAL)?;
            Ok(Pkey(*pkey))
        })
    }

    fn modify_device(device: &Device<Self>, change: &DeviceChange) -> Result {
        let mask =
            u64::from(change.system_guid.is_some()) | u64::from(change.node_desc.is_some()) << 1;
        device.state.script.enter(Op::MODIFY_DEVICE, [mask, 0, 0])?;
        if let Some(desc) = &change.node_desc {
            device.set_node_desc(desc);
        }
        Ok(())
    }

    fn modify_port(device: &Device<Self>, port: u32, change: &PortChange) -> Result {
        let state = &device.state;
        let caps = [
            port.into(),
            change.set_capabilities.into(),
            change.clear_capabilities.into(),
        ];
        state.script.enter(Op::MODIFY_PORT, caps)?;
        state.with_port(port, |port| {
            port.attr.capabilities |= change.set_capabilities;
            port.attr.capabilities &= !change.clear_capabilities;
            if change.reset_bad_qkeys {
                port.attr.bad_qkeys = 0;
            }
            Ok(())
        })
    }

    fn enable(device: &Device<Self>) -> Result {
        fabric::add_device(&device.state)?;
        device
            .state
            .script
            .enter(Op::ENABLE_DRIVER, [0; 3])
            .inspect_err(|_| fabric::remove_device(&device.state))
    }

    fn netdev(device: &Device<Self>, port: u32) -> Option<ARef<NetDevice>> {
        let state = &device.state;
        let args = [port.into(), 0, 0];
        state.script.enter(Op::GET_NETDEV, args).ok()?;
        state.with_port(port, |port| Ok(port.netdev.clone())).ok()?
    }

    fn delete_link(device: &Device<Self>) -> Result {
        device.state.script.enter(Op::DELLINK, [0; 3])
    }

    fn process_mad(
        device: &Device<Self>,
        request: &MadRequest<'_>,
        reply: &mut MadReply<'_>,
    ) -> MadOutcome {
        super::mad::ask_agent(&device.state, request, reply)
    }

    fn add_sub_device(
        parent: &Device<Self>,
        _kind: SubDeviceKind,
        name: &CStr,
    ) -> Result<Registration<Self>> {
        parent.state.script.enter(Op::ADD_SUB_DEV, [0; 3])?;
        let config = Config {
            fail: None,
            // A sub-device has none of its own.
            without: parent.state.config.without | WITHOUT_SUB_DEVICES,
            ..parent.state.config
        };
        let name = CString::try_from(name)?;
        let (device, _) = parent.core().with_net(|net| make(net, config))?;
        device.set_sub_device_kind(SubDeviceKind::Smi);
        device.register(&name, None)
    }

    fn del_sub_device(sub_device: Registration<Self>) {
        if let Some(device) = sub_device.get() {
            device.state.script.note(Op::DEL_SUB_DEV, [0; 3]);
        }
        drop(sub_device);
    }
}
