// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! The data path writes completions ([`CqCore::push`]) with locks of its own held, and tells the
//! consumer ([`CqCore::notify`]) after it has released them. Between the two the queue remembers
//! that there is something to tell. So a handler may poll the queue and arm it anew; it never runs
//! twice at the same time for one queue.

use crate::{
    abi,
    device::Rxe,
    mmap::{
        self,
        Offer, //
    },
    proto::{
        env::CqOverflow,
        wr::{
            RecvWc,
            SendWc,
            Status,
            WcOp, //
        }, //
    },
    wire::packet::SendEnd, //
};
use kernel::{
    bindings,
    new_mutex,
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SetOnce,
        SpinLockIrq, //
    }, //
};
use rdma::{
    provider::{
        self,
        CqEvent,
        CqOps,
        CqRequest,
        Handle,
        NewCq,
        Notify,
        QpTag,
        Udata,
        Wc,
        WcOpcode,
        WcSlots,
        WcStatus, //
    },
    softirq,
    user_ring::{
        Geometry,
        ReportRing, //
    }, //
};

/// Most entries of a queue.
pub(crate) const MAX_CQE: u32 = 32767;

/// What the consumer learns of a request that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    wr_id: u64,
    status: Status,
    opcode: WcOpcode,
    byte_len: u32,
    end: SendEnd,
    src_qp: u32,
    grh: bool,
    solicited: bool,
    arrival: Option<Arrival>,
}

/// How a received message came, for consumers in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// `RDMA_NETWORK_IPV4` or `RDMA_NETWORK_IPV6`.
    pub(crate) network_type: u8,
    /// The VLAN of the network device.
    pub(crate) vlan: Option<u16>,
}

impl WcOp {
    fn opcode(self) -> WcOpcode {
        match self {
            Self::Send => WcOpcode::Send,
            Self::Write => WcOpcode::RdmaWrite,
            Self::Read => WcOpcode::RdmaRead,
            Self::CompareSwap => WcOpcode::CompareSwap,
            Self::FetchAdd => WcOpcode::FetchAdd,
            Self::AtomicWrite => WcOpcode::AtomicWrite,
            Self::Flush => WcOpcode::Flush,
            Self::RegMr => WcOpcode::RegisterMr,
            Self::LocalInvalidate => WcOpcode::LocalInvalidate,
            Self::BindMw => WcOpcode::BindMw,
        }
    }
}

impl Status {
    fn wc_status(self) -> WcStatus {
        match self {
            Self::Success => WcStatus::Success,
            Self::LocLen => WcStatus::LocalLength,
            Self::LocQpOp => WcStatus::LocalQpOperation,
            Self::LocProt => WcStatus::LocalProtection,
            Self::WrFlush => WcStatus::WorkRequestFlushed,
            Self::MwBind => WcStatus::MwBind,
            Self::BadResp => WcStatus::BadResponse,
            Self::RemInvReq => WcStatus::RemoteInvalidRequest,
            Self::RemAccess => WcStatus::RemoteAccess,
            Self::RemOp => WcStatus::RemoteOperation,
            Self::RetryExc => WcStatus::RetryExceeded,
            Self::RnrRetryExc => WcStatus::RnrRetryExceeded,
            Self::Fatal => WcStatus::Fatal,
        }
    }
}

impl Completion {
    /// Of a request of the send queue.
    pub(crate) fn of_send(wc: &SendWc) -> Self {
        Self {
            wr_id: wc.wr_id,
            status: wc.status,
            opcode: wc.op.opcode(),
            byte_len: wc.byte_len,
            end: SendEnd::Plain,
            src_qp: 0,
            grh: false,
            solicited: false,
            arrival: None,
        }
    }

    /// Of a receive request.
    pub(crate) fn of_recv(wc: &RecvWc, arrival: Option<Arrival>) -> Self {
        Self {
            wr_id: wc.wr_id,
            status: wc.status,
            opcode: if wc.by_write {
                WcOpcode::RecvRdmaWithImm
            } else {
                WcOpcode::Recv
            },
            byte_len: wc.byte_len,
            end: wc.end,
            src_qp: wc.src_qp,
            grh: wc.grh,
            solicited: wc.solicited,
            arrival,
        }
    }

    /// Whether a consumer that waits for solicited ones only is to be told.
    fn is_solicited(&self) -> bool {
        self.solicited || self.status != Status::Success
    }

