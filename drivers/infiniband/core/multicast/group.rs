// SPDX-License-Identifier: GPL-2.0

//! Groups and their members.
//!
//! All of a port's groups are under one lock. A group is in the table as long as it has members or
//! work to do. The work is done by one thread at a time: the work queue's, or the one that brings
//! an answer of the administration. Handlers are called from there, without the lock.

use super::machine::{
    Alarm,
    Applicant,
    Machine,
    Step,
    Wish, //
};
use kernel::{
    impl_has_work,
    list::{
        impl_list_arc_safe,
        impl_list_item,
        List,
        ListArc,
        ListLinks, //
    },
    new_spinlock_irq, new_work,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        aref::ARef,
        Arc,
        LockedBy,
        SpinLockIrq,
        UniqueArc, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};
use rdma::{
    completion::Completion,
    device::Device,
    gfp::Gfp,
    gid::Gid,
    mad::verbs::find_pkey,
    sa::{
        multicast::{
            ask,
            MemberAsker,
            Ticket, //
        },
        record::member,
        wire::method,
        ClientUse,
        Member, //
    },
};

/// How long the administration may take to answer, in milliseconds.
const TIMEOUT_MS: usize = 3000;

/// Groups are found by their GID. There may be several of one GID, since the administration
/// chooses that of a group that is joined without.
type Key = ([u8; 16], u64);

struct Groups {
    by_gid: RBTree<Key, Arc<Group>>,
    /// Those that their users have not given up.
    memberships: RBTree<u64, Arc<Membership>>,
    /// Numbers groups and memberships.
    next_serial: u64,
    open: bool,
}

/// A port with multicast.
#[pin_data]
pub(super) struct Port {
    device: ARef<Device>,
    number: u32,
    #[pin]
    groups: SpinLockIrq<Groups>,
    /// The port is closed, and no group is left.
    #[pin]
    empty: Completion,
}

/// What changes of a group.
struct State {
    machine: Machine,
    /// Those that wait to be in the group.
    applicants: List<Membership>,
    /// Those that are in it.
    members: List<Membership>,
    /// Those that their users have not given up, in the lists or not.
    held: u32,
    /// Whose handler is being called.
    calling: Option<Call>,
}

struct Call {
    serial: u64,
    /// The user has given it up meanwhile, and waits.
    given_up: bool,
}

/// A group of one port.
#[pin_data]
pub(super) struct Group {
    port: Arc<Port>,
    serial: u64,
    state: LockedBy<State, Groups>,
    #[pin]
    work: Work<Group>,
}

impl_has_work! {
    impl HasWork<Self> for Group { self.work }
}

/// What a user holds of a group.
#[pin_data]
#[repr(C)]
pub(crate) struct Membership {
    /// First: the user's pointer is that of the membership.
    ticket: Ticket,
    serial: u64,
    wish: Wish,
    group: Arc<Group>,
    /// The call that the user waits for is over.
    #[pin]
    told: Completion,
    #[pin]
    links: ListLinks,
    /// Last: the client may go when it is dropped.
    _client: ClientUse,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Membership { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Membership { using ListLinks { self.links }; }
}

/// Takes a membership out of a list.
fn unlink(list: &mut List<Membership>, serial: u64) -> Option<ListArc<Membership>> {
    let mut cursor = list.cursor_front();
    while let Some(next) = cursor.peek_next() {
        if next.serial == serial {
            return Some(next.remove());
        }
        cursor.move_next();
    }
    None
}

impl Groups {
    fn serial(&mut self) -> u64 {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        serial
    }

    fn find(&self, mgid: &Gid) -> Option<&Arc<Group>> {
        let cursor = self.by_gid.cursor_lower_bound(&(*mgid.as_bytes(), 0))?;
        let ((found, _), _) = cursor.current();
        // The cursor's borrow ends with it.
        let key = (*found == *mgid.as_bytes()).then(|| *cursor.current().0)?;
        self.by_gid.get(&key)
    }
}

impl State {
    fn new(mgid: Gid) -> Self {
        Self {
            machine: Machine::new(Member::of_group(mgid)),
            applicants: List::new(),
            members: List::new(),
            held: 0,
            calling: None,
        }
    }

