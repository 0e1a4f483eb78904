// SPDX-License-Identifier: GPL-2.0

//! User memory regions: finding, pinning and releasing the memory that user space offers.
//!
//! Every function here runs in process context and may sleep. Pins are charged to the address
//! space that registers the memory; the charge lives inside the region and goes back to the same
//! address space, whoever releases it.

pub(crate) mod page_size;

use core::ptr::NonNull;
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*, //
};
use page_size::Layout;
use rdma::{
    device::Device,
    dma::DmaExt,
    mm::{
        can_lock_memory,
        resched_point,
        PageBatch,
        PinCharge, //
    },
    region::Region,
    umem::{
        pin_dmabuf,
        Access,
        Kind,
        PinnedUmem,
        Umem,
        UmemBuilder, //
    },
    uverbs::{
        AttrBundle,
        BufferDesc,
        BufferSource,
        CqBufferAttr, //
    },
};

/// A region that C is to own; `None` stands for a null pointer.
pub(crate) type RawUmem = NonNull<bindings::ib_umem>;

/// Pins `length` bytes of the calling process at `address` and maps them for `device`.
///
/// Errors: `EOPNOTSUPP` when the device cannot reach user memory in an encrypted guest, or for
/// on-demand rights; `EINVAL` for no bytes, or a range that overflows; `EPERM` when the task may
/// not lock memory; `ENOMEM` over RLIMIT_MEMLOCK; `EFAULT` and others when pages cannot be had.
pub(crate) fn pin(
    device: &Device,
    address: u64,
    length: u64,
    access: Access,
) -> Result<PinnedUmem> {
    if device.bounces_dma() {
        return Err(EOPNOTSUPP);
    }
    let region = Region::new(address, length).ok_or(EINVAL)?;
    if !can_lock_memory() {
        return Err(EPERM);
    }
    if access.on_demand() {
        return Err(EOPNOTSUPP);
    }
    // Scatter tables count their entries in 32 bits.
    let pages = region.pages();
    if pages == 0 || pages > u64::from(u32::MAX) {
        return Err(EINVAL);
    }

    let charge = PinCharge::new(pages)?;
    let mut umem = UmemBuilder::new(device, region, access)?;
    let mut batch = PageBatch::new(pages)?;
    let mut next = region.first_page();
    let mut left = pages;
    while left > 0 {
        resched_point();
        let pinned = batch.pin(next, left, access.writable())? as u64;
        left = left.saturating_sub(pinned);
        umem.append(&mut batch, left)?;
        next = next.wrapping_add(pinned * PAGE_SIZE as u64);
    }
    umem.map(charge)
}

/// Pins what `desc` describes.
///
/// Errors: `EINVAL` for unknown flags or kinds of source, otherwise those of the source.
pub(crate) fn pin_desc(device: &Device, desc: &BufferDesc, access: Access) -> Result<RawUmem> {
    if desc.has_unknown_flags() {
        return Err(EINVAL);
    }
    match desc.source()? {
        BufferSource::UserMemory => {
            let umem = pin(device, desc.address(), desc.length(), access)?;
            NonNull::new(umem.into_raw()).ok_or(EINVAL)
        }
        BufferSource::DmaBuf { fd } => {
            pin_dmabuf(device, desc.address(), desc.length(), fd, access)
        }
    }
}

/// Attributes through which a command's buffer may come.
#[derive(Clone, Copy)]
pub(crate) enum BufferAttr {
    /// A buffer descriptor under this id.
    Desc(u16),
    /// That of a completion queue: a buffer descriptor, or the older attributes of their own.
    Cq,
}

impl BufferAttr {
    /// The descriptor that the attributes give, `None` if there are none of this kind.
    ///
    /// `EINVAL` when a buffer is given in both ways.
    fn desc(self, attrs: &AttrBundle) -> Result<Option<BufferDesc>> {
        match self {
            Self::Desc(id) => attrs.buffer_desc(id),
            Self::Cq => {
                let desc = attrs.buffer_desc(AttrBundle::CQ_BUFFER_DESC)?;
                let legacy = legacy_cq_buffer(attrs)?;
                if desc.is_some() && legacy.is_some() {
                    return Err(EINVAL);
                }
                Ok(desc.or(legacy))
            }
        }
    }
}

/// The buffer that the older attributes of CREATE_CQ describe: either an address or a dma-buf
/// with an offset, each with a length, and only for drivers that take one.
fn legacy_cq_buffer(attrs: &AttrBundle) -> Result<Option<BufferDesc>> {
    let has = |attr| attrs.has_cq_attr(attr);
    let source = if has(CqBufferAttr::Va) {
        let address = attrs.cq_value(CqBufferAttr::Va)?;
        let length = attrs.cq_value(CqBufferAttr::Length)?;
        if has(CqBufferAttr::Fd) || has(CqBufferAttr::Offset) {
            return Err(EINVAL);
        }
        BufferDesc::new(BufferSource::UserMemory, address, length)
    } else if has(CqBufferAttr::Fd) {
        let fd = attrs.cq_fd()?;
        let offset = attrs.cq_value(CqBufferAttr::Offset)?;
        let length = attrs.cq_value(CqBufferAttr::Length)?;
        BufferDesc::new(BufferSource::DmaBuf { fd }, offset, length)
    } else if has(CqBufferAttr::Offset) || has(CqBufferAttr::Length) {
        return Err(EINVAL);
    } else {
        return Ok(None);
    };
    if !attrs.driver_takes_cq_buffer() {
        return Err(EINVAL);
    }
    Ok(Some(source))
}

