// SPDX-License-Identifier: GPL-2.0

//! Memory of consumers, as scatter lists and as segments of pages, mapped for DMA.

use super::{
    Direction,
    Iova,
    Opcode,
    Piece,
    Remote,
    Single, //
};
use crate::{
    cleared::cleared,
    device::Device,
    gfp::Gfp,
    mr::Mr, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr, //
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// A scatter list of a consumer.
#[derive(Clone, Copy)]
pub struct SgSource<'a> {
    head: *mut bindings::scatterlist,
    nents: u32,
    _list: PhantomData<&'a bindings::scatterlist>,
}

impl SgSource<'_> {
    /// Takes a list.
    ///
    /// # Safety
    ///
    /// `head` must have `nents` entries as long as this exists; nobody else may map it.
    pub unsafe fn from_raw(head: *mut bindings::scatterlist, nents: u32) -> Self {
        Self {
            head,
            nents,
            _list: PhantomData,
        }
    }

    /// Number of entries.
    pub fn entries(&self) -> u32 {
        self.nents
    }
}

/// A scatter list that is mapped for DMA; unmapped when dropped.
pub struct MappedSg<'a> {
    device: &'a Device,
    source: SgSource<'a>,
    mapped: u32,
    dir: Direction,
}

impl<'a> MappedSg<'a> {
    /// Maps a list. May sleep.
    pub fn map(device: &'a Device, source: SgSource<'a>, dir: Direction) -> Result<Self> {
        let mut table: bindings::sg_table = pin_init::zeroed();
        table.sgl = source.head;
        table.orig_nents = source.nents;
        // SAFETY: By the contract of `SgSource`.
        to_result(unsafe { bindings::rw_dma_map_sgtable(device.as_raw(), &mut table, dir.0) })?;
        Ok(Self {
            device,
            source,
            mapped: table.nents,
            dir,
        })
    }

    /// Takes a mapping back that was left to a context. For the one who destroys the context.
    pub fn reclaim(device: &'a Device, source: SgSource<'a>, dir: Direction) -> Self {
        Self {
            device,
            source,
            mapped: source.nents,
            dir,
        }
    }

    /// Leaves the mapping to a context.
    pub fn keep(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// All mapped entries.
    pub fn entries(&self) -> Entries<'a> {
        Entries {
            sg: self.source.head,
            left: self.mapped,
            _list: PhantomData,
        }
    }
}

impl Drop for MappedSg<'_> {
    fn drop(&mut self) {
        // SAFETY: Mapped with the same list and number of entries.
        unsafe {
            bindings::rw_dma_unmap_sg(
                self.device.as_raw(),
                self.source.head,
                self.source.nents as i32,
                self.dir.0,
            )
        };
    }
}

/// Mapped entries of a scatter list, from some entry on.
#[derive(Clone)]
pub struct Entries<'a> {
    sg: *mut bindings::scatterlist,
    left: u32,
    _list: PhantomData<&'a bindings::scatterlist>,
}

impl Entries<'_> {
    /// Number of entries.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// The first entry.
    pub fn first(&self) -> Option<Piece> {
        if self.left == 0 || self.sg.is_null() {
            return None;
        }
        // SAFETY: There is an entry, and it is mapped.
        unsafe {
            Some(Piece {
                addr: bindings::sg_dma_address(self.sg),
                length: bindings::sg_dma_len(self.sg),
            })
        }
    }

    /// Makes the first `count` entries, but `skip` bytes of the first, the memory of a region.
    /// `EINVAL` if they do not fit.
    pub fn map_to(&self, mr: &Mr, count: u32, skip: u32, page_size: u32) -> Result {
        let count = count.min(self.left);
        let mut offset = skip;
        // SAFETY: The region is ours; there are as many entries.
        let fit = unsafe {
            bindings::ib_map_mr_sg(mr.as_raw(), self.sg, count as i32, &mut offset, page_size)
        };
        if u32::try_from(fit).is_ok_and(|fit| fit >= count) {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Makes these entries and those of protection information the memory of a region.
    pub fn map_integrity_to(&self, meta: &Entries<'_>, mr: &Mr, page_size: u32) -> Result {
        // SAFETY: The region is ours; there are as many entries.
        to_result(unsafe {
            bindings::ib_map_mr_sg_pi(
                mr.as_raw(),
                self.sg,
                self.left as i32,
                ptr::null_mut(),
                meta.sg,
                meta.left as i32,
                ptr::null_mut(),
                page_size,
            )
        })
    }

    /// No entries.
    pub fn none() -> Self {
        Self {
            sg: ptr::null_mut(),
            left: 0,
            _list: PhantomData,
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let piece = self.first()?;
        // SAFETY: There is an entry.
        self.sg = unsafe { bindings::sg_next(self.sg) };
        self.left -= 1;
        Some(piece)
    }
}

/// Segments of a consumer's pages (`struct bio_vec`), and a position in them.
pub struct Bvecs<'a> {
    vecs: *const bindings::bio_vec,
    iter: bindings::bvec_iter,
    _vecs: PhantomData<&'a bindings::bio_vec>,
}

impl Bvecs<'_> {
    /// Takes segments.
    ///
    /// # Safety
    ///
    /// `vecs` must have the segments that `iter` covers as long as this exists.
    pub unsafe fn from_raw(vecs: *const bindings::bio_vec, iter: bindings::bvec_iter) -> Self {
        Self {
            vecs,
            iter,
            _vecs: PhantomData,
        }
    }

    /// Bytes that are left.
    pub fn bytes(&self) -> u32 {
        self.iter.bi_size
    }
}