    /// The next step, with the membership that it is about and what that is told.
    fn next(&mut self) -> Job {
        let mut first = self.applicants.cursor_front();
        let first = first.peek_next();
        let applicant = first.as_ref().map(|first| Applicant {
            serial: first.serial,
            wish: &first.wish,
        });
        match self.machine.next(applicant) {
            Step::LookUpPkey(pkey) => Job::LookUpPkey(pkey),
            Step::Expel => self.expel(),
            Step::Admit => match first {
                None => Job::Again,
                Some(first) => {
                    let member = first.remove();
                    let record = self.machine.admit(&member.wish);
                    member.ticket.set_record(&record);
                    let called = member.clone_arc();
                    self.members.push_back(member);
                    self.call(called, Ok(()))
                }
            },
            Step::Refuse => match first {
                None => Job::Again,
                Some(first) => {
                    let member = first.remove().into_arc();
                    self.call(member, Err(EINVAL))
                }
            },
            Step::Join => match first {
                None => Job::Again,
                Some(first) => Job::Join(first.wish),
            },
            Step::Leave(record) => Job::Leave(record),
            Step::Rest => Job::Rest,
        }
    }

    fn expel(&mut self) -> Job {
        match self.members.pop_front() {
            Some(member) => {
                self.machine.dismiss(&member.wish);
                self.call(member.into_arc(), Err(ENETRESET))
            }
            None => {
                self.machine.reset();
                Job::Again
            }
        }
    }

    fn call(&mut self, member: Arc<Membership>, status: Result) -> Job {
        self.calling = Some(Call {
            serial: member.serial,
            given_up: false,
        });
        Job::Tell(member, status)
    }

    /// What the administration has answered to an applicant, or that it could not be asked.
    fn joined(&mut self, answer: Result<(&Member, Option<u16>)>) -> Job {
        let mut first = self.applicants.cursor_front();
        let first = first.peek_next();
        let applicant = first.as_ref().map(|first| Applicant {
            serial: first.serial,
            wish: &first.wish,
        });
        match (self.machine.joined(answer, applicant), first) {
            (Some((serial, error)), Some(first)) if first.serial == serial => {
                let member = first.remove().into_arc();
                self.call(member, Err(error))
            }
            _ => Job::Again,
        }
    }

