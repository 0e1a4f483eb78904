// SPDX-License-Identifier: GPL-2.0

//! Scatter/gather lists: bytes of a message at a number of places in local memory.

use crate::{
    abi::Sge,
    mem::{
        Fault,
        Memory,
        Target, //
    },
    pd::PdId,
    wire::ext::Key, //
};
use kernel::prelude::*;
use rdma::{
    cpu_memory::Sink,
    mr::Access, //
};

/// Longest message.
pub(crate) const MAX_LENGTH: u32 = 1 << 31;

/// Bytes of all entries; `None` if there are more than a message may have.
pub(crate) fn total(list: &[Sge]) -> Option<u32> {
    list.iter()
        .try_fold(0u32, |sum, sge| sum.checked_add(sge.length))
        .filter(|sum| *sum <= MAX_LENGTH)
}

/// A place in a list, and the memory that was found there last.
///
/// A message is mostly copied in order, so the next place is where the last copy ended. Every copy
/// asks the memory anew whether the access is allowed; what is remembered only saves the lookup.
pub(crate) struct Cursor {
    entry: usize,
    /// Bytes of the entry before the place.
    inside: u32,
    /// Bytes of the list before the place.
    at: u32,
    target: Option<Target>,
}

impl Cursor {
    /// At the start.
    pub(crate) const fn new() -> Self {
        Self {
            entry: 0,
            inside: 0,
            at: 0,
            target: None,
        }
    }

    /// Goes to byte `at` of the list.
    fn seek(&mut self, list: &[Sge], at: u32) -> Result<(), Fault> {
        if at < self.at {
            *self = Self::new();
        }
        while self.at < at {
            let entry = list.get(self.entry).ok_or(Fault::Denied)?;
            let left = entry.length.saturating_sub(self.inside);
            let step = left.min(at - self.at);
            self.advance(step, left);
        }
        Ok(())
    }

    /// Goes `step` bytes on, of the `left` ones of the entry.
    fn advance(&mut self, step: u32, left: u32) {
        self.at = self.at.wrapping_add(step);
        if step == left {
            self.entry = self.entry.saturating_add(1);
            self.inside = 0;
            self.target = None;
        } else {
            self.inside = self.inside.wrapping_add(step);
        }
    }

    /// Calls `copy` for the memory of each entry that has part of `len` bytes from `at` on, with the
    /// place in the entry, the place in the message part, and how many bytes.
    fn walk(
        &mut self,
        ctx: &Local<'_>,
        at: u32,
        len: usize,
        need: Access,
        mut copy: impl FnMut(&Target, u64, usize, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut done = 0usize;
        if len > 0 {
            self.seek(ctx.list, at)?;
        }
        while done < len {
            let entry = *ctx.list.get(self.entry).ok_or(Fault::Denied)?;
            let left = entry.length.saturating_sub(self.inside);
            if left == 0 {
                self.advance(0, 0);
                continue;
            }
            let step = left.min(u32::try_from(len - done).unwrap_or(u32::MAX));
            if self.target.is_none() {
                let key = Key(entry.lkey);
                self.target =
                    Some(
                        ctx.memory
                            .open_local(ctx.pd, key, entry.addr, entry.length, need)?,
                    );
            }
            let target = self.target.as_ref().ok_or(Fault::Denied)?;
            copy(target, self.inside.into(), done, step as usize)?;
            self.advance(step, left);
            done = done.wrapping_add(step as usize);
        }
        Ok(())
    }
}

/// What a list refers to.
#[derive(Clone, Copy)]
pub(crate) struct Local<'a> {
    /// Regions of the device.
    pub(crate) memory: &'a Memory,
    /// Domain of the queue pair.
    pub(crate) pd: PdId,
    /// The entries.
    pub(crate) list: &'a [Sge],
}

impl Local<'_> {
    /// Copies the bytes from `at` of the message on, each piece also to `sink`.
    pub(crate) fn gather(
        &self,
        cursor: &mut Cursor,
        at: u32,
        to: &mut [u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let len = to.len();
        cursor.walk(self, at, len, Access::NONE, |target, inside, done, step| {
            let part = to.get_mut(done..).and_then(|to| to.get_mut(..step));
            target.read(inside, part.ok_or(Fault::Denied)?, sink)
        })
    }

    /// Copies to the bytes from `at` of the message on.
    pub(crate) fn scatter(&self, cursor: &mut Cursor, at: u32, from: &[u8]) -> Result<(), Fault> {
        let need = Access::LOCAL_WRITE;
        cursor.walk(self, at, from.len(), need, |target, inside, done, step| {
            let part = from.get(done..).and_then(|from| from.get(..step));
            target.write(inside, part.ok_or(Fault::Denied)?)
        })
    }
}
