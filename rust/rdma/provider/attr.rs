// SPDX-License-Identifier: GPL-2.0

//! What a driver tells of its device and its ports.

use crate::port::PortState;
use kernel::bindings;

/// Attributes of a device: limits and capabilities, as numbers.
pub type DeviceAttr = bindings::ib_device_attr;

/// Largest payload of a packet on a path (IBTA, encoding of `MTU`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Mtu {
    /// 256 bytes.
    B256 = bindings::ib_mtu_IB_MTU_256,
    /// 512 bytes.
    B512 = bindings::ib_mtu_IB_MTU_512,
    /// 1024 bytes.
    B1024 = bindings::ib_mtu_IB_MTU_1024,
    /// 2048 bytes.
    B2048 = bindings::ib_mtu_IB_MTU_2048,
    /// 4096 bytes.
    B4096 = bindings::ib_mtu_IB_MTU_4096,
}

impl Mtu {
    const ALL: [Self; 5] = [
        Self::B4096,
        Self::B2048,
        Self::B1024,
        Self::B512,
        Self::B256,
    ];

    /// From the encoding.
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| *mtu as u32 == raw)
    }

    /// The largest one that fits in `bytes`.
    pub fn fitting(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.bytes() <= bytes)
    }

    /// Bytes.
    pub const fn bytes(self) -> u32 {
        128 << (self as u32)
    }
}

/// Number of lanes of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LinkWidth {
    /// One.
    X1 = bindings::ib_port_width_IB_WIDTH_1X as u8,
    /// Two.
    X2 = bindings::ib_port_width_IB_WIDTH_2X as u8,
    /// Four.
    X4 = bindings::ib_port_width_IB_WIDTH_4X as u8,
    /// Eight.
    X8 = bindings::ib_port_width_IB_WIDTH_8X as u8,
    /// Twelve.
    X12 = bindings::ib_port_width_IB_WIDTH_12X as u8,
}

impl LinkWidth {
    /// From the number of C.
    pub fn from_raw(raw: u8) -> Option<Self> {
        [Self::X1, Self::X2, Self::X4, Self::X8, Self::X12]
            .into_iter()
            .find(|width| *width as u8 == raw)
    }
}

/// State of the physical link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PhysState {
    /// Asleep.
    Sleep = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_SLEEP as u8,
    /// Looks for a partner.
    Polling = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_POLLING as u8,
    /// Switched off.
    Disabled = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED as u8,
    /// Agrees with its partner.
    Training = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING as u8,
    /// Up.
    LinkUp = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP as u8,
    /// Recovers from an error.
    Recovery = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_ERROR_RECOVERY as u8,
    /// Is tested.
    Test = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_PHY_TEST as u8,
}

impl PhysState {
    /// From the number of C.
    pub fn from_raw(raw: u8) -> Option<Self> {
        [
            Self::Sleep,
            Self::Polling,
            Self::Disabled,
            Self::Training,
            Self::LinkUp,
            Self::Recovery,
            Self::Test,
        ]
        .into_iter()
        .find(|state| *state as u8 == raw)
    }
}

/// What a driver tells of a port. The core gives no default: see [`PortAttr::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttr {
    /// State of the port, `IB_PORT_*`.
    pub state: u32,
    /// Largest MTU that it can have.
    pub max_mtu: Mtu,
    /// The MTU that it has.
    pub active_mtu: Mtu,
    /// The MTU of the link in bytes, if that is not one of [`Mtu`]; else 0.
    pub phys_mtu: u32,
    /// Number of GIDs.
    pub gid_table_len: u32,
    /// GIDs are derived from IP addresses.
    pub ip_gids: bool,
    /// Capabilities, as in PortInfo.CapabilityMask.
    pub capabilities: u32,
    /// More of them, as in PortInfo.CapabilityMask2.
    pub capabilities2: u16,
    /// Longest message in bytes.
    pub max_message: u32,
    /// Packets with a bad partition key.
    pub bad_pkeys: u32,
    /// Datagrams with a bad queue key.
    pub bad_qkeys: u32,
    /// Number of partition keys.
    pub pkey_table_len: u16,
    /// LID of the port; 0 without one.
    pub lid: u32,
    /// So many low bits of the LID are free.
    pub lmc: u8,
    /// LID of the subnet manager.
    pub sm_lid: u32,
    /// Service level to the subnet manager.
    pub sm_sl: u8,
    /// Number of virtual lanes, encoded.
    pub max_vl: u8,
    /// Response time of the subnet, as an exponent of 4.096 us.
    pub subnet_timeout: u8,
    /// The subnet manager's answer to the wanted kind of initialisation.
    pub init_type_reply: u8,
    /// Lanes.
    pub width: LinkWidth,
    /// Speed of a lane, `IB_SPEED_*`.
    pub speed: u16,
    /// State of the link.
    pub phys_state: PhysState,
    /// Upper half of the GIDs of an InfiniBand port. The core fills it in from the first GID if the
    /// driver leaves it 0.
    pub subnet_prefix: u64,
}