    /// Takes a membership out of the group, wherever it is.
    fn forget(&mut self, membership: &Membership) -> Option<ListArc<Membership>> {
        self.held = self.held.saturating_sub(1);
        if let Some(member) = unlink(&mut self.members, membership.serial) {
            self.machine.dismiss(&member.wish);
            return Some(member);
        }
        unlink(&mut self.applicants, membership.serial)
    }
}

/// What is to be done without the lock.
enum Job {
    LookUpPkey(u16),
    Tell(Arc<Membership>, Result),
    Join(Wish),
    Leave(Member),
    Again,
    Rest,
}

impl Group {
    fn new(port: &Arc<Port>, serial: u64, mgid: Gid, gfp: Gfp) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                port: port.clone(),
                serial,
                state: LockedBy::new(&port.groups, State::new(mgid)),
                work <- new_work!("rdma::multicast::Group::work"),
            }),
            gfp.flags(),
        )
    }

    /// Starts to work, unless somebody does already. With the groups locked.
    fn wake(self: &Arc<Self>, groups: &mut Groups) {
        if self.state.access_mut(groups).machine.wake() {
            super::enqueue(self.clone());
        }
    }

    /// Works until the group rests, or the administration has been asked.
    fn work(self: &Arc<Self>, mut job: Job) {
        loop {
            job = match job {
                Job::Again => self.with_state(State::next),
                Job::LookUpPkey(pkey) => {
                    let index = self.port.pkey_index(pkey);
                    self.with_state(|state| {
                        state.machine.pkey_found(index);
                        state.next()
                    })
                }
                Job::Tell(member, status) => {
                    self.tell(&member, status);
                    Job::Again
                }
                Job::Join(wish) => {
                    let asked = self.ask(method::SET, &wish.record, wish.components);
                    match asked {
                        Ok(()) => return,
                        Err(error) => self.with_state(|state| state.joined(Err(error))),
                    }
                }
                Job::Leave(record) => {
                    let asked = self.ask(method::DELETE, &record, member::LEAVE);
                    match asked {
                        Ok(()) => return,
                        Err(error) => self.with_state(|state| {
                            state.machine.left(Err(error), false);
                            state.next()
                        }),
                    }
                }
                Job::Rest => return self.rest(),
            }
        }
    }

    fn with_state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut groups = self.port.groups.lock();
        change(self.state.access_mut(&mut groups))
    }

    fn ask(
        self: &Arc<Self>,
        method: u8,
        record: &Member,
        components: rdma::sa::Components,
    ) -> Result {
        ask(
            super::client().ok_or(ENODEV)?,
            &self.port.device,
            self.port.number,
            method,
            record,
            components,
            TIMEOUT_MS,
            self.clone(),
        )
    }

    /// Calls a member's handler, and gives the membership up if that says so.
    fn tell(&self, member: &Arc<Membership>, status: Result) {
        let gives_up = member.ticket.tell(status);
        let mut groups = self.port.groups.lock();
        let state = self.state.access_mut(&mut groups);
        let given_up = state.calling.take().is_some_and(|call| call.given_up);
        if given_up {
            drop(groups);
            member.told.complete();
        } else if gives_up {
            let gone = state.forget(member);
            let held = groups.memberships.remove_node(&member.serial);
            drop(groups);
            drop(gone);
            drop(held);
        }
    }

    /// Takes the group out of the table if nobody holds it.
    fn rest(&self) {
        let mut groups = self.port.groups.lock();
        let state = self.state.access(&groups);
        // Somebody may have begun to work already.
        if state.held != 0 || !state.machine.is_resting() {
            return;
        }
        let key = self.key(&groups);
        let gone = groups.by_gid.remove_node(&key);
        let last = !groups.open && groups.by_gid.is_empty();
        drop(groups);
        drop(gone);
        if last {
            self.port.empty.complete_all();
        }
    }

    fn key(&self, groups: &Groups) -> Key {
        let mgid = self.state.access(groups).machine.mgid();
        (*mgid.as_bytes(), self.serial)
    }

    /// The administration has let the first applicant in.
    fn admitted(&self, record: &Member) -> Job {
        let index = self.port.pkey_index(record.pkey());
        let mut groups = self.port.groups.lock();
        let old = self.key(&groups);
        let job = self
            .state
            .access_mut(&mut groups)
            .joined(Ok((record, index)));
        let new = self.key(&groups);
        if old != new {
            let group = groups.by_gid.get(&old).cloned();
            if let (Some(node), Some(group)) = (groups.by_gid.remove_node(&old), group) {
                let node = node.into_reservation();
                let _ = groups.by_gid.insert(node.into_node(new, group));
            }
        }
        job
    }
}

impl WorkItem for Group {
    type Pointer = Arc<Group>;

    fn run(this: Arc<Group>) {
        this.work(Job::Again);
    }
}

impl MemberAsker for Group {
    fn answered(this: Arc<Self>, answer: Result<&Member>) {
        let joining = this.with_state(|state| state.machine.is_joining());
        let job = match (joining, answer) {
            (true, Ok(record)) => this.admitted(record),
            (true, Err(error)) => this.with_state(|state| state.joined(Err(error))),
            (false, answer) => this.with_state(|state| {
                state
                    .machine
                    .left(answer.map(|_| ()), true)
                    .map_or(Job::Again, Job::Leave)
            }),
        };
        this.work(job);
    }
}

impl Membership {
    /// Gives the membership up. When this returns, the handler is not called any more. Sleeps;
    /// not from the handler.
    pub(super) fn give_up(self: Arc<Self>) {
        let port = &self.group.port;
        let mut groups = port.groups.lock();
        let Some(held) = groups.memberships.remove_node(&self.serial) else {
            return;
        };
        let state = self.group.state.access_mut(&mut groups);
        let gone = state.forget(&self);
        let being_called = match state.calling.as_mut() {
            Some(call) if call.serial == self.serial => {
                call.given_up = true;
                true
            }
            _ => false,
        };
        self.group.wake(&mut groups);
        drop(groups);
        drop(gone);
        drop(held);
        if being_called {
            self.told.wait();
        }
    }
}