    /// The entry for user space.
    fn to_user(self, qpn: u32) -> abi::Cqe {
        let (ex, ex_flag) = match self.end {
            SendEnd::Plain => (0, 0),
            SendEnd::Imm(imm) => (
                u32::from_ne_bytes(imm.0),
                bindings::ib_wc_flags_IB_WC_WITH_IMM,
            ),
            SendEnd::Invalidate(key) => (key.0, bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE),
        };
        let grh_flag = if self.grh {
            bindings::ib_wc_flags_IB_WC_GRH
        } else {
            0
        };
        abi::Cqe {
            wr_id: self.wr_id,
            status: self.status.wc_status() as u32,
            opcode: self.opcode as u32,
            vendor_err: 0,
            byte_len: self.byte_len,
            ex,
            qp_num: qpn,
            src_qp: self.src_qp,
            flags: ex_flag | grh_flag,
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
            port_num: 1,
            reserved: 0,
        }
    }

    /// The entry for a consumer in the kernel.
    fn to_kernel(self, qp: QpTag) -> Wc {
        let mut wc = Wc::new(self.wr_id, qp, self.opcode, self.status.wc_status())
            .len(self.byte_len)
            .source_qp(self.src_qp)
            .port(1);
        wc = match self.end {
            SendEnd::Plain => wc,
            SendEnd::Imm(imm) => wc.imm_data(u32::from_ne_bytes(imm.0)),
            SendEnd::Invalidate(key) => wc.invalidated(key.0),
        };
        if self.grh {
            wc = wc.grh();
        }
        if let Some(arrival) = self.arrival {
            wc = wc.network_type(arrival.network_type);
            if let Some(vlan) = arrival.vlan {
                wc = wc.vlan(vlan);
            }
        }
        wc
    }
}

/// The queue pair that a completion names.
#[derive(Clone, Copy)]
pub(crate) struct QpName {
    /// To consumers in user space.
    pub(crate) number: u32,
    /// To consumers in the kernel.
    pub(crate) tag: QpTag,
}

/// When the consumer is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Arm {
    Never,
    Solicited,
    Next,
}

/// Entries of a queue in the kernel.
struct KernelRing<T> {
    slots: KVVec<T>,
    first: usize,
    used: usize,
    capacity: usize,
}

impl<T: Copy> KernelRing<T> {
    fn new(entries: u32) -> Result<Self> {
        let capacity = entries as usize;
        Ok(Self {
            slots: KVVec::with_capacity(capacity, GFP_KERNEL)?,
            first: 0,
            used: 0,
            capacity,
        })
    }

    fn push(&mut self, entry: T) -> Result<(), CqOverflow> {
        if self.used >= self.capacity {
            return Err(CqOverflow);
        }
        let at = self.first.wrapping_add(self.used) % self.capacity.max(1);
        match self.slots.get_mut(at) {
            Some(slot) => *slot = entry,
            // The slots are used one after another, so this is the next one.
            None => self
                .slots
                .push_within_capacity(entry)
                .map_err(|_| CqOverflow)?,
        }
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// Moves the entries to `other`, which is empty, and changes places with it; `EINVAL` if they do
    /// not fit.
    fn change_places(&mut self, other: &mut Self) -> Result {
        if self.used > other.capacity {
            return Err(EINVAL);
        }
        while let Some(entry) = self.pop() {
            other.push(entry).map_err(|_| EINVAL)?;
        }
        core::mem::swap(self, other);
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        let entry = *self.slots.get(self.first).filter(|_| self.used > 0)?;
        self.first = self.first.wrapping_add(1) % self.capacity.max(1);
        self.used = self.used.saturating_sub(1);
        Some(entry)
    }
}

enum Entries {
    User(ReportRing),
    Kernel(KernelRing<Wc>),
}

struct State {
    entries: Entries,
    arm: Arm,
    /// The consumer is to be told.
    due: bool,
    /// Somebody is telling it.
    telling: bool,
}

/// What of a completion queue the data path holds.
#[pin_data]
pub(crate) struct CqCore {
    #[pin]
    state: SpinLockIrq<State>,
    /// The way to the consumer, once the queue is complete.
    consumer: SetOnce<Handle<provider::Cq<Rxe>>>,
}

impl CqCore {
    /// Adds a completion. Any context. Says whether [`Self::notify`] is to be called, when the
    /// caller has released its locks.
    ///
    /// If there is no room the completion is lost, and [`Self::report_overflow`] is to be called.
    pub(crate) fn push(&self, completion: Completion, qp: QpName) -> Result<bool, CqOverflow> {
        let mut state = self.state.lock();
        match &mut state.entries {
            Entries::User(ring) => ring
                .push(&completion.to_user(qp.number))
                .map_err(|_| CqOverflow)?,
            Entries::Kernel(ring) => ring.push(completion.to_kernel(qp.tag))?,
        }
        let tell = match state.arm {
            Arm::Never => false,
            Arm::Solicited => completion.is_solicited(),
            Arm::Next => true,
        };
        if tell {
            state.arm = Arm::Never;
            state.due = true;
        }
        Ok(state.due)
    }

