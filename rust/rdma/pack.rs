// SPDX-License-Identifier: GPL-2.0

//! Wire headers as bit fields.
//!
//! Bits of a header are numbered from the most significant bit of its first
//! byte, as the InfiniBand architecture specification draws them.
//!
//! C header: [`include/rdma/ib_pack.h`](srctree/include/rdma/ib_pack.h)

use core::ffi::CStr;
use kernel::bindings;

/// Widest field that is a number; longer ones are byte strings.
pub const NUMBER_BITS: usize = 64;

/// Stores the low `size` bits of `value` at bit `first` of `header`.
///
/// Returns `None` and stores nothing if the bits are not all in the header.
pub fn put_bits(header: &mut [u8], first: usize, size: usize, value: u64) -> Option<()> {
    let end = first.checked_add(size)?;
    if size > NUMBER_BITS || end > header.len().checked_mul(8)? {
        return None;
    }
    let mut left = size;
    while left > 0 {
        let bit = end - left;
        let (offset, room) = (bit % 8, 8 - bit % 8);
        let count = room.min(left);
        let shift = room - count;
        let mask = (0xffu8 >> offset) & (0xffu8 << shift);
        // At most 63, and the lowest byte of the shifted value is wanted.
        let chunk = (value >> (left - count)) as u8;
        let byte = header.get_mut(bit / 8)?;
        *byte = (*byte & !mask) | ((chunk << shift) & mask);
        left -= count;
    }
    Some(())
}

/// The `size` bits at bit `first` of `header`, as a number.
pub fn take_bits(header: &[u8], first: usize, size: usize) -> Option<u64> {
    let end = first.checked_add(size)?;
    if size > NUMBER_BITS || end > header.len().checked_mul(8)? {
        return None;
    }
    let mut value = 0u64;
    let mut bit = first;
    while bit < end {
        let room = 8 - bit % 8;
        let count = room.min(end - bit);
        let byte = *header.get(bit / 8)?;
        let chunk = (byte & (0xffu8 >> (bit % 8))) >> (room - count);
        value = (value << count) | u64::from(chunk);
        bit += count;
    }
    Some(value)
}

/// Why a field description cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The structure member is not of 1, 2, 4 or 8 bytes.
    MemberSize,
    /// A field of more than 64 bits does not begin and end at a byte.
    Unaligned,
    /// Negative numbers, or bytes outside the buffer or the structure.
    Range,
}

/// Description of one header field: where it is in the header, and which
/// member of the unpacked structure holds it.
#[repr(transparent)]
pub struct Field(bindings::ib_field);

impl Field {
    /// Borrows a table of C code.
    ///
    /// # Safety
    ///
    /// `table` must point to `count` descriptions that live and do not change
    /// during `'a`, with names that are NULL or C strings.
    pub unsafe fn table<'a>(table: *const bindings::ib_field, count: usize) -> &'a [Self] {
        if count == 0 {
            return &[];
        }
        // SAFETY: By this function's contract; the wrapper is transparent.
        unsafe { core::slice::from_raw_parts(table.cast(), count) }
    }

    /// First bit and number of bits in the header.
    pub fn bits(&self) -> Option<(usize, usize)> {
        let words = usize::try_from(self.0.offset_words).ok()?;
        let bits = usize::try_from(self.0.offset_bits).ok()?;
        let size = usize::try_from(self.0.size_bits).ok()?;
        Some((words.checked_mul(32)?.checked_add(bits)?, size))
    }

    /// First byte and number of bytes of the member; none for reserved bits.
    pub fn member(&self) -> Option<(usize, usize)> {
        (self.0.struct_size_bytes != 0)
            .then_some((self.0.struct_offset_bytes, self.0.struct_size_bytes))
    }

    /// Name for messages.
    pub fn name(&self) -> &[u8] {
        if self.0.field_name.is_null() {
            return b"?";
        }
        // SAFETY: By the contract of `table`, a name is a C string that lives
        // as long as the description.
        unsafe { CStr::from_ptr(self.0.field_name.cast()) }.to_bytes()
    }

    /// Bytes of the header that the field touches.
    pub fn header_extent(&self) -> usize {
        self.bits()
            .map_or(0, |(first, size)| first.saturating_add(size).div_ceil(8))
    }

    /// Bytes of the structure up to the end of the field's member. A member
    /// of a long field is copied at the size of the field.
    pub fn member_extent(&self) -> usize {
        let (Some((offset, size)), Some((_, bits))) = (self.member(), self.bits()) else {
            return 0;
        };
        let size = if bits > 64 { bits / 8 } else { size };
        offset.saturating_add(size)
    }
}

/// The bytes of a GID, in the order of the wire.
pub fn gid_bytes(gid: &bindings::ib_gid) -> &[u8; 16] {
    // SAFETY: All variants of the union are plain bytes of the same size.
    unsafe { &gid.raw }
}
