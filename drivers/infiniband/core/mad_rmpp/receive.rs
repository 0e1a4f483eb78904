// SPDX-License-Identifier: GPL-2.0

//! The receiving side of a transfer.
//!
//! Lock order: an agent's sends, its transfers, the progress of one transfer.

use super::{
    abort_peer,
    Template, //
};
use crate::mad::{
    agent::{
        Agent,
        Lease, //
    },
    flight::SendMad,
};
use kernel::{
    list::{
        impl_list_arc_safe,
        impl_list_item,
        List,
        ListArc,
        ListLinks, //
    },
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    },
    time::msecs_to_jiffies,
    workqueue::{
        impl_has_delayed_work,
        new_delayed_work,
        DelayedWork,
        WorkItem, //
    },
};
use rdma::{
    mad::{
        recv::RecvChain,
        verbs::Ah,
        wire::{
            method,
            Class,
            Header,
            RmppHeader,
            RmppStatus,
            RmppType,
            MAD_SIZE,
            OPA_BASE_VERSION,
            OPA_MAD_SIZE, //
        }, //
    },
    workqueue, //
};

/// A transfer may take that long, in milliseconds.
const TOTAL_TIMEOUT_MS: u32 = 40_000;
/// So long a whole transfer is remembered, to acknowledge late repetitions.
const MEMORY_MS: u32 = 10_000;

/// What tells a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    tid: u64,
    source_qp: u32,
    slid: u32,
    class: Class,
    class_version: u8,
    method: u8,
}

impl Key {
    fn of(chain: &RecvChain, header: &Header) -> Self {
        let wc = chain.completion().raw();
        Self {
            tid: header.tid,
            source_qp: wc.src_qp,
            slid: wc.slid,
            class: header.class,
            class_version: header.class_version,
            method: header.method,
        }
    }
}

/// How far a transfer is.
enum Phase {
    /// Segments are missing.
    Active(RecvChain),
    /// The client has it.
    Complete,
    /// Too slow.
    Over,
}

struct Progress {
    phase: Phase,
    /// Last segment before the first gap.
    segment: u32,
    /// Last segment acknowledged.
    acked: u32,
    /// Last segment that may come.
    window: u32,
    /// Window that the peer opened for the answer.
    reply_window: u32,
}

/// A transfer that is being received, or was lately.
#[pin_data]
struct Reassembly {
    key: Key,
    base_version: u8,
    ah: Arc<Ah>,
    agent: Arc<Agent>,
    #[pin]
    progress: SpinLockIrq<Progress>,
    /// Ends an active transfer, forgets a complete one.
    #[pin]
    timer: DelayedWork<Reassembly>,
    #[pin]
    links: ListLinks,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Reassembly { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Reassembly { using ListLinks { self.links }; }
}
impl_has_delayed_work! {
    impl HasDelayedWork<Reassembly> for Reassembly { self.timer }
}

/// The transfers that an agent receives.
pub(crate) struct Transfers {
    list: List<Reassembly>,
}

impl Transfers {
    /// None.
    pub(crate) fn new() -> Self {
        Self { list: List::new() }
    }

    fn find(&self, key: &Key) -> Option<Arc<Reassembly>> {
        self.list
            .iter()
            .find(|transfer| transfer.key == *key)
            .map(Arc::from)
    }

    fn has(&self, transfer: &Reassembly) -> bool {
        self.list
            .iter()
            .any(|listed| core::ptr::eq(&*listed, transfer))
    }

    fn take(&mut self, transfer: &Reassembly) -> Option<ListArc<Reassembly>> {
        let mut cursor = self.list.cursor_front();
        while let Some(next) = cursor.peek_next() {
            if core::ptr::eq(&*next.arc(), transfer) {
                return Some(next.remove());
            }
            cursor.move_next();
        }
        None
    }
}

impl WorkItem for Reassembly {
    type Pointer = Arc<Reassembly>;

