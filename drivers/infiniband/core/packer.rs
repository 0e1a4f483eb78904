// SPDX-License-Identifier: GPL-2.0

//! Packing of structures into wire headers and back.
//!
//! Tables of [`Field`] say which bits of a header hold which member of a
//! structure. Only the bytes that a field covers are touched, never the rest of
//! its 32-bit word.

use kernel::prelude::*;
use rdma::pack::{
    put_bits,
    take_bits,
    Fault,
    Field,
    NUMBER_BITS, //
};

/// A member of `structure`, which holds numbers in network byte order.
fn read_member(structure: &[u8], offset: usize, size: usize) -> Result<u64, Fault> {
    if !matches!(size, 1 | 2 | 4 | 8) {
        return Err(Fault::MemberSize);
    }
    let end = offset.checked_add(size).ok_or(Fault::Range)?;
    let bytes = structure.get(offset..end).ok_or(Fault::Range)?;
    Ok(bytes
        .iter()
        .fold(0, |value, byte| (value << 8) | u64::from(*byte)))
}

fn write_member(structure: &mut [u8], offset: usize, size: usize, value: u64) -> Result<(), Fault> {
    if !matches!(size, 1 | 2 | 4 | 8) {
        return Err(Fault::MemberSize);
    }
    let end = offset.checked_add(size).ok_or(Fault::Range)?;
    let bytes = structure.get_mut(offset..end).ok_or(Fault::Range)?;
    let wire = value.to_be_bytes();
    bytes.copy_from_slice(wire.get(wire.len() - size..).ok_or(Fault::Range)?);
    Ok(())
}

/// Byte range of a long field in the header, rounded down to whole bytes.
fn byte_range(first: usize, size: usize) -> (core::ops::Range<usize>, Result<(), Fault>) {
    let aligned = if first % 8 == 0 && size % 8 == 0 {
        Ok(())
    } else {
        Err(Fault::Unaligned)
    };
    (first / 8..first / 8 + size / 8, aligned)
}

/// Packs one field of `structure` into `header`. Reserved bits become zero.
pub(crate) fn pack(field: &Field, structure: &[u8], header: &mut [u8]) -> Result<(), Fault> {
    let (first, size) = field.bits().ok_or(Fault::Range)?;
    if size <= NUMBER_BITS {
        let (value, read) = match field
            .member()
            .map(|(at, size)| read_member(structure, at, size))
        {
            None => (0, Ok(())),
            Some(Ok(value)) => (value, Ok(())),
            Some(Err(fault)) => (0, Err(fault)),
        };
        put_bits(header, first, size, value).ok_or(Fault::Range)?;
        return read;
    }

    let (range, aligned) = byte_range(first, size);
    let target = header.get_mut(range).ok_or(Fault::Range)?;
    match field.member() {
        None => target.fill(0),
        Some((at, _)) => {
            let end = at.checked_add(target.len()).ok_or(Fault::Range)?;
            target.copy_from_slice(structure.get(at..end).ok_or(Fault::Range)?);
        }
    }
    aligned
}

/// Unpacks one field of `header` into `structure`. Reserved bits are skipped.
pub(crate) fn unpack(field: &Field, header: &[u8], structure: &mut [u8]) -> Result<(), Fault> {
    let Some((at, member_size)) = field.member() else {
        return Ok(());
    };
    let (first, size) = field.bits().ok_or(Fault::Range)?;
    if size <= NUMBER_BITS {
        let value = take_bits(header, first, size).ok_or(Fault::Range)?;
        return write_member(structure, at, member_size, value);
    }

    let (range, aligned) = byte_range(first, size);
    let source = header.get(range).ok_or(Fault::Range)?;
    let end = at.checked_add(source.len()).ok_or(Fault::Range)?;
    structure
        .get_mut(at..end)
        .ok_or(Fault::Range)?
        .copy_from_slice(source);
    aligned
}

#[kunit_tests(rust_ib_core_packer)]
mod tests {
    use super::*;

    #[test]
    fn field_within_a_byte() {
        let mut header = [0xffu8; 2];
        assert!(put_bits(&mut header, 2, 3, 0b010).is_some());
        assert_eq!(header, [0b1101_0111, 0xff]);
        assert_eq!(take_bits(&header, 2, 3), Some(0b010));
    }

    #[test]
    fn field_across_bytes_keeps_its_neighbours() {
        let mut header = [0u8; 4];
        assert!(put_bits(&mut header, 12, 20, 0xfffff).is_some());
        assert_eq!(header, [0, 0x0f, 0xff, 0xff]);
        assert!(put_bits(&mut header, 12, 20, 0x12345).is_some());
        assert_eq!(take_bits(&header, 12, 20), Some(0x12345));
        assert_eq!(take_bits(&header, 0, 12), Some(0));
    }

    #[test]
    fn widest_number() {
        let mut header = [0u8; 9];
        assert!(put_bits(&mut header, 4, 64, u64::MAX).is_some());
        assert_eq!(header[0], 0x0f);
        assert_eq!(header[8], 0xf0);
        assert_eq!(take_bits(&header, 4, 64), Some(u64::MAX));
    }

    #[test]
    fn fields_end_with_the_header() {
        let mut header = [0u8; 4];
        assert!(put_bits(&mut header, 24, 9, 0).is_none());
        assert!(put_bits(&mut header, 0, 65, 0).is_none());
        assert!(take_bits(&header, usize::MAX, 1).is_none());
    }
}
