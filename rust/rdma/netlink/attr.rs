// SPDX-License-Identifier: GPL-2.0

//! Attributes: their types, their policy, and reading them.

use core::{
    marker::PhantomData,
    ptr, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// Size of `struct nlattr`, a multiple of [`ALIGN`].
const HEADER: usize = 4;
/// Attributes start at multiples of this.
const ALIGN: usize = 4;
/// The flag bits of an attribute's type (nested, network byte order).
const TYPE_MASK: u16 = 0x3fff;

/// An attribute: its number and the kind of its payload.
pub struct Attr<K> {
    id: u16,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Attr<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Attr<K> {}

impl<K> Attr<K> {
    /// Names the attribute `id`.
    ///
    /// A number beyond the 14 bits of an attribute type does not compile in a constant.
    pub const fn new(id: u32) -> Self {
        assert!(id <= TYPE_MASK as u32);
        Self {
            id: id as u16,
            kind: PhantomData,
        }
    }

    /// The attribute's number.
    pub const fn id(self) -> u16 {
        self.id
    }
}

/// A kind of payload.
pub trait Kind {
    /// What a request's attribute of this kind must satisfy.
    const POLICY: bindings::nla_policy;
}

/// A kind of payload that requests carry.
pub trait ReadKind: Kind {
    /// What reading yields.
    type Value<'a>;

    /// Reads a payload; `None` if it is too short.
    fn read(payload: &[u8]) -> Option<Self::Value<'_>>;
}

/// A kind of payload that replies carry.
pub trait WriteKind: Kind {
    /// What is written.
    type Source<'a>;

    /// Calls `put` with the payload's bytes and whether they are a 64-bit value, which is aligned
    /// to 8 bytes on architectures that need it.
    fn write(value: Self::Source<'_>, put: impl FnOnce(&[u8], bool) -> Result) -> Result;
}

const fn policy(ty: u32, len: u16) -> bindings::nla_policy {
    bindings::nla_policy {
        type_: ty as u8,
        validation_type: 0,
        len,
        __bindgen_anon_1: bindings::nla_policy__bindgen_ty_1 {
            nested_policy: ptr::null(),
        },
    }
}

macro_rules! integer_kind {
    ($($ty:ty = $nla:ident),* $(,)?) => {$(
        impl Kind for $ty {
            const POLICY: bindings::nla_policy = policy(bindings::$nla, 0);
        }

        impl ReadKind for $ty {
            type Value<'a> = $ty;

            fn read(payload: &[u8]) -> Option<$ty> {
                // A request may carry more bytes than the type has: tolerated in tolerant mode.
                payload.first_chunk().map(|bytes| <$ty>::from_ne_bytes(*bytes))
            }
        }

        impl WriteKind for $ty {
            type Source<'a> = $ty;

            fn write(value: $ty, put: impl FnOnce(&[u8], bool) -> Result) -> Result {
                put(&value.to_ne_bytes(), size_of::<$ty>() == 8)
            }
        }
    )*};
}

integer_kind! {
    u8 = NLA_U8,
    u16 = NLA_U16,
    u32 = NLA_U32,
    u64 = NLA_U64,
    i32 = NLA_S32,
    i64 = NLA_S64,
}

/// A string with its terminator, of at most `MAX` characters in a request; `0` means no limit.
pub struct Text<const MAX: u16>;

impl<const MAX: u16> Kind for Text<MAX> {
    const POLICY: bindings::nla_policy = policy(bindings::NLA_NUL_STRING, MAX);
}

impl<const MAX: u16> ReadKind for Text<MAX> {
    type Value<'a> = &'a CStr;

    fn read(payload: &[u8]) -> Option<&CStr> {
        CStr::from_bytes_until_nul(payload).ok()
    }
}

impl<const MAX: u16> WriteKind for Text<MAX> {
    type Source<'a> = &'a CStr;

    fn write(value: &CStr, put: impl FnOnce(&[u8], bool) -> Result) -> Result {
        put(value.to_bytes_with_nul(), false)
    }
}

/// A string in a buffer of `N` bytes, terminated; what does not fit is cut off.
pub struct TextBuf<const N: usize>([u8; N]);

impl<const N: usize> TextBuf<N> {
    /// Copies `text`.
    pub fn new(text: &CStr) -> Self {
        let mut buf = [0; N];
        for (to, from) in buf
            .iter_mut()
            .take(N.saturating_sub(1))
            .zip(text.to_bytes())
        {
            *to = *from;
        }
        Self(buf)
    }

    /// The string.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }

    /// Whether there is not one character.
    pub fn is_empty(&self) -> bool {
        self.as_c_str().is_empty()
    }
}

/// A container of attributes.
pub struct Nested;

impl Kind for Nested {
    const POLICY: bindings::nla_policy = policy(bindings::NLA_NESTED, 0);
}

impl ReadKind for Nested {
    type Value<'a> = AttrIter<'a>;

    fn read(payload: &[u8]) -> Option<AttrIter<'_>> {
        Some(AttrIter { rest: payload })
    }
}

/// Bytes without structure.
pub struct Raw;

impl Kind for Raw {
    const POLICY: bindings::nla_policy = policy(bindings::NLA_BINARY, 0);
}

impl WriteKind for Raw {
    type Source<'a> = &'a [u8];

    fn write(value: &[u8], put: impl FnOnce(&[u8], bool) -> Result) -> Result {
        put(value, false)
    }
}

/// A socket address, always the size of `struct __kernel_sockaddr_storage`.
pub struct Addr;

impl Addr {
    /// Size of `struct __kernel_sockaddr_storage`.
    pub const SIZE: usize = size_of::<bindings::__kernel_sockaddr_storage>();
}

impl Kind for Addr {
    const POLICY: bindings::nla_policy = policy(bindings::NLA_UNSPEC, Addr::SIZE as u16);
}

impl WriteKind for Addr {
    type Source<'a> = &'a [u8; Addr::SIZE];

    fn write(value: &[u8; Addr::SIZE], put: impl FnOnce(&[u8], bool) -> Result) -> Result {
        put(value, false)
    }
}

/// A payload of kind `K` that no request may carry where attributes are parsed strictly.
pub struct ReplyOnly<K>(PhantomData<K>);

impl<K> Kind for ReplyOnly<K> {
    const POLICY: bindings::nla_policy = policy(bindings::NLA_UNSPEC, 0);
}

impl<K: WriteKind> WriteKind for ReplyOnly<K> {
    type Source<'a> = K::Source<'a>;

    fn write(value: K::Source<'_>, put: impl FnOnce(&[u8], bool) -> Result) -> Result {
        K::write(value, put)
    }
}

/// How the attributes of a request are validated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Unknown attributes are ignored, so that a newer tool can ask an older kernel.
    Tolerant,
    /// Everything must be known and of exactly its type: for requests that change something.
    Strict,
}

impl Strictness {
    const fn flags(self) -> u32 {
        match self {
            Self::Tolerant => bindings::netlink_validation_NL_VALIDATE_LIBERAL,
            Self::Strict => {
                bindings::netlink_validation_NL_VALIDATE_TRAILING
                    | bindings::netlink_validation_NL_VALIDATE_MAXTYPE
                    | bindings::netlink_validation_NL_VALIDATE_UNSPEC
                    | bindings::netlink_validation_NL_VALIDATE_STRICT_ATTRS
                    | bindings::netlink_validation_NL_VALIDATE_NESTED
            }
        }
    }
}

/// The policy of a family with attribute numbers below `N`.
#[repr(transparent)]
pub struct Policy<const N: usize>([bindings::nla_policy; N]);

// SAFETY: The table is never written, and its entries hold no pointers but null.
unsafe impl<const N: usize> Sync for Policy<N> {}

impl<const N: usize> Policy<N> {
    /// Builds the table from numbers and the policies of their kinds; others accept nothing.
    pub const fn new<const K: usize>(entries: [(u16, bindings::nla_policy); K]) -> Self {
        let mut table = [policy(bindings::NLA_UNSPEC, 0); N];
        let mut i = 0;
        while i < K {
            table[entries[i].0 as usize] = entries[i].1;
            i += 1;
        }
        Self(table)
    }

    /// Validates the attributes in `bytes`.
    ///
    /// # Safety
    ///
    /// `extack` is null or valid for writes, and what it then says about `bytes` is read only
    /// while they live.
    pub(super) unsafe fn validate<'a>(
        &'static self,
        bytes: &'a [u8],
        strictness: Strictness,
        extack: *mut bindings::netlink_ext_ack,
    ) -> Result<Attrs<'a>> {
        let len = c_int::try_from(bytes.len()).map_err(|_| EINVAL)?;
        // SAFETY: `bytes` is readable for its length and is of whole 4-byte words in the message
        // that it is part of; the policy has `N` entries, is static, and `extack` is as promised.
        to_result(unsafe {
            bindings::__nla_validate(
                bytes.as_ptr().cast(),
                len,
                N as c_int - 1,
                self.0.as_ptr(),
                strictness.flags(),
                extack,
            )
        })?;
        Ok(Attrs { bytes })
    }
}

