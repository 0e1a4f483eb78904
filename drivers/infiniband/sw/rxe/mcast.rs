// SPDX-License-Identifier: GPL-2.0

//! Multicast groups and the queue pairs that are attached to them (IBTA vol. 1, 10.5).
//!
//! Attaching and detaching sleep, and are serialised by a mutex under which the network device joins
//! and leaves groups. The receive path only takes a spinlock to get at the list of a group's
//! members, which never changes: attaching makes another one.

use kernel::{
    new_mutex,
    new_spinlock_irq,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex,
        SpinLockIrq, //
    }, //
};
use rdma::{
    gid::Gid,
    net::{
        membership::Membership,
        NetDevice, //
    }, //
};

/// Most groups of a device.
pub(crate) const MAX_GROUPS: u32 = 8192;
/// Most queue pairs of a group.
pub(crate) const MAX_MEMBERS: u32 = 56;
/// Most attachments of a device.
pub(crate) const MAX_ATTACHMENTS: u32 = 458_752;

/// What can be attached to groups.
pub(crate) trait Member: Send + Sync {
    /// To how many groups it is attached. Changed by the table only.
    fn attachments(&self) -> &Atomic<i32>;
}

/// The members of a group. Constant.
pub(crate) struct Members<M>(KVec<Arc<M>>);

impl<M> Members<M> {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<M>> {
        self.0.iter()
    }

    fn has(&self, member: &Arc<M>) -> bool {
        self.0.iter().any(|other| Arc::ptr_eq(other, member))
    }

    /// The same, with one more.
    fn with(&self, member: &Arc<M>) -> Result<Self> {
        let mut list = KVec::with_capacity(self.0.len().saturating_add(1), GFP_KERNEL)?;
        for other in &self.0 {
            list.push(other.clone(), GFP_KERNEL)?;
        }
        list.push(member.clone(), GFP_KERNEL)?;
        Ok(Self(list))
    }

    /// The same, without one.
    fn without(&self, member: &Arc<M>) -> Result<Self> {
        let mut list = KVec::with_capacity(self.0.len(), GFP_KERNEL)?;
        for other in self.0.iter().filter(|other| !Arc::ptr_eq(other, member)) {
            list.push(other.clone(), GFP_KERNEL)?;
        }
        Ok(Self(list))
    }
}

type Key = [u8; 16];

/// Of groups that have members.
struct Memberships {
    list: KVec<(Key, Option<Membership>)>,
    attachments: u32,
}

/// The groups of a device.
#[pin_data]
pub(crate) struct McastTable<M: Member + 'static> {
    #[pin]
    memberships: Mutex<Memberships>,
    #[pin]
    groups: SpinLockIrq<RBTree<Key, Arc<Members<M>>>>,
}

/// Where a group is joined.
trait Joiner {
    /// Joins `group`.
    fn join(&self, group: &Gid) -> Result<Option<Membership>>;
}

impl Joiner for NetDevice {
    fn join(&self, group: &Gid) -> Result<Option<Membership>> {
        Membership::join(self, group).map(Some)
    }
}