impl PortAttr {
    /// A port that is down: one GID, one partition key, a 1X link of the slowest speed.
    pub const fn new() -> Self {
        Self {
            state: bindings::ib_port_state_IB_PORT_DOWN,
            max_mtu: Mtu::B4096,
            active_mtu: Mtu::B256,
            phys_mtu: 0,
            gid_table_len: 1,
            ip_gids: false,
            capabilities: 0,
            capabilities2: 0,
            max_message: 1 << 31,
            bad_pkeys: 0,
            bad_qkeys: 0,
            pkey_table_len: 1,
            lid: 0,
            lmc: 0,
            sm_lid: 0,
            sm_sl: 0,
            max_vl: 1,
            subnet_timeout: 0,
            init_type_reply: 0,
            width: LinkWidth::X1,
            speed: bindings::ib_port_speed_IB_SPEED_SDR as u16,
            phys_state: PhysState::Polling,
            subnet_prefix: 0,
        }
    }

    /// Sets the state.
    pub fn set_state(&mut self, state: PortState) {
        self.state = state.0;
    }

    /// From the C structure; `EINVAL` if an MTU, the width or the state of the link is none.
    pub fn read(from: &bindings::ib_port_attr) -> kernel::error::Result<Self> {
        use kernel::error::code::EINVAL;
        Ok(Self {
            state: from.state,
            max_mtu: Mtu::from_raw(from.max_mtu).ok_or(EINVAL)?,
            active_mtu: Mtu::from_raw(from.active_mtu).ok_or(EINVAL)?,
            phys_mtu: from.phys_mtu,
            gid_table_len: from.gid_tbl_len.try_into().map_err(|_| EINVAL)?,
            ip_gids: from.ip_gids() != 0,
            capabilities: from.port_cap_flags,
            capabilities2: from.port_cap_flags2,
            max_message: from.max_msg_sz,
            bad_pkeys: from.bad_pkey_cntr,
            bad_qkeys: from.qkey_viol_cntr,
            pkey_table_len: from.pkey_tbl_len,
            lid: from.lid,
            lmc: from.lmc,
            sm_lid: from.sm_lid,
            sm_sl: from.sm_sl,
            max_vl: from.max_vl_num,
            subnet_timeout: from.subnet_timeout,
            init_type_reply: from.init_type_reply,
            width: LinkWidth::from_raw(from.active_width).ok_or(EINVAL)?,
            speed: from.active_speed,
            phys_state: PhysState::from_raw(from.phys_state).ok_or(EINVAL)?,
            subnet_prefix: from.subnet_prefix,
        })
    }

    /// Fills in the C structure.
    pub fn write(&self, to: &mut bindings::ib_port_attr) {
        to.subnet_prefix = self.subnet_prefix;
        to.state = self.state;
        to.max_mtu = self.max_mtu as u32;
        to.active_mtu = self.active_mtu as u32;
        to.phys_mtu = self.phys_mtu;
        to.gid_tbl_len = self.gid_table_len.try_into().unwrap_or(i32::MAX);
        to.set_ip_gids(self.ip_gids.into());
        to.port_cap_flags = self.capabilities;
        to.port_cap_flags2 = self.capabilities2;
        to.max_msg_sz = self.max_message;
        to.bad_pkey_cntr = self.bad_pkeys;
        to.qkey_viol_cntr = self.bad_qkeys;
        to.pkey_tbl_len = self.pkey_table_len;
        to.sm_lid = self.sm_lid;
        to.lid = self.lid;
        to.lmc = self.lmc;
        to.max_vl_num = self.max_vl;
        to.sm_sl = self.sm_sl;
        to.subnet_timeout = self.subnet_timeout;
        to.init_type_reply = self.init_type_reply;
        to.active_width = self.width as u8;
        to.active_speed = self.speed;
        to.phys_state = self.phys_state as u8;
    }
}

impl Default for PortAttr {
    fn default() -> Self {
        Self::new()
    }
}

/// What a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortProtocol {
    /// InfiniBand, with a subnet manager and a subnet administrator.
    InfiniBand,
    /// RoCE of version 1 only.
    RoceV1,
    /// RoCE of version 2 only.
    RoceV2,
    /// RoCE of both versions.
    Roce,
    /// iWARP.
    Iwarp,
    /// Raw Ethernet packets only.
    RawPacket,
    /// The bits themselves, `RDMA_CORE_CAP_*`.
    Caps(u32),
}