    /// Calls the consumer's handler if it is due. The caller holds no lock, and interrupts are
    /// enabled.
    pub(crate) fn notify(&self) {
        loop {
            let mut state = self.state.lock();
            if !state.due || state.telling {
                // Who is telling looks again.
                return;
            }
            state.due = false;
            state.telling = true;
            drop(state);
            // Handlers raise softirqs, which run at once this way.
            let softirqs = softirq::disable();
            self.with_consumer(|cq| cq.complete());
            drop(softirqs);
            self.state.lock().telling = false;
        }
    }

    /// Tells the consumer that a completion was lost. The caller holds no lock.
    pub(crate) fn report_overflow(&self) {
        self.with_consumer(|cq| cq.report(CqEvent::Error));
    }

    /// Calls `f` if the queue is still there.
    fn with_consumer(&self, f: impl FnOnce(&provider::Cq<Rxe>)) {
        if let Some(cq) = self.consumer.as_ref().and_then(Handle::get) {
            f(&cq);
        }
    }

    fn used(&self) -> u32 {
        match &self.state.lock().entries {
            Entries::User(ring) => ring.used(),
            Entries::Kernel(ring) => ring.used as u32,
        }
    }
}

/// A completion queue.
pub(crate) struct Cq {
    core: Arc<CqCore>,
    /// The ring's cookie, of a queue of user space.
    offer: Pin<KBox<Mutex<Option<Offer>>>>,
}

/// Room for `entries` completions of user space. `EINVAL` for none or too many.
fn user_ring(entries: u32) -> Result<ReportRing> {
    check_entries(entries)?;
    let geometry = Geometry::new(entries, abi::CQE_SLOT).ok_or(EINVAL)?;
    ReportRing::new(geometry)
}

fn check_entries(entries: u32) -> Result {
    if entries == 0 || entries > MAX_CQE {
        return Err(EINVAL);
    }
    Ok(())
}

impl Cq {
    /// What the data path holds.
    pub(crate) fn inner(&self) -> &Arc<CqCore> {
        &self.core
    }

    fn new(
        device: &provider::Device<Rxe>,
        cq: NewCq<'_>,
        request: &CqRequest,
        udata: Udata<'_>,
    ) -> Result<Self> {
        if request.flags != 0 {
            return Err(EOPNOTSUPP);
        }
        check_entries(request.entries)?;
        if request.vector as i32 >= device.core().num_comp_vectors() {
            return Err(EINVAL);
        }
        let (entries, offer) = if udata.is_user() {
            if udata.output_len() < size_of::<abi::CqResponse>() {
                return Err(EINVAL);
            }
            let ring = user_ring(request.entries)?;
            let offer = mmap::maps_of(udata)?.offer(ring.pages())?;
            cq.set_entries(ring.geometry().capacity());
            (Entries::User(ring), Some(offer))
        } else {
            // As many as a ring in shared memory would have.
            let geometry = Geometry::new(request.entries, abi::CQE_SLOT).ok_or(EINVAL)?;
            cq.set_entries(geometry.capacity());
            (Entries::Kernel(KernelRing::new(geometry.capacity())?), None)
        };
        let state = State {
            entries,
            arm: Arm::Never,
            due: false,
            telling: false,
        };
        let core = Arc::pin_init(
            pin_init!(CqCore {
                state <- new_spinlock_irq!(state, "rxe_cq"),
                consumer: SetOnce::new(),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            core,
            offer: KBox::pin_init(new_mutex!(offer, "rxe_cq_offer"), GFP_KERNEL)?,
        })
    }

    /// Replaces the entries of a queue in the kernel by others of another number.
    fn replace_entries(&self, entries: u32) -> Result<u32> {
        check_entries(entries)?;
        let geometry = Geometry::new(entries, abi::CQE_SLOT).ok_or(EINVAL)?;
        let mut fresh = KernelRing::new(geometry.capacity())?;
        let mut state = self.core.state.lock();
        let Entries::Kernel(ring) = &mut state.entries else {
            return Err(EINVAL);
        };
        let result = ring.change_places(&mut fresh);
        // The old entries go after unlock.
        drop(state);
        result.map(|()| geometry.capacity())
    }

    /// Replaces the ring by one of another size.
    fn replace_ring(&self, entries: u32, udata: Udata<'_>) -> Result<u32> {
        let mut fresh = user_ring(entries)?;
        let geometry = fresh.geometry();
        let new_offer = mmap::maps_of(udata)?.offer(fresh.pages())?;
        let mut offer = self.offer.lock();
        udata.respond(&new_offer.info())?;
        let mut state = self.core.state.lock();
        let Entries::User(ring) = &mut state.entries else {
            return Err(EINVAL);
        };
        ring.change_places(&mut fresh)?;
        drop(state);
        *offer = Some(new_offer);
        Ok(geometry.capacity())
    }
}

#[vtable]
impl CqOps<Rxe> for Cq {
    type OwnerModule = crate::LocalModule;