impl Iterator for Bvecs<'_> {
    type Item = bindings::bio_vec;

    fn next(&mut self) -> Option<bindings::bio_vec> {
        if self.iter.bi_size == 0 {
            return None;
        }
        // SAFETY: The position is inside the segments, as bytes are left.
        unsafe {
            let bv = bindings::mp_bvec_iter_bvec(self.vecs, &mut self.iter);
            if !bindings::bvec_iter_advance(self.vecs, &mut self.iter, bv.bv_len) {
                self.iter.bi_size = 0;
            }
            Some(bv)
        }
    }
}

/// A segment that is mapped for DMA; unmapped when dropped.
pub struct MappedBvec<'a> {
    device: &'a Device,
    piece: Piece,
    dir: Direction,
}

impl<'a> MappedBvec<'a> {
    /// Maps a segment.
    pub fn map(device: &'a Device, mut bv: bindings::bio_vec, dir: Direction) -> Result<Self> {
        let mut addr = 0;
        // SAFETY: The segment's pages are the consumer's, who keeps them.
        if !unsafe { bindings::rw_dma_map_bvec(device.as_raw(), &mut bv, dir.0, &mut addr) } {
            return Err(ENOMEM);
        }
        let length = bv.bv_len;
        Ok(Self {
            device,
            piece: Piece { addr, length },
            dir,
        })
    }

    /// Takes a mapping back that was left to a context.
    pub fn reclaim(device: &'a Device, piece: Piece, dir: Direction) -> Self {
        Self { device, piece, dir }
    }

    /// The mapped memory.
    pub fn piece(&self) -> Piece {
        self.piece
    }

    /// Leaves the mapping to a context.
    pub fn keep(self) -> Piece {
        ManuallyDrop::new(self).piece
    }
}

impl Drop for MappedBvec<'_> {
    fn drop(&mut self) {
        // SAFETY: Mapped with these values.
        unsafe {
            bindings::ib_dma_unmap_bvec(
                self.device.as_raw(),
                self.piece.addr,
                self.piece.length,
                self.dir.0,
            )
        };
    }
}

/// A scatter list made of segments.
pub struct OwnedSg(KVec<bindings::scatterlist>);

impl OwnedSg {
    /// Makes a list of at most `max` entries. May sleep. `EINVAL` if there are more segments.
    pub fn new(bvecs: Bvecs<'_>, max: u32) -> Result<Self> {
        let mut list = cleared(max as usize, Gfp::KERNEL)?;
        // SAFETY: The list has `max` entries.
        unsafe { bindings::sg_init_table(list.as_mut_ptr(), max) };
        let mut count = 0;
        for bv in bvecs {
            let entry = list.get_mut(count).ok_or(EINVAL)?;
            // SAFETY: An entry of the list.
            unsafe { bindings::sg_set_page(entry, bv.bv_page, bv.bv_len, bv.bv_offset) };
            count += 1;
        }
        let last = list.get_mut(count.wrapping_sub(1)).ok_or(EINVAL)?;
        // SAFETY: As above.
        unsafe { bindings::sg_mark_end(last) };
        list.truncate(count);
        Ok(Self(list))
    }

    /// The list. It does not move with `self`.
    pub fn source<'a>(&mut self) -> SgSource<'a> {
        SgSource {
            head: self.0.as_mut_ptr(),
            nents: self.0.len() as u32,
            _list: PhantomData,
        }
    }
}

impl Iova {
    /// Maps all segments to one range of addresses. May sleep. `EOPNOTSUPP` if the device has no
    /// IOMMU that can do that.
    pub fn map(
        device: &Device,
        bvecs: &mut Bvecs<'_>,
        dir: Direction,
        lkey: u32,
        opcode: Opcode,
        remote: Remote,
    ) -> Result<Self> {
        let dma = device.dma_device_raw();
        if dma.is_null() || bvecs.bytes() == 0 {
            return Err(EOPNOTSUPP);
        }
        let mut state: bindings::dma_iova_state = pin_init::zeroed();
        // SAFETY: The device does DMA; bytes are left, so there is a segment.
        let allocated = unsafe {
            let first = bindings::mp_bvec_iter_bvec(bvecs.vecs, &mut bvecs.iter);
            bindings::dma_iova_try_alloc(
                dma,
                &mut state,
                bindings::bvec_phys(&first),
                bvecs.bytes() as usize,
            )
        };
        if !allocated {
            return Err(EOPNOTSUPP);
        }

        let mut mapped = 0;
        let linked: Result = (|| {
            for bv in bvecs.by_ref() {
                // SAFETY: Inside the range just allocated.
                to_result(unsafe {
                    bindings::dma_iova_link(
                        dma,
                        &mut state,
                        bindings::bvec_phys(&bv),
                        mapped,
                        bv.bv_len as usize,
                        dir.0,
                        0,
                    )
                })?;
                mapped = mapped.wrapping_add(bv.bv_len as usize);
            }
            // SAFETY: All of the range is linked.
            to_result(unsafe { bindings::dma_iova_sync(dma, &mut state, 0, mapped) })
        })();
        if let Err(e) = linked {
            // SAFETY: Of the range, this much is linked.
            unsafe { bindings::dma_iova_destroy(dma, &mut state, mapped, dir.0, 0) };
            return Err(e);
        }
        let piece = Piece {
            addr: state.addr,
            // As long as the segments, whose length has 32 bits.
            length: mapped as u32,
        };
        Ok(Self {
            state,
            mapped,
            single: Single::new(piece, lkey, opcode, remote),
        })
    }

    /// Unmaps.
    pub fn release(mut self, device: &Device, dir: Direction) {
        // SAFETY: Mapped by `map` for the same device.
        unsafe {
            bindings::dma_iova_destroy(
                device.dma_device_raw(),
                &mut self.state,
                self.mapped,
                dir.0,
                0,
            )
        };
    }
}
