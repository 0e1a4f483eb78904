// SPDX-License-Identifier: GPL-2.0

//! The table of a driver's operations, `struct ib_device_ops`.

use super::{
    ah, cq, device, driver, mad, mr, mw, pd, qp, srq, stats, ucontext, xrcd, Ah, AhOps, Cq, CqOps,
    Driver, MrOps, Mw, MwOps, Pd, Qp, QpOps, Srq, SrqOps, Ucontext, UcontextOps, Xrcd, XrcdOps,
};
use crate::sysfs::StaticGroup;
use core::marker::PhantomData;
use kernel::bindings;

/// The operations of a driver, as the core gets them. What the driver does not implement is a null
/// pointer.
pub struct OpTable<D: Driver>(bindings::ib_device_ops, PhantomData<D>);

/// Sets the fields of a table to the shims of the same name, each if its condition holds.
macro_rules! fill {
    ($table:ident: $($has:expr => $module:ident::$field:ident,)*) => {
        $(if $has {
            $table.$field = Some($module::$field::<D>);
        })*
    };
}

impl<D: Driver> OpTable<D> {
    /// The same, with files of the driver in the directory of the device.
    pub fn with_files(mut self, group: &'static StaticGroup) -> Self {
        self.0.device_group = group.as_raw();
        self
    }

    /// All that the driver implements.
    pub fn new() -> Self {
        let mut table: bindings::ib_device_ops = pin_init::zeroed();
        table.owner = device::owner::<D>();
        table.driver_id = D::ID;
        table.uverbs_abi_ver = D::ABI_VERSION;
        table.set_uverbs_no_driver_id_binding(D::BIND_BY_NAME.into());

        fill! { table:
            true => driver::query_device,
            true => driver::query_port,
            true => driver::get_port_immutable,
            D::HAS_LINK_LAYER => driver::get_link_layer,
            D::HAS_QUERY_GID => driver::query_gid,
            D::HAS_ADD_GID => driver::add_gid,
            D::HAS_DEL_GID => driver::del_gid,
            D::HAS_QUERY_PKEY => driver::query_pkey,
            D::HAS_MODIFY_DEVICE => driver::modify_device,
            D::HAS_MODIFY_PORT => driver::modify_port,
            D::HAS_FIRMWARE_VERSION => driver::get_dev_fw_str,
            D::HAS_ENABLE => driver::enable_driver,
            D::HAS_NETDEV => driver::get_netdev,
            true => driver::dealloc_driver,
            D::HAS_PROCESS_MAD => mad::process_mad,
            D::HAS_READ_PORT_STATS => stats::alloc_hw_port_stats,
            D::HAS_READ_PORT_STATS => stats::get_hw_stats,
            D::HAS_ADD_SUB_DEVICE => driver::add_sub_dev,
            D::HAS_ADD_SUB_DEVICE => driver::del_sub_dev,
        }

        if D::Ucontext::HAS_ALLOC {
            table.size_ib_ucontext = Ucontext::<D>::SIZE;
            fill! { table:
                true => ucontext::alloc_ucontext,
                true => ucontext::dealloc_ucontext,
                D::Ucontext::HAS_MMAP => ucontext::mmap,
                D::Ucontext::HAS_DISASSOCIATE => ucontext::disassociate_ucontext,
            }
        }

        table.size_ib_pd = Pd::<D>::SIZE;
        table.size_ib_ah = Ah::<D>::SIZE;
        table.size_ib_cq = Cq::<D>::SIZE;
        table.size_ib_qp = Qp::<D>::SIZE;
        fill! { table:
            true => pd::alloc_pd,
            true => pd::dealloc_pd,

            true => ah::create_ah,
            D::Ah::HAS_MODIFY => ah::modify_ah,
            D::Ah::HAS_QUERY => ah::query_ah,
            true => ah::destroy_ah,

            true => cq::create_cq,
            true => cq::destroy_cq,
            true => cq::poll_cq,
            D::Cq::HAS_PEEK => cq::peek_cq,
            true => cq::req_notify_cq,
            D::Cq::HAS_MODERATE => cq::modify_cq,
            D::Cq::HAS_RESIZE => cq::resize_user_cq,

            true => qp::create_qp,
            true => qp::modify_qp,
            D::Qp::HAS_QUERY => qp::query_qp,
            true => qp::destroy_qp,
            true => qp::post_send,
            true => qp::post_recv,
            D::Qp::HAS_DRAIN_SQ => qp::drain_sq,
            D::Qp::HAS_DRAIN_RQ => qp::drain_rq,
            D::Qp::HAS_ATTACH_MCAST => qp::attach_mcast,
            D::Qp::HAS_DETACH_MCAST => qp::detach_mcast,

            D::Mr::HAS_DMA => mr::get_dma_mr,
            D::Mr::HAS_ALLOC => mr::alloc_mr,
            D::Mr::HAS_REGISTER_USER => mr::reg_user_mr,
            D::Mr::HAS_REGISTER_DMABUF => mr::reg_user_mr_dmabuf,
            D::Mr::HAS_REREGISTER => mr::rereg_user_mr,
            true => mr::dereg_mr,
            D::Mr::HAS_MAP_SG => mr::map_mr_sg,
            D::Mr::HAS_ADVISE => mr::advise_mr,
        }
        if D::Ah::USER {
            table.create_user_ah = Some(ah::create_ah::<D>);
        }

        if D::Srq::HAS_CREATE {
            table.size_ib_srq = Srq::<D>::SIZE;
            fill! { table:
                true => srq::create_srq,
                D::Srq::HAS_MODIFY => srq::modify_srq,
                D::Srq::HAS_QUERY => srq::query_srq,
                true => srq::destroy_srq,
                D::Srq::HAS_POST_RECV => srq::post_srq_recv,
            }
        }

        if D::Mw::HAS_ALLOC {
            table.size_ib_mw = Mw::<D>::SIZE;
            fill! { table:
                true => mw::alloc_mw,
                true => mw::dealloc_mw,
            }
        }

        if D::Xrcd::HAS_ALLOC {
            table.size_ib_xrcd = Xrcd::<D>::SIZE;
            fill! { table:
                true => xrcd::alloc_xrcd,
                true => xrcd::dealloc_xrcd,
            }
        }

        Self(table, PhantomData)
    }