/// Validated attributes.
///
/// Of several attributes of one number the last one counts.
#[derive(Clone, Copy)]
pub struct Attrs<'a> {
    bytes: &'a [u8],
}

impl<'a> Attrs<'a> {
    fn payload(&self, id: u16) -> Option<&'a [u8]> {
        AttrIter { rest: self.bytes }
            .filter(|(ty, _)| *ty == id)
            .last()
            .map(|(_, payload)| payload)
    }

    /// Whether the attribute is there.
    pub fn has<K>(&self, attr: Attr<K>) -> bool {
        self.payload(attr.id()).is_some()
    }

    /// The attribute's value, if it is there.
    pub fn get<K: ReadKind>(&self, attr: Attr<K>) -> Option<K::Value<'a>> {
        K::read(self.payload(attr.id())?)
    }

    /// The values of all attributes of this number, in their order; `None` for one whose payload is
    /// too short.
    pub fn all<K: ReadKind>(&self, attr: Attr<K>) -> impl Iterator<Item = Option<K::Value<'a>>> {
        AttrIter { rest: self.bytes }
            .filter(move |(ty, _)| *ty == attr.id())
            .map(|(_, payload)| K::read(payload))
    }

    /// The attribute's value, without which the request is invalid.
    pub fn require<K: ReadKind>(&self, attr: Attr<K>) -> Result<K::Value<'a>> {
        self.get(attr).ok_or(EINVAL)
    }
}