/// Pins the buffer that the attributes of a command give, or else the one at `fallback`.
///
/// The buffer must have at least `min` bytes (`EINVAL`). `None` when neither gives one.
pub(crate) fn pin_buffer(
    device: &Device,
    attrs: Option<&AttrBundle>,
    attr: BufferAttr,
    fallback: Option<u64>,
    min: u64,
    access: Access,
) -> Result<Option<RawUmem>> {
    let desc = match attrs {
        Some(attrs) => attr.desc(attrs)?,
        None => None,
    };
    let desc = match (desc, fallback) {
        (Some(desc), _) => desc,
        (None, Some(address)) => BufferDesc::new(BufferSource::UserMemory, address, min),
        (None, None) => return Ok(None),
    };
    // Known before a page is touched.
    if desc.length() < min {
        return Err(EINVAL);
    }
    pin_desc(device, &desc, access).map(Some)
}

/// Records `iova` and finds the best of the `supported` page sizes for it, 0 if none fits.
pub(crate) fn best_page_size(umem: &Umem, supported: u64, iova: u64) -> u64 {
    umem.set_iova(iova);
    if let Some(shift) = umem.on_demand_page_shift() {
        // Its pages have one size, whatever they are mapped to.
        return supported & 1u64.checked_shl(shift).unwrap_or(0);
    }
    let layout = Layout {
        iova,
        length: umem.length(),
        offset: umem.address() & (PAGE_SIZE as u64 - 1),
    };
    page_size::best(
        supported,
        layout,
        umem.dma_segments().map(|s| (s.addr, s.len)),
    )
}

/// Where to copy from in the region's pages for a range of the region; `EINVAL` outside.
pub(crate) fn copy_offset(umem: &Umem, offset: u64, length: u64) -> Result<u64> {
    match offset.checked_add(length) {
        Some(end) if end <= umem.length() => Ok(offset + (umem.address() & (PAGE_SIZE as u64 - 1))),
        _ => {
            pr_err!(
                "ib_umem_copy_from not in range. offset: {} umem length: {} end: {}\n",
                offset,
                umem.length(),
                offset.wrapping_add(length)
            );
            Err(EINVAL)
        }
    }
}

/// Whether a region can stay when a registration changes as `what` tells to `access`.
///
/// `EOPNOTSUPP` for dma-bufs; `EACCES` when pages that were taken for reading would become
/// writable.
pub(crate) fn check_rereg(umem: &Umem, what: Rereg, access: Access) -> Result {
    if umem.kind() == Kind::DmaBuf {
        return Err(EOPNOTSUPP);
    }
    if what.access && !what.translation && access.writable() && !umem.writable() {
        return Err(EACCES);
    }
    Ok(())
}

/// What a re-registration changes.
#[derive(Clone, Copy)]
pub(crate) struct Rereg {
    /// The access rights.
    pub(crate) access: bool,
    /// The memory.
    pub(crate) translation: bool,
}

#[kernel::prelude::kunit_tests(rust_ib_core_umem)]
mod tests {
    use super::{
        page_size::{
            best,
            Layout, //
        },
        *, //
    };

    const ALL: u64 = !0xfff;

    fn layout(iova: u64, length: u64, offset: u64) -> Layout {
        Layout {
            iova,
            length,
            offset,
        }
    }

    #[test]
    fn pages_of_regions() {
        let pages = |a, l| Region::new(a, l).map(Region::pages);
        assert_eq!(pages(0, 0), Some(0));
        assert_eq!(pages(0xfff, 2), Some(2));
        assert_eq!(pages(0x1000, 0x1000), Some(1));
        assert_eq!(pages(u64::MAX, 1), None);
        assert_eq!(pages(u64::MAX - 0x1fff, 0x800), Some(1));
        // The end of the last page is no address.
        assert_eq!(pages(u64::MAX - 0x1000, 0x800), None);
        assert_eq!(pages(u64::MAX - 0x800, 0x400), None);
    }

    #[test]
    fn best_of_contiguous() {
        assert_eq!(
            best(
                ALL,
                layout(0x20_0000, 0x20_0000, 0),
                [(0x40_0000, 0x20_0000)].into_iter()
            ),
            0x20_0000
        );
        // Split, but back to back.
        let split = [(0x40_0000, 0x10_0000), (0x50_0000, 0x10_0000)];
        assert_eq!(
            best(ALL, layout(0x20_0000, 0x20_0000, 0), split.into_iter()),
            0x20_0000
        );
    }

    #[test]
    fn best_with_a_gap() {
        let gap = [(0x40_0000, 0x1_0000), (0x80_0000, 0x1_0000)];
        assert_eq!(
            best(ALL, layout(0x20_0000, 0x2_0000, 0), gap.into_iter()),
            0x1_0000
        );
    }

    #[test]
    fn best_of_large_and_overflowing() {
        const L: u32 = 0xffff_f000;
        let list = (0..5u64).map(|i| (0x100_0000_0000 + i * u64::from(L), L));
        assert_eq!(
            best(ALL, layout(0x100_0000_0000, 5 * u64::from(L), 0), list),
            1 << 35
        );
        assert_eq!(
            best(
                ALL,
                layout(u64::MAX - 0xfff, 0x2000, 0),
                [(0x1000, 0x2000)].into_iter()
            ),
            0
        );
    }
}
