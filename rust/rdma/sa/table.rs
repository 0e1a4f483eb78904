// SPDX-License-Identifier: GPL-2.0

//! Packing tables: how a structure of C lies in a record on the wire.
//!
//! The fields of a record follow one another without gaps, so a table gives their widths only.

use core::marker::PhantomData;
use kernel::{
    bindings,
    prelude::*, //
};

/// A field: its width on the wire, and which bytes of the structure hold it.
#[derive(Clone, Copy)]
pub struct Member {
    /// Bits on the wire.
    pub bits: u16,
    /// First byte of the member in the structure.
    pub offset: usize,
    /// Bytes of the member; none for reserved bits.
    pub size: usize,
    /// Name for messages.
    pub name: &'static CStr,
}

/// Lays `members` out one after the other.
pub const fn layout<const N: usize>(members: [Member; N]) -> [bindings::ib_field; N] {
    const EMPTY: bindings::ib_field = bindings::ib_field {
        struct_offset_bytes: 0,
        struct_size_bytes: 0,
        offset_words: 0,
        offset_bits: 0,
        size_bits: 0,
        field_name: core::ptr::null_mut(),
    };
    let mut fields = [EMPTY; N];
    let mut at: c_int = 0;
    let mut i = 0;
    while i < N {
        let member = members[i];
        fields[i] = bindings::ib_field {
            struct_offset_bytes: member.offset,
            struct_size_bytes: member.size,
            offset_words: at / 32,
            offset_bits: at % 32,
            size_bits: member.bits as c_int,
            field_name: member.name.as_ptr().cast_mut().cast(),
        };
        at += member.bits as c_int;
        i += 1;
    }
    fields
}

/// Bytes of the member that a pointer expression leads to.
pub const fn size_of_member<T, M>(_: fn(*const T) -> *const M) -> usize {
    size_of::<M>()
}

/// The packing table of a record whose C structure is `T`.
///
/// # Invariants
///
/// The fields are members of `T`, and take `bytes` bytes on the wire.
pub struct Table<T> {
    fields: &'static [bindings::ib_field],
    bytes: usize,
    _record: PhantomData<fn(T)>,
}

// SAFETY: The fields are constant, and their names static.
unsafe impl<T> Sync for Table<T> {}

impl<T> Table<T> {
    /// Makes a table.
    ///
    /// # Safety
    ///
    /// The fields are members of `T`.
    pub const unsafe fn new(fields: &'static [bindings::ib_field]) -> Self {
        let mut bits = 0;
        if let Some(last) = fields.last() {
            bits = last.offset_words * 32 + last.offset_bits + last.size_bits;
        }
        assert!(bits % 8 == 0);
        // INVARIANT: Promised by the caller, and counted just now.
        Self {
            fields,
            bytes: (bits / 8) as usize,
            _record: PhantomData,
        }
    }

    /// Bytes of a record on the wire.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Packs a record; `EINVAL`, and nothing is packed, if `wire` is too short.
    ///
    /// # Safety
    ///
    /// `record` is valid for reads.
    pub unsafe fn pack(&self, record: *const T, wire: &mut [u8]) -> Result {
        if wire.len() < self.bytes {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant; there are as many bytes as the fields take. The record is
        // only read.
        unsafe {
            bindings::ib_pack(
                self.fields.as_ptr(),
                self.fields.len() as c_int,
                record.cast_mut().cast(),
                wire.as_mut_ptr().cast(),
            )
        };
        Ok(())
    }

    /// Unpacks a record, leaving members that the wire does not have as they are; `EINVAL`, and
    /// nothing is unpacked, if `wire` is too short.
    ///
    /// # Safety
    ///
    /// `record` is valid for writes.
    pub unsafe fn unpack(&self, wire: &[u8], record: *mut T) -> Result {
        if wire.len() < self.bytes {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant; there are as many bytes as the fields take, and they are
        // only read.
        unsafe {
            bindings::ib_unpack(
                self.fields.as_ptr(),
                self.fields.len() as c_int,
                wire.as_ptr().cast_mut().cast(),
                record.cast(),
            )
        };
        Ok(())
    }
}

/// A record that has one packing table.
///
/// # Safety
///
/// The type is transparent over `Raw`, of which all zeroes are a value.
pub unsafe trait Record: Sized {
    /// The structure of C.
    type Raw: 'static;
    /// Its table.
    const TABLE: &'static Table<Self::Raw>;

    /// Packs the record; `EINVAL` if `wire` is too short.
    fn pack(&self, wire: &mut [u8]) -> Result {
        // SAFETY: The type is transparent.
        unsafe { Self::TABLE.pack(core::ptr::from_ref(self).cast(), wire) }
    }

    /// Unpacks a record; `EINVAL` if `wire` is too short.
    fn unpack(wire: &[u8]) -> Result<Self> {
        let mut record = core::mem::MaybeUninit::<Self>::zeroed();
        // SAFETY: The type is transparent, the memory writable, and all zeroes are a value.
        unsafe {
            Self::TABLE.unpack(wire, record.as_mut_ptr().cast())?;
            Ok(record.assume_init())
        }
    }
}

/// Defines a static [`Table`] of a C structure: `width member` for each field, `width _` for
/// reserved bits.
macro_rules! packing_table {
    ($(#[$doc:meta])* $vis:vis $name:ident: $raw:ty = $label:literal { $($bits:literal $($member:tt).+),* $(,)? }) => {
        $(#[$doc])*
        $vis static $name: $crate::sa::table::Table<$raw> = {
            const COUNT: usize = [$($bits),*].len();
            static FIELDS: $crate::sa::table::Fields<COUNT> =
                $crate::sa::table::Fields($crate::sa::table::layout([
                    $($crate::sa::table::packing_table!(@field $raw, $label, $bits, $($member).+)),*
                ]));
            // SAFETY: The members are fields of the structure, or this does not compile.
            unsafe { $crate::sa::table::Table::new(&FIELDS.0) }
        };
    };
    (@field $raw:ty, $label:literal, $bits:literal, _) => {
        $crate::sa::table::Member { bits: $bits, offset: 0, size: 0, name: c"reserved" }
    };
    (@field $raw:ty, $label:literal, $bits:literal, $($member:ident).+) => {
        $crate::sa::table::Member {
            bits: $bits,
            offset: ::core::mem::offset_of!($raw, $($member).+),
            // SAFETY: The function is never called: it only has a type.
            size: $crate::sa::table::size_of_member::<$raw, _>(|raw| unsafe {
                &raw const (*raw).$($member).+
            }),
            name: $crate::sa::table::label(concat!($label, ":", stringify!($($member).+), "\0")),
        }
    };
}
pub(super) use packing_table;

/// The fields of a table, for a static.
pub struct Fields<const N: usize>(pub [bindings::ib_field; N]);

// SAFETY: The fields are constant, and their names static.
unsafe impl<const N: usize> Sync for Fields<N> {}

/// The name of a field.
pub const fn label(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(label) => label,
        Err(_) => c"?",
    }
}