impl<M: Member> McastTable<M> {
    /// No groups.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            memberships <- new_mutex!(Memberships { list: KVec::new(), attachments: 0 }),
            groups <- new_spinlock_irq!(RBTree::new(), "rxe_mcast"),
        })
    }

    /// The members of a group. Any context.
    pub(crate) fn members(&self, group: &Gid) -> Option<Arc<Members<M>>> {
        self.groups.lock().get(group.as_bytes()).cloned()
    }

    /// Attaches `member` to a group, which `netdev` joins if it is the first. Nothing happens if it
    /// is attached already. May sleep; takes RTNL.
    ///
    /// `ENOMEM` if there are too many groups, members or attachments.
    pub(crate) fn attach(&self, netdev: &NetDevice, group: &Gid, member: &Arc<M>) -> Result {
        self.attach_via(netdev, group, member)
    }

    fn attach_via(&self, netdev: &impl Joiner, group: &Gid, member: &Arc<M>) -> Result {
        let key = *group.as_bytes();
        let mut memberships = self.memberships.lock();
        let old = self.members(group);
        if old.as_ref().is_some_and(|members| members.has(member)) {
            return Ok(());
        }
        let count = old.as_ref().map_or(0, |members| members.0.len());
        if count >= MAX_MEMBERS as usize || memberships.attachments >= MAX_ATTACHMENTS {
            return Err(ENOMEM);
        }
        let members = match &old {
            Some(members) => members.with(member)?,
            None => Members(KVec::new()).with(member)?,
        };
        let members = Arc::new(members, GFP_KERNEL)?;
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?.into_node(key, members);
        if old.is_none() {
            if memberships.list.len() >= MAX_GROUPS as usize {
                return Err(ENOMEM);
            }
            memberships.list.reserve(1, GFP_KERNEL)?;
            let membership = netdev.join(group)?;
            memberships.list.push((key, membership), GFP_KERNEL)?;
        }
        memberships.attachments = memberships.attachments.saturating_add(1);
        member.attachments().fetch_add(1, Relaxed);
        let replaced = self.insert(node);
        // The old list goes after unlock.
        drop(replaced);
        Ok(())
    }

    fn insert(
        &self,
        node: RBTreeNode<Key, Arc<Members<M>>>,
    ) -> Option<RBTreeNode<Key, Arc<Members<M>>>> {
        self.groups.lock().insert(node)
    }

    /// Detaches `member` from a group, which is left if it was the last. May sleep; takes RTNL.
    ///
    /// `EINVAL` if it is not attached.
    pub(crate) fn detach(&self, group: &Gid, member: &Arc<M>) -> Result {
        let key = *group.as_bytes();
        let mut memberships = self.memberships.lock();
        let old = self.members(group).ok_or(EINVAL)?;
        if !old.has(member) {
            return Err(EINVAL);
        }
        let members = old.without(member)?;
        let left = if members.0.is_empty() {
            let gone = self.groups.lock().remove_node(&key);
            drop(gone);
            let at = memberships.list.iter().position(|entry| entry.0 == key);
            at.and_then(|at| memberships.list.remove(at).ok())
        } else {
            let members = Arc::new(members, GFP_KERNEL)?;
            let node = RBTreeNodeReservation::new(GFP_KERNEL)?.into_node(key, members);
            drop(self.insert(node));
            None
        };
        memberships.attachments = memberships.attachments.saturating_sub(1);
        member.attachments().fetch_sub(1, Relaxed);
        drop(left);
        Ok(())
    }
}

#[kunit_tests(rust_rxe_mcast)]
mod tests {
    use super::*;

    struct Fake(Atomic<i32>);

    impl Member for Fake {
        fn attachments(&self) -> &Atomic<i32> {
            &self.0
        }
    }

    /// Joins nothing.
    struct NoNet;

    impl Joiner for NoNet {
        fn join(&self, _group: &Gid) -> Result<Option<Membership>> {
            Ok(None)
        }
    }

    fn member() -> Result<Arc<Fake>> {
        Ok(Arc::new(Fake(Atomic::new(0)), GFP_KERNEL)?)
    }

    fn group(low: u8) -> Gid {
        let mut bytes = [0; 16];
        bytes[0] = 0xff;
        bytes[15] = low;
        Gid::from_bytes(bytes)
    }

    #[test]
    fn attach_and_detach() -> Result {
        let table = KBox::pin_init(McastTable::<Fake>::new(), GFP_KERNEL)?;
        let (first, second) = (member()?, member()?);
        let count = |gid: &Gid| {
            table
                .members(gid)
                .map_or(0, |members| members.iter().count())
        };
        table.attach_via(&NoNet, &group(1), &first)?;
        table.attach_via(&NoNet, &group(1), &first)?;
        table.attach_via(&NoNet, &group(1), &second)?;
        table.attach_via(&NoNet, &group(2), &first)?;
        assert_eq!(
            (count(&group(1)), count(&group(2)), count(&group(3))),
            (2, 1, 0)
        );
        assert_eq!(first.0.load(Relaxed), 2);

        // A list that was handed out stays as it is.
        let seen = table.members(&group(1)).ok_or(ENOENT)?;
        table.detach(&group(1), &first)?;
        assert_eq!(seen.iter().count(), 2);
        assert_eq!(count(&group(1)), 1);
        assert_eq!(table.detach(&group(1), &first).err(), Some(EINVAL));
        assert_eq!(table.detach(&group(3), &first).err(), Some(EINVAL));
        table.detach(&group(1), &second)?;
        assert!(table.members(&group(1)).is_none());
        table.detach(&group(2), &first)?;
        assert_eq!(first.0.load(Relaxed), 0);
        assert!(table.memberships.lock().list.is_empty());
        assert_eq!(table.memberships.lock().attachments, 0);
        Ok(())
    }

    #[test]
    fn groups_are_bounded() -> Result {
        let table = KBox::pin_init(McastTable::<Fake>::new(), GFP_KERNEL)?;
        for _ in 0..MAX_MEMBERS {
            table.attach_via(&NoNet, &group(1), &member()?)?;
        }
        let extra = member()?;
        assert_eq!(
            table.attach_via(&NoNet, &group(1), &extra).err(),
            Some(ENOMEM)
        );
        assert_eq!(extra.0.load(Relaxed), 0);
        table.attach_via(&NoNet, &group(2), &extra)?;
        Ok(())
    }
}