    fn run(this: Arc<Reassembly>) {
        let owned = {
            let mut transfers = this.agent.transfers().lock();
            let Some(owned) = transfers.take(&this) else {
                return;
            };
            // The last segment may have come just now and have armed it again.
            workqueue::cancel_delayed::<_, 0>(&this);
            owned
        };
        let phase = core::mem::replace(&mut owned.progress.lock().phase, Phase::Over);
        if let (Phase::Active(chain), Some(lease)) = (phase, Lease::new(&this.agent)) {
            abort_peer(&lease, &chain, RmppStatus::T2L);
        }
    }
}

impl Reassembly {
    fn new(
        lease: &Lease,
        chain: &RecvChain,
        header: &Header,
        progress: Progress,
    ) -> Result<ListArc<Self>> {
        let ah = Arc::new(chain.reply_ah(lease.head())?, GFP_KERNEL)?;
        ListArc::pin_init(
            try_pin_init!(Self {
                key: Key::of(chain, header),
                base_version: header.base_version,
                ah,
                agent: lease.agent().clone(),
                progress <- new_spinlock_irq!(progress),
                timer <- new_delayed_work!(),
                links <- ListLinks::new(),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Runs the timer in so many milliseconds, unless the transfer was forgotten meanwhile.
    fn arm(this: &Arc<Self>, delay_ms: u32) {
        let delay = msecs_to_jiffies(delay_ms);
        // Locked, as whoever takes a transfer off the list stops its timer.
        let transfers = this.agent.transfers().lock();
        if transfers.has(this) {
            this.agent
                .port()
                .queue()
                .reschedule::<_, 0>(this.clone(), delay);
        }
    }

    /// Acknowledges what has come, and tells the window. May sleep.
    fn acknowledge(&self, lease: &Lease, template: Option<Template>) {
        let Some(template) = template else {
            return;
        };
        let (segment, window) = {
            let mut progress = self.progress.lock();
            progress.acked = progress.segment;
            (progress.segment, progress.window)
        };
        let _ = template.send(lease.clone(), self.ah.clone(), |rmpp| {
            rmpp.kind = RmppType::Ack;
            rmpp.segment = segment;
            rmpp.paylen_newwin = window;
        });
    }

    /// Length of the whole, without repeated headers. `last` is the header of the
    /// last segment.
    fn total_len(&self, segments: u32, last: &RmppHeader) -> usize {
        let opa = self.agent.port().is_opa() && self.base_version == OPA_BASE_VERSION;
        let mad_size = if opa { OPA_MAD_SIZE } else { MAD_SIZE };
        let header = self.key.class.data_offset();
        let room = mad_size - RmppHeader::END;
        let padding = room.saturating_sub(last.paylen_newwin as usize);
        (segments as usize)
            .saturating_mul(mad_size - header)
            .saturating_add(header)
            .saturating_sub(padding)
    }

    /// All segments are there.
    fn complete(
        this: &Arc<Self>,
        lease: &Lease,
        template: Option<Template>,
        mut chain: RecvChain,
        segments: u32,
        last: &RmppHeader,
    ) -> RecvChain {
        this.acknowledge(lease, template);
        chain.set_len(this.total_len(segments, last));
        Self::arm(this, MEMORY_MS);
        chain
    }
}

/// Segments by which a window moves: an eighth of the receive queue.
fn window_size(lease: &Lease) -> u32 {
    (lease.port().receive_size() / 8).max(1)
}

/// The first segment of a transfer. Returns the transfer if it is the last one,
/// too. May sleep.
pub(super) fn start(
    lease: &Lease,
    chain: RecvChain,
    header: &Header,
    rmpp: &RmppHeader,
) -> Option<RecvChain> {
    let template = Template::of(&chain);
    let is_last = rmpp.has(RmppHeader::LAST);
    let progress = Progress {
        phase: Phase::Complete,
        segment: 1,
        acked: 0,
        window: if is_last {
            1
        } else {
            window_size(lease).saturating_add(1)
        },
        reply_window: 1,
    };
    let transfer = Reassembly::new(lease, &chain, header, progress).ok()?;
    let this = transfer.clone_arc();

    let mut transfers = lease.transfers().lock();
    if transfers.find(&this.key).is_some() {
        drop(transfers);
        // A repetition. The handle of the new object is destroyed without a lock.
        drop(transfer);
        drop(this);
        return proceed(lease, chain, header, rmpp);
    }
    let whole = if is_last {
        Some(chain)
    } else {
        this.progress.lock().phase = Phase::Active(chain);
        None
    };
    transfers.list.push_back(transfer);
    drop(transfers);

    match whole {
        Some(chain) => Some(Reassembly::complete(&this, lease, template, chain, 1, rmpp)),
        None => {
            Reassembly::arm(&this, TOTAL_TIMEOUT_MS);
            this.acknowledge(lease, template);
            None
        }
    }
}

/// A further segment, or a repeated one. Returns the transfer once it is whole.
/// May sleep.
pub(super) fn proceed(
    lease: &Lease,
    segment: RecvChain,
    header: &Header,
    rmpp: &RmppHeader,
) -> Option<RecvChain> {
    let this = lease.transfers().lock().find(&Key::of(&segment, header))?;
    let template = Template::of(&segment);
    let mut guard = this.progress.lock();
    let progress = &mut *guard;
    if matches!(progress.phase, Phase::Over) || rmpp.segment > progress.window {
        drop(guard);
        return None;
    }
    let chain = match &mut progress.phase {
        Phase::Active(chain) if rmpp.segment > progress.acked => chain,
        _ => {
            // The acknowledgement was lost.
            drop(guard);
            this.acknowledge(lease, template);
            return None;
        }
    };
    let run = match chain.insert(segment) {
        Ok(run) => run,
        Err(repeated) => {
            drop(guard);
            drop(repeated);
            return None;
        }
    };
    if rmpp.segment != progress.segment.wrapping_add(1) {
        // There is a gap before it.
        return None;
    }
    progress.segment = run.end;
    if run.last.has(RmppHeader::LAST) {
        let phase = core::mem::replace(&mut progress.phase, Phase::Complete);
        drop(guard);
        let Phase::Active(chain) = phase else {
            return None;
        };
        return Some(Reassembly::complete(
            &this, lease, template, chain, run.end, &run.last,
        ));
    }
    if progress.segment == progress.window {
        progress.window = progress.window.saturating_add(window_size(lease));
        drop(guard);
        this.acknowledge(lease, template);
    }
    None
}

/// Window for the first segments of `send`: if it answers a transfer, what the
/// requester opened, otherwise one segment.
pub(super) fn reply_window(send: &SendMad) -> u32 {
    const DEFAULT: u32 = 1;
    let header = send.wr().header();
    if header.method & method::RESPONSE_BIT == 0 {
        return DEFAULT;
    }
    let Ok(address) = send.wr().address() else {
        return DEFAULT;
    };
    let transfers = send.agent().transfers().lock();
    let request = transfers.list.iter().find(|transfer| {
        let key = &transfer.key;
        key.tid == header.tid
            && key.class == header.class
            && key.class_version == header.class_version
            && key.method & method::RESPONSE_BIT == 0
            && key.slid == address.dlid
    });
    request.map_or(DEFAULT, |transfer| transfer.progress.lock().reply_window)
}

/// The requester opens a window for the answer.
pub(super) fn set_reply_window(lease: &Lease, chain: &RecvChain, header: &Header, window: u32) {
    let transfers = lease.transfers().lock();
    let key = Key::of(chain, header);
    if let Some(transfer) = transfers.list.iter().find(|transfer| transfer.key == key) {
        let mut progress = transfer.progress.lock();
        if matches!(progress.phase, Phase::Complete) {
            progress.reply_window = window;
        }
    }
}

/// Forgets the transfers of an agent that nobody uses any more. May sleep.
pub(crate) fn drop_transfers(agent: &Arc<Agent>) {
    loop {
        let next = agent.transfers().lock().list.pop_front();
        let Some(transfer) = next else {
            break;
        };
        workqueue::cancel_delayed::<_, 0>(&transfer.clone_arc());
    }
    agent.port().queue().flush();
}