impl Port {
    /// Opens a port. May sleep.
    pub(super) fn open(device: &Device, number: u32) -> Result<Arc<Self>> {
        let device = device.hold();
        Arc::pin_init(
            pin_init!(Self {
                device,
                number,
                groups <- new_spinlock_irq!(Groups {
                    by_gid: RBTree::new(),
                    memberships: RBTree::new(),
                    next_serial: 1,
                    open: true,
                }),
                empty <- Completion::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Closes the port, when all memberships are given up. Sleeps.
    pub(super) fn close(&self) {
        let mut groups = self.groups.lock();
        groups.open = false;
        let empty = groups.by_gid.is_empty();
        drop(groups);
        if !empty {
            self.empty.wait();
        }
    }

    /// The number of the port.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    fn pkey_index(&self, pkey: u16) -> Option<u16> {
        find_pkey(&self.device, self.number, pkey).ok()
    }

    /// Finds or makes the group of a new membership, which is counted; returns the number of the
    /// membership.
    fn acquire(self: &Arc<Self>, mgid: Gid, gfp: Gfp) -> Result<(Arc<Group>, u64)> {
        fn hold(groups: &mut Groups, group: &Arc<Group>) -> u64 {
            let state = group.state.access_mut(groups);
            state.held = state.held.saturating_add(1);
            groups.serial()
        }

        let find = |groups: &mut Groups| {
            if !groups.open {
                return Err(ENODEV);
            }
            // Without a GID the group is a new one.
            let found = if mgid.is_zero() {
                None
            } else {
                groups.find(&mgid).cloned()
            };
            Ok(found.map(|group| {
                let serial = hold(groups, &group);
                (group, serial)
            }))
        };

        let serial = {
            let mut groups = self.groups.lock();
            if let Some(found) = find(&mut groups)? {
                return Ok(found);
            }
            groups.serial()
        };
        let group = Group::new(self, serial, mgid, gfp)?;
        let node = RBTreeNodeReservation::new(gfp.flags())?;
        let mut groups = self.groups.lock();
        // Somebody may have made it meanwhile.
        let found = find(&mut groups)?;
        if let Some(found) = found {
            drop(groups);
            return Ok(found);
        }
        let _ = groups
            .by_gid
            .insert(node.into_node((*mgid.as_bytes(), serial), group.clone()));
        let serial = hold(&mut groups, &group);
        Ok((group, serial))
    }

    /// Joins a group: the handler of `ticket` is told later, not from here.
    ///
    /// Errors: `ENOMEM`, `ENODEV` if the port is closed.
    pub(super) fn join(
        self: &Arc<Self>,
        wish: Wish,
        ticket: Ticket,
        client: ClientUse,
        gfp: Gfp,
    ) -> Result<Arc<Membership>> {
        let memory = UniqueArc::new_uninit(gfp.flags())?;
        let node = RBTreeNodeReservation::new(gfp.flags())?;
        let (group, serial) = self.acquire(wish.record.mgid(), gfp)?;
        let membership: ListArc<Membership> = memory
            .pin_init_with(pin_init!(Membership {
                ticket,
                serial,
                wish,
                group,
                told <- Completion::new(),
                links <- ListLinks::new(),
                _client: client,
            }))?
            .into();
        let held = membership.clone_arc();

        let mut groups = self.groups.lock();
        let _ = groups
            .memberships
            .insert(node.into_node(serial, held.clone()));
        held.group
            .state
            .access_mut(&mut groups)
            .applicants
            .push_back(membership);
        held.group.wake(&mut groups);
        drop(groups);
        Ok(held)
    }

    /// What is known of a group.
    ///
    /// Errors: `EADDRNOTAVAIL` if nothing is.
    pub(super) fn record(&self, mgid: &Gid) -> Result<Member> {
        let groups = self.groups.lock();
        groups
            .find(mgid)
            .and_then(|group| group.state.access(&groups).machine.record())
            .copied()
            .ok_or(EADDRNOTAVAIL)
    }

    /// Something happened that all groups have to know.
    pub(super) fn alarm(&self, alarm: Alarm) {
        let mut groups = self.groups.lock();
        let mut next = groups.by_gid.cursor_front().map(|at| *at.current().0);
        while let Some(key) = next {
            if let Some(group) = groups.by_gid.get(&key).cloned() {
                group.state.access_mut(&mut groups).machine.sound(alarm);
                group.wake(&mut groups);
            }
            let after = (key.0, key.1.wrapping_add(1));
            next = groups
                .by_gid
                .cursor_lower_bound(&after)
                .map(|at| *at.current().0);
        }
    }
}
