// SPDX-License-Identifier: GPL-2.0

//! RDMA devices written in Rust.
//!
//! A driver is a type that implements [`Driver`]: a value of it lies behind each of its
//! `struct ib_device`. For each kind of object (protection domain, completion queue ...) the
//! driver names a type whose values lie behind the C structures of that kind, and implements the
//! operations on them in a trait of the kind ([`PdOps`], [`CqOps`] ...). What the driver gets to
//! see is the pair: [`Pd<D>`](Pd), [`Cq<D>`](Cq) ... dereference to the driver's part, and
//! [`core()`](Pd::core) is the part that the core owns.
//!
//! The core allocates the objects (memory regions: this module does) and the driver's part is
//! initialised in place, before the core or anybody else sees the object; it is dropped after the
//! driver agreed to destroy it. So a driver's part may be pinned, and it is never moved.
//!
//! A driver that has no objects of some kind names [`Absent`] for it. An optional operation that
//! is not implemented stays a null pointer in the C table, because the core looks at that: it
//! answers `EOPNOTSUPP` on its own, or does the work in another way.
//!
//! Work in the background reaches an object by a [`Handle`], for which the destruction waits.
//!
//! [`NewDevice`] makes a device, [`Registration`] makes it visible.
//!
//! No lock is held when an operation is called, other than those that the description of the
//! operation names. A driver must not hold a spinlock that its operations take while it calls the
//! consumer ([`Cq::complete`], [`Qp::report`] ...), because the consumer may call the driver.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

mod absent;
mod ah;
mod attr;
mod cq;
mod device;
mod driver;
mod handle;
mod link;
mod mad;
mod mr;
mod mw;
mod object;
mod ops;
mod pd;
mod qp;
mod srq;
mod stats;
mod ucontext;
mod udata;
mod wc;
mod wr;
mod xrcd;

pub use absent::Absent;
pub use ah::{Ah, AhOps, NewAh};
pub use attr::{
    DeviceAttr, DeviceChange, LinkWidth, Mtu, PhysState, PortAttr, PortChange, PortImmutable,
    PortProtocol,
};
pub use cq::{Cq, CqEvent, CqOps, CqRequest, NewCq, Notify};
pub use device::{Device, DeviceRef, NewDevice, Registration};
pub use driver::{Driver, SubDeviceKind};
pub use handle::{Handle, HandleGuard};
pub use link::{LinkRegistration, LinkType};
pub use mad::{MadOutcome, MadReply, MadRequest};
pub use mr::{Mr, MrOps, NewMr, Rereg, UserRegion};
pub use mw::{Mw, MwOps, NewMw};
pub use ops::{Op, OpTable};
pub use pd::{NewPd, Pd, PdOps};
pub use qp::{NewQp, Qp, QpEvent, QpOps};
pub use srq::{NewSrq, Srq, SrqChange, SrqEvent, SrqOps};
pub use stats::{PortStats, StatValues};
pub use ucontext::{Ucontext, UcontextOps};
pub use udata::Udata;
pub use wc::{QpTag, Wc, WcOpcode, WcSlots, WcStatus};
pub use wr::{Atomic, BindMw, RecvList, RecvWr, SendFlags, SendList, SendOp, SendWr, Sge, Target};
pub use xrcd::{NewXrcd, Xrcd, XrcdOps};
