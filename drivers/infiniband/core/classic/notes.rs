// SPDX-License-Identifier: GPL-2.0

//! What the core notes of the regions that the classic calls made: `struct ib_mr` has no place
//! for it.
//!
//! A region without a note is one of today's calls. The note goes when the region does, however
//! it is deregistered.

use super::layout::Layout;
use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation},
    sync::Arc,
};
use rdma::{
    mr::{Access, Mr},
    phys::PhysMap,
    static_lock::StaticSpinLock,
};

/// What a region is.
pub(crate) struct Note {
    /// Rights that it was registered with.
    pub(crate) access: Access,
    /// The memory behind it; `None` for all of the machine's.
    pub(crate) memory: Option<Memory>,
}

/// The memory of a region of `ib_reg_phys_mr()`.
pub(crate) struct Memory {
    /// What the region is, or was before its keys became void.
    pub(crate) content: Content,
    /// Pages that the region has room for.
    pub(crate) capacity: u32,
    /// Whether its keys are good; a reregistration that failed leaves them void.
    pub(crate) valid: bool,
}

/// Memory and where peers see it.
#[derive(Clone)]
pub(crate) struct Content {
    /// Mapping for the device, held as long as the region may reach it.
    pub(crate) map: Arc<PhysMap>,
    /// Its shape.
    pub(crate) layout: Layout,
    /// Address of the first byte.
    pub(crate) iova: u64,
}

type Table = RBTree<usize, Note>;

/// Notes by the identity of their region.
static NOTES: StaticSpinLock<Option<Table>> = StaticSpinLock::new(None);

/// Memory for a note, so that nothing fails once the region is there.
pub(crate) struct Reservation(RBTreeNodeReservation<usize, Note>);

impl Reservation {
    /// Allocates. May sleep.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_KERNEL)?))
    }

    /// Notes what a new region is.
    pub(crate) fn fill(self, mr: &Mr, note: Note) {
        insert(self.0.into_node(mr.identity(), note));
    }
}

fn insert(node: RBTreeNode<usize, Note>) {
    let replaced = NOTES.lock().get_or_insert_with(Table::new).insert(node);
    // Unmaps what is left of a region that ended behind our back.
    drop(replaced);
}

/// Looks at, or changes, the note of a region; `None` if there is none. What `f` returns is
/// dropped outside of the lock, which it must not sleep under.
pub(crate) fn with<R>(mr: &Mr, f: impl FnOnce(&mut Note) -> R) -> Option<R> {
    NOTES.lock().as_mut()?.get_mut(&mr.identity()).map(f)
}

/// A note that was taken off the table while its region is deregistered. Dropping it unmaps the
/// memory.
pub(crate) struct Taken(RBTreeNode<usize, Note>);

/// Takes the note of a region that is about to go; nobody finds it from now on.
pub(crate) fn take(mr: &Mr) -> Option<Taken> {
    NOTES
        .lock()
        .as_mut()?
        .remove_node(&mr.identity())
        .map(Taken)
}

impl Taken {
    /// The region stays.
    pub(crate) fn put_back(self) {
        insert(self.0);
    }
}