    fn create(
        device: &provider::Device<Rxe>,
        cq: NewCq<'_>,
        request: &CqRequest,
        udata: Udata<'_>,
    ) -> impl PinInit<Self, Error> {
        Self::new(device, cq, request, udata)
    }

    fn created(this: &provider::Cq<Rxe>, udata: Udata<'_>) -> Result {
        if let Some(offer) = &*this.offer.lock() {
            udata.respond(&offer.info())?;
        }
        this.core.consumer.populate(this.handle()?);
        Ok(())
    }

    fn poll(this: &provider::Cq<Rxe>, slots: &mut WcSlots<'_>) -> Result {
        let mut state = this.core.state.lock();
        let Entries::Kernel(ring) = &mut state.entries else {
            // User space takes its completions from the ring.
            return Err(EINVAL);
        };
        while slots.room() > 0 {
            let Some(wc) = ring.pop() else { break };
            if !slots.push(&wc) {
                break;
            }
        }
        Ok(())
    }

    fn peek(this: &provider::Cq<Rxe>, limit: u32) -> Result<u32> {
        Ok(this.core.used().min(limit))
    }

    fn request_notify(this: &provider::Cq<Rxe>, notify: Notify) -> Result<bool> {
        let arm = if notify.solicited_only {
            Arm::Solicited
        } else {
            Arm::Next
        };
        let mut state = this.core.state.lock();
        state.arm = state.arm.max(arm);
        let empty = match &state.entries {
            Entries::User(ring) => ring.used() == 0,
            Entries::Kernel(ring) => ring.used == 0,
        };
        Ok(notify.report_missed && !empty)
    }

    fn resize(this: &provider::Cq<Rxe>, entries: u32, udata: Udata<'_>) -> Result {
        let entries = if udata.is_user() {
            if udata.output_len() < size_of::<abi::CqResponse>() {
                return Err(EINVAL);
            }
            this.replace_ring(entries, udata)?
        } else {
            this.replace_entries(entries)?
        };
        this.set_entries(entries);
        Ok(())
    }
}

#[kunit_tests(rust_rxe_cq)]
mod tests {
    use super::*;

    #[test]
    fn ring_is_bounded_and_in_order() -> Result {
        let mut ring = KernelRing::new(3)?;
        assert_eq!(ring.pop(), None);
        for round in 0..5u64 {
            for i in 0..3 {
                assert!(ring.push(round * 3 + i).is_ok());
            }
            assert!(ring.push(99).is_err());
            for i in 0..3 {
                assert_eq!(ring.pop(), Some(round * 3 + i));
            }
            // Start the next round at another slot.
            assert!(ring.push(7).is_ok());
            assert_eq!(ring.pop(), Some(7));
            assert_eq!(ring.pop(), None);
        }
        Ok(())
    }

    #[test]
    fn resize_keeps_entries() -> Result {
        let mut ring = KernelRing::new(3)?;
        for i in 0..4u64 {
            assert!(ring.push(i).is_ok());
            if i == 0 {
                ring.pop();
            }
        }
        assert!(ring.change_places(&mut KernelRing::new(2)?).is_err());
        ring.change_places(&mut KernelRing::new(5)?)?;
        assert!(ring.push(4).is_ok());
        assert!(ring.push(5).is_ok());
        assert!(ring.push(6).is_err());
        for i in 1..6 {
            assert_eq!(ring.pop(), Some(i));
        }
        assert_eq!(ring.pop(), None);
        Ok(())
    }

    #[test]
    fn arming_keeps_the_stronger_wish() {
        assert_eq!(Arm::Next.max(Arm::Solicited), Arm::Next);
        assert_eq!(Arm::Never.max(Arm::Solicited), Arm::Solicited);
    }
}