/// Walks over attributes, yielding numbers and payloads.
///
/// Ends at the first header that the bytes left cannot hold.
#[derive(Clone)]
pub struct AttrIter<'a> {
    rest: &'a [u8],
}

impl<'a> AttrIter<'a> {
    /// The bytes of all attributes left.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for AttrIter<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let [l0, l1, t0, t1] = *self.rest.first_chunk::<HEADER>()?;
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let payload = self.rest.get(HEADER..len)?;
        self.rest = self
            .rest
            .get(len.next_multiple_of(ALIGN)..)
            .unwrap_or_default();
        Some((u16::from_ne_bytes([t0, t1]) & TYPE_MASK, payload))
    }
}

#[kunit_tests(rust_rdma_netlink_attr)]
mod tests {
    use super::*;

    const NAME: Attr<Text<4>> = Attr::new(2);
    const NUMBER: Attr<u32> = Attr::new(1);

    #[test]
    fn last_attribute_counts() {
        let bytes = [8, 0, 1, 0, 1, 0, 0, 0, 8, 0, 1, 0, 2, 0, 0, 0];
        let attrs = Attrs { bytes: &bytes };
        assert_eq!(attrs.get(NUMBER), Some(2));
        assert!(!attrs.has(NAME));
        assert!(attrs.require(NAME).is_err());
    }

    #[test]
    fn truncated_attributes_end_the_walk() {
        for bytes in [
            &[][..],
            &[8, 0, 1],
            &[9, 0, 1, 0, 1, 0, 0, 0],
            &[3, 0, 1, 0],
            &[0, 0, 1, 0],
        ] {
            assert!(AttrIter { rest: bytes }.next().is_none());
        }
        // The padding of the last attribute may be missing.
        let mut it = AttrIter {
            rest: &[5, 0, 7, 0x80, 9],
        };
        assert_eq!(it.next(), Some((7, &[9][..])));
        assert!(it.next().is_none());
    }

    #[test]
    fn text_is_cut_at_its_terminator_and_at_the_buffer() {
        let bytes = [10, 0, 2, 0, b'a', b'b', 0, b'c', b'd', 0, 0, 0];
        let text = Attrs { bytes: &bytes }.get(NAME);
        assert!(text == Some(c"ab"));
        assert!(TextBuf::<3>::new(c"abc").as_c_str() == c"ab");
        assert!(TextBuf::<0>::new(c"abc").is_empty());
        assert!(Text::<4>::read(b"abcd").is_none());
    }
}