impl PortProtocol {
    /// The bits, `RDMA_CORE_CAP_*`.
    pub const fn caps(self) -> u32 {
        const MANAGED: u32 = bindings::RDMA_CORE_CAP_IB_MAD
            | bindings::RDMA_CORE_CAP_IB_CM
            | bindings::RDMA_CORE_CAP_AF_IB;
        const ROCE: u32 = MANAGED | bindings::RDMA_CORE_CAP_ETH_AH;
        match self {
            Self::InfiniBand => {
                MANAGED
                    | bindings::RDMA_CORE_CAP_PROT_IB
                    | bindings::RDMA_CORE_CAP_IB_SMI
                    | bindings::RDMA_CORE_CAP_IB_SA
            }
            Self::RoceV1 => ROCE | bindings::RDMA_CORE_CAP_PROT_ROCE,
            Self::RoceV2 => ROCE | bindings::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP,
            Self::Roce => {
                ROCE | bindings::RDMA_CORE_CAP_PROT_ROCE
                    | bindings::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP
            }
            Self::Iwarp => bindings::RDMA_CORE_CAP_PROT_IWARP | bindings::RDMA_CORE_CAP_IW_CM,
            Self::RawPacket => bindings::RDMA_CORE_CAP_PROT_RAW_PACKET,
            Self::Caps(bits) => bits,
        }
    }
}

/// What never changes about a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortImmutable {
    /// What it speaks.
    pub protocol: PortProtocol,
    /// Number of GIDs.
    pub gid_table_len: u32,
    /// Number of partition keys.
    pub pkey_table_len: u32,
    /// Bytes of a management datagram; 0 without them.
    pub max_mad_size: u32,
}

impl PortImmutable {
    pub(super) fn write(&self, to: &mut bindings::ib_port_immutable) {
        to.core_cap_flags = self.protocol.caps();
        to.gid_tbl_len = self.gid_table_len.try_into().unwrap_or(i32::MAX);
        to.pkey_tbl_len = self.pkey_table_len.try_into().unwrap_or(i32::MAX);
        to.max_mad_size = self.max_mad_size;
    }
}

/// What an administrator wants to change of a device.
pub struct DeviceChange {
    /// The GUID of the system, in host order.
    pub system_guid: Option<u64>,
    /// The description of the node, not terminated if it is that long.
    pub node_desc: Option<[u8; bindings::IB_DEVICE_NODE_DESC_MAX as usize]>,
}

impl DeviceChange {
    /// # Safety
    ///
    /// `modify` must be valid.
    pub(super) unsafe fn from_raw(mask: i32, modify: *const bindings::ib_device_modify) -> Self {
        let has = |flag: bindings::ib_device_modify_flags| mask as u32 & flag != 0;
        // SAFETY: By the contract of this function; the array is one of bytes.
        unsafe {
            Self {
                system_guid: has(bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_SYS_IMAGE_GUID)
                    .then(|| (*modify).sys_image_guid),
                node_desc: has(bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC)
                    .then(|| (&raw const (*modify).node_desc).cast::<[u8; 64]>().read()),
            }
        }
    }
}

/// What the core wants to change of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortChange {
    /// Bits of [`PortAttr::capabilities`] to be set.
    pub set_capabilities: u32,
    /// Bits to be cleared.
    pub clear_capabilities: u32,
    /// The wanted kind of initialisation, if the port is to be initialised.
    pub init_type: Option<u8>,
    /// The link is to be shut down.
    pub shutdown: bool,
    /// The counter of bad queue keys is to be cleared.
    pub reset_bad_qkeys: bool,
}

impl PortChange {
    /// # Safety
    ///
    /// `modify` must be valid.
    pub(super) unsafe fn from_raw(mask: i32, modify: *const bindings::ib_port_modify) -> Self {
        let has = |flag: bindings::ib_port_modify_flags| mask as u32 & flag != 0;
        // SAFETY: By the contract of this function.
        let modify = unsafe { modify.read() };
        Self {
            set_capabilities: modify.set_port_cap_mask,
            clear_capabilities: modify.clr_port_cap_mask,
            init_type: has(bindings::ib_port_modify_flags_IB_PORT_INIT_TYPE)
                .then_some(modify.init_type),
            shutdown: has(bindings::ib_port_modify_flags_IB_PORT_SHUTDOWN),
            reset_bad_qkeys: has(bindings::ib_port_modify_flags_IB_PORT_RESET_QKEY_CNTR),
        }
    }
}