    /// The C table.
    pub(super) fn as_raw(&self) -> *const bindings::ib_device_ops {
        &self.0
    }
}

impl<D: Driver> Default for OpTable<D> {
    fn default() -> Self {
        Self::new()
    }
}

/// Declares the operations that may be left out of a table.
macro_rules! optional {
    ($($(#[$meta:meta])* $op:ident: $($field:ident),*;)*) => {
        /// Operations that a device may lack even though its driver implements them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Op {
            $($(#[$meta])* $op,)*
        }

        impl<D: Driver> OpTable<D> {
            /// Leaves an operation out, for devices that differ in what they can do.
            pub fn without(mut self, op: Op) -> Self {
                match op {
                    $(Op::$op => { $(self.0.$field = None;)* })*
                }
                self
            }
        }
    };
}

optional! {
    /// [`CqOps::peek`].
    PeekCq: peek_cq;
    /// [`CqOps::moderate`].
    ModifyCq: modify_cq;
    /// [`CqOps::resize`].
    ResizeCq: resize_user_cq;
    /// [`AhOps::modify`].
    ModifyAh: modify_ah;
    /// [`AhOps::query`].
    QueryAh: query_ah;
    /// [`QpOps::query`].
    QueryQp: query_qp;
    /// [`QpOps::drain_sq`] and [`QpOps::drain_rq`].
    Drain: drain_sq, drain_rq;
    /// [`QpOps::attach_mcast`] and [`QpOps::detach_mcast`].
    Mcast: attach_mcast, detach_mcast;
    /// All of [`SrqOps`].
    Srq: create_srq, modify_srq, query_srq, destroy_srq, post_srq_recv;
    /// [`SrqOps::modify`].
    ModifySrq: modify_srq;
    /// [`SrqOps::query`].
    QuerySrq: query_srq;
    /// All of [`MwOps`].
    Mw: alloc_mw, dealloc_mw;
    /// All of [`XrcdOps`].
    Xrcd: alloc_xrcd, dealloc_xrcd;
    /// [`MrOps::dma`].
    DmaMr: get_dma_mr;
    /// [`MrOps::alloc`].
    AllocMr: alloc_mr;
    /// [`MrOps::register_user`].
    RegUserMr: reg_user_mr;
    /// [`MrOps::register_dmabuf`].
    RegUserMrDmabuf: reg_user_mr_dmabuf;
    /// [`MrOps::reregister`].
    ReregUserMr: rereg_user_mr;
    /// [`MrOps::map_sg`].
    MapMrSg: map_mr_sg;
    /// [`MrOps::advise`].
    AdviseMr: advise_mr;
    /// [`Driver::process_mad`].
    ProcessMad: process_mad;
    /// [`Driver::modify_device`].
    ModifyDevice: modify_device;
    /// [`Driver::modify_port`].
    ModifyPort: modify_port;
    /// [`Driver::query_gid`].
    QueryGid: query_gid;
    /// [`Driver::query_pkey`].
    QueryPkey: query_pkey;
    /// [`Driver::add_gid`] and [`Driver::del_gid`].
    RoceGids: add_gid, del_gid;
    /// [`Driver::netdev`].
    Netdev: get_netdev;
    /// [`Driver::link_layer`].
    LinkLayer: get_link_layer;
    /// [`Driver::firmware_version`].
    FirmwareVersion: get_dev_fw_str;
    /// [`Driver::read_port_stats`].
    PortStats: alloc_hw_port_stats, get_hw_stats;
    /// [`Driver::add_sub_device`].
    SubDevices: add_sub_dev, del_sub_dev;
}
