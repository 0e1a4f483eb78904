// SPDX-License-Identifier: GPL-2.0

//! Writing messages.

use core::{
    marker::PhantomData,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

use crate::gfp::Gfp;

use super::attr::{
    Attr,
    Nested,
    WriteKind, //
};

/// The attribute number that pads 64-bit values, the same in all RDMA families.
const PAD: c_int = 0;

/// A socket buffer that messages are written to. Freed when dropped.
///
/// # Invariants
///
/// The pointer owns a linear `sk_buff` that nobody else knows.
pub struct SkBuff(NonNull<bindings::sk_buff>);

impl SkBuff {
    /// Allocates a buffer of the customary size, which is that of a page at least.
    pub fn new(gfp: Gfp) -> Result<Self> {
        // SAFETY: No requirements.
        let skb = unsafe { bindings::nlmsg_new_default(gfp.as_raw()) };
        // INVARIANT: `nlmsg_new` returns a new linear buffer or null.
        Ok(Self(NonNull::new(skb).ok_or(ENOMEM)?))
    }

    /// Starts a message.
    pub fn message(&mut self, header: Header) -> Result<Message<'_>> {
        // SAFETY: By the invariant, and the borrow keeps others away while the message lives.
        unsafe { Message::new(self.0, header) }
    }

    /// Gives the buffer away.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for SkBuff {
    fn drop(&mut self) {
        // SAFETY: By the invariant.
        unsafe { bindings::nlmsg_free(self.0.as_ptr()) };
    }
}

/// What the header of a message says.
#[derive(Clone, Copy)]
pub struct Header {
    /// The socket that the message answers; 0 from the kernel on its own.
    pub portid: u32,
    /// The sequence number of the request.
    pub seq: u32,
    /// Client and operation, see [`message_type`](super::message_type).
    pub message_type: u32,
    /// `NLM_F_*`.
    pub flags: u32,
}

/// Where attributes are appended: a message, or a container in it.
///
/// # Invariants
///
/// `skb` is a linear `sk_buff`, valid and not changed by others during `'a`.
pub struct AttrWriter<'a> {
    skb: NonNull<bindings::sk_buff>,
    // Invariant in `'a`, so that two writers cannot change places with a shorter-lived one.
    life: PhantomData<*mut &'a ()>,
}

impl<'a> AttrWriter<'a> {
    /// Appends to `skb`.
    ///
    /// # Safety
    ///
    /// `skb` is a linear netlink buffer, valid and not changed by others during `'a`.
    pub unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: As promised.
        Self {
            skb,
            life: PhantomData,
        }
    }

    /// The buffer, for functions that append to it.
    pub fn as_raw(&mut self) -> *mut bindings::sk_buff {
        self.skb.as_ptr()
    }

    fn len(&self) -> u32 {
        // SAFETY: By the invariant.
        unsafe { (*self.skb.as_ptr()).len }
    }

    /// Appends an attribute.
    ///
    /// `EMSGSIZE` if the buffer is full.
    pub fn put<K: WriteKind>(&mut self, attr: Attr<K>, value: K::Source<'_>) -> Result {
        let skb = self.as_raw();
        K::write(value, |bytes, is_64bit| {
            // The length field of an attribute counts the header as well.
            const MAX: usize = u16::MAX as usize - size_of::<bindings::nlattr>();
            if bytes.len() > MAX {
                return Err(EMSGSIZE);
            }
            let id = c_int::from(attr.id());
            let (len, data) = (bytes.len() as c_int, bytes.as_ptr().cast());
            // SAFETY: The buffer is valid by the invariant, `data` is readable for `len`.
            to_result(unsafe {
                if is_64bit {
                    bindings::nla_put_64bit(skb, id, len, data, PAD)
                } else {
                    bindings::nla_put(skb, id, len, data)
                }
            })
        })
    }

    /// Appends an attribute if there is a value.
    pub fn put_some<K: WriteKind>(
        &mut self,
        attr: Attr<K>,
        value: Option<K::Source<'_>>,
    ) -> Result {
        value.map_or(Ok(()), |value| self.put(attr, value))
    }

    /// Opens a container.
    pub fn nest(&mut self, attr: Attr<Nested>) -> Result<Nest<'_>> {
        self.open(attr, bindings::NLA_F_NESTED)
    }

    /// Opens a container that is not marked as one: the tables that user space has always got so.
    pub fn nest_unmarked(&mut self, attr: Attr<Nested>) -> Result<Nest<'_>> {
        self.open(attr, 0)
    }

    fn open(&mut self, attr: Attr<Nested>, mark: u32) -> Result<Nest<'_>> {
        let start = self.len();
        let id = c_int::from(attr.id()) | mark as c_int;
        // SAFETY: The buffer is valid by the invariant; no payload is read.
        to_result(unsafe { bindings::nla_put(self.as_raw(), id, 0, core::ptr::null()) })?;
        Ok(Nest(Section::new(self.skb, start)))
    }
}

/// What was written to a buffer since `start`: taken back unless finished.
///
/// The pointer is held next to the writer's own: the two are used apart, so even a writer that
/// was swapped with another cannot make this one touch a buffer it did not open.
struct Section<'a> {
    writer: AttrWriter<'a>,
    skb: NonNull<bindings::sk_buff>,
    start: u32,
    finished: bool,
}

impl Section<'_> {
    fn new(skb: NonNull<bindings::sk_buff>, start: u32) -> Self {
        // INVARIANT: The caller's writer, which is borrowed meanwhile, has the same invariant.
        Self {
            writer: AttrWriter {
                skb,
                life: PhantomData,
            },
            skb,
            start,
            finished: false,
        }
    }

    /// How much was written, and where it starts; nothing if the buffer is shorter than `start`.
    fn written(&self) -> (u32, *mut u8) {
        // SAFETY: The buffer is valid by the writer's invariant.
        let (len, data) = unsafe { ((*self.skb.as_ptr()).len, (*self.skb.as_ptr()).data) };
        let start = self.start.min(len);
        // `start` is within the buffer's data.
        (len - start, data.wrapping_add(start as usize))
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // SAFETY: The buffer is valid by the writer's invariant, and linear. Trimming to more
            // than its length does nothing.
            unsafe { bindings::skb_trim(self.skb.as_ptr(), self.start) };
        }
    }
}

/// An open container. What was put into it is taken back unless [`Nest::end`] is called.
#[must_use]
pub struct Nest<'a>(Section<'a>);

impl Nest<'_> {
    /// Closes the container.
    ///
    /// `EMSGSIZE`, and the container is taken back, if it is larger than an attribute may be.
    pub fn end(mut self) -> Result {
        let (len, at) = self.0.written();
        let total = u16::try_from(len).map_err(|_| EMSGSIZE)?;
        if usize::from(total) >= size_of::<bindings::nlattr>() {
            // SAFETY: The header of the container is at `at` and within the buffer; nobody else
            // looks at it.
            unsafe { (*at.cast::<bindings::nlattr>()).nla_len = total };
        }
        self.0.finished = true;
        Ok(())
    }
}

impl<'a> Deref for Nest<'a> {
    type Target = AttrWriter<'a>;

    fn deref(&self) -> &AttrWriter<'a> {
        &self.0.writer
    }
}

impl<'a> DerefMut for Nest<'a> {
    fn deref_mut(&mut self) -> &mut AttrWriter<'a> {
        &mut self.0.writer
    }
}

/// A message under construction, taken back unless [`Message::end`] is called.
#[must_use]
pub struct Message<'a>(Section<'a>);

impl<'a> Message<'a> {
    /// Starts a message at the end of `skb`; `EMSGSIZE` if the header does not fit.
    ///
    /// # Safety
    ///
    /// As for [`AttrWriter::from_raw`].
    pub(super) unsafe fn new(skb: NonNull<bindings::sk_buff>, header: Header) -> Result<Self> {
        // SAFETY: As promised by the caller.
        let start = unsafe { (*skb.as_ptr()).len };
        // SAFETY: As promised by the caller.
        let nlh = unsafe {
            bindings::nlmsg_put(
                skb.as_ptr(),
                header.portid,
                header.seq,
                header.message_type as c_int,
                0,
                header.flags as c_int,
            )
        };
        if nlh.is_null() {
            return Err(EMSGSIZE);
        }
        Ok(Self(Section::new(skb, start)))
    }

    /// Appends the header of the family, before any attribute; `EMSGSIZE` if the buffer is full.
    pub fn family_header(&mut self, bytes: &[u8]) -> Result {
        const ALIGN: usize = 4;
        let skb = self.as_raw();
        let room = bytes.len().next_multiple_of(ALIGN);
        // SAFETY: By the invariant; the buffer is linear, so its end is its room.
        let free = unsafe { bindings::skb_tailroom(skb) };
        if usize::try_from(free).unwrap_or(0) < room {
            return Err(EMSGSIZE);
        }
        // SAFETY: There is that much room.
        let at = unsafe { bindings::skb_put(skb, room as u32) }.cast::<u8>();
        // SAFETY: `skb_put` returned the start of `room` bytes.
        unsafe {
            core::ptr::write_bytes(at, 0, room);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
        }
        Ok(())
    }

    /// Completes the message.
    pub fn end(mut self) {
        let (len, at) = self.0.written();
        if len as usize >= size_of::<bindings::nlmsghdr>() {
            // SAFETY: The message's header is at `at` and within the buffer; nobody else looks at
            // it.
            unsafe { (*at.cast::<bindings::nlmsghdr>()).nlmsg_len = len };
        }
        self.0.finished = true;
    }
}

impl<'a> Deref for Message<'a> {
    type Target = AttrWriter<'a>;

    fn deref(&self) -> &AttrWriter<'a> {
        &self.0.writer
    }
}

impl<'a> DerefMut for Message<'a> {
    fn deref_mut(&mut self) -> &mut AttrWriter<'a> {
        &mut self.0.writer
    }
}

#[kunit_tests(rust_rdma_netlink_msg)]
mod tests {
    use super::{
        super::attr::{AttrIter, Raw, ReadKind, Text},
        *,
    };

    const HEADER: Header = Header {
        portid: 7,
        seq: 9,
        message_type: 0x1402,
        flags: 2,
    };

    /// Bytes of the header of a message.
    const HEAD: usize = size_of::<bindings::nlmsghdr>();

    fn bytes(skb: &SkBuff) -> &[u8] {
        let skb = skb.0.as_ptr();
        // SAFETY: By the invariant, a linear buffer that is not changed meanwhile.
        unsafe { core::slice::from_raw_parts((*skb).data, (*skb).len as usize) }
    }

    /// The attributes of the only message of a buffer.
    fn attrs(skb: &SkBuff) -> Result<AttrIter<'_>> {
        Nested::read(bytes(skb).get(HEAD..).ok_or(EINVAL)?).ok_or(EINVAL)
    }

    /// A payload of the next attribute, if it has the number.
    fn next<'a>(iter: &mut AttrIter<'a>, number: u16) -> Result<&'a [u8]> {
        match iter.next() {
            Some((found, payload)) if found == number => Ok(payload),
            _ => Err(ENOENT),
        }
    }

    #[test]
    fn what_is_written_is_read() -> Result {
        let mut skb = SkBuff::new(Gfp::KERNEL)?;
        let mut message = skb.message(HEADER)?;
        message.put(Attr::<u8>::new(1), 0x8f)?;
        message.put(Attr::<u16>::new(2), 0xfffe)?;
        message.put(Attr::<u32>::new(3), 0xdead_beef)?;
        message.put(Attr::<u64>::new(4), u64::MAX - 1)?;
        message.put(Attr::<i32>::new(5), i32::MIN)?;
        message.put(Attr::<i64>::new(6), -2)?;
        message.put(Attr::<Text<0>>::new(7), c"")?;
        message.put(Attr::<Text<0>>::new(8), c"four")?;
        message.put(Attr::<Raw>::new(9), &[0, 1, 2])?;
        message.put(Attr::<Raw>::new(10), &[])?;
        message.put_some(Attr::<u32>::new(11), None)?;
        message.put_some(Attr::<u32>::new(12), Some(12))?;
        message.end();

        let mut iter = attrs(&skb)?;
        assert_eq!(u8::read(next(&mut iter, 1)?), Some(0x8f));
        assert_eq!(u16::read(next(&mut iter, 2)?), Some(0xfffe));
        assert_eq!(u32::read(next(&mut iter, 3)?), Some(0xdead_beef));
        assert_eq!(u64::read(next(&mut iter, 4)?), Some(u64::MAX - 1));
        assert_eq!(i32::read(next(&mut iter, 5)?), Some(i32::MIN));
        assert_eq!(i64::read(next(&mut iter, 6)?), Some(-2));
        assert!(Text::<0>::read(next(&mut iter, 7)?) == Some(c""));
        assert!(Text::<0>::read(next(&mut iter, 8)?) == Some(c"four"));
        assert_eq!(next(&mut iter, 9)?, [0, 1, 2]);
        assert_eq!(next(&mut iter, 10)?.len(), 0);
        assert_eq!(u32::read(next(&mut iter, 12)?), Some(12));
        assert!(iter.next().is_none());
        Ok(())
    }

    #[test]
    fn header_and_padding() -> Result {
        let mut skb = SkBuff::new(Gfp::KERNEL)?;
        let mut message = skb.message(HEADER)?;
        message.put(Attr::<u8>::new(1), 0xaa)?;
        message.end();
        let mut expected = KVec::new();
        for word in [24u32, 0x0002_1402, 9, 7] {
            expected.extend_from_slice(&word.to_le_bytes(), GFP_KERNEL)?;
        }
        expected.extend_from_slice(&[5, 0, 1, 0, 0xaa, 0, 0, 0], GFP_KERNEL)?;
        assert_eq!(bytes(&skb), expected.as_slice());
        Ok(())
    }

    #[test]
    fn containers() -> Result {
        let mut skb = SkBuff::new(Gfp::KERNEL)?;
        let mut message = skb.message(HEADER)?;
        let mut outer = message.nest(Attr::new(20))?;
        outer.put(Attr::<u32>::new(1), 1)?;
        let mut inner = outer.nest_unmarked(Attr::new(21))?;
        inner.put(Attr::<Text<0>>::new(2), c"in")?;
        inner.end()?;
        // One that is given up leaves nothing, whatever was in it.
        let mut given_up = outer.nest(Attr::new(22))?;
        given_up.put(Attr::<u64>::new(3), 3)?;
        given_up.nest(Attr::new(23))?.end()?;
        drop(given_up);
        outer.put(Attr::<u32>::new(4), 4)?;
        outer.end()?;
        message.nest(Attr::new(24))?.end()?;
        message.end();

        // The mark is seen in the bytes only.
        let mark = |at: usize| bytes(&skb).get(HEAD + at + 3).copied();
        assert_eq!(mark(0), Some(0x80));
        assert_eq!(mark(12), Some(0));
        let mut iter = attrs(&skb)?;
        let mut outer = Nested::read(next(&mut iter, 20)?).ok_or(EINVAL)?;
        assert_eq!(u32::read(next(&mut outer, 1)?), Some(1));
        let mut inner = Nested::read(next(&mut outer, 21)?).ok_or(EINVAL)?;
        assert!(Text::<0>::read(next(&mut inner, 2)?) == Some(c"in"));
        assert!(inner.next().is_none());
        assert_eq!(u32::read(next(&mut outer, 4)?), Some(4));
        assert!(outer.next().is_none());
        assert_eq!(next(&mut iter, 24)?.len(), 0);
        assert!(iter.next().is_none());
        Ok(())
    }

    #[test]
    fn a_message_that_is_given_up() -> Result {
        let mut skb = SkBuff::new(Gfp::KERNEL)?;
        let mut message = skb.message(HEADER)?;
        message.put(Attr::<u32>::new(1), 1)?;
        drop(message);
        assert_eq!(bytes(&skb).len(), 0);
        let message = skb.message(HEADER)?;
        message.end();
        assert_eq!(bytes(&skb).len(), HEAD);
        Ok(())
    }

    #[test]
    fn a_buffer_that_is_full() -> Result {
        let mut skb = SkBuff::new(Gfp::KERNEL)?;
        let mut message = skb.message(HEADER)?;
        let too_long = KVVec::from_elem(0u8, 65532, GFP_KERNEL)?;
        assert_eq!(
            message.put(Attr::<Raw>::new(1), &too_long).err(),
            Some(EMSGSIZE)
        );
        let mut count = 0u32;
        while message.put(Attr::<u32>::new(2), count).is_ok() {
            count += 1;
        }
        assert!(count > 300);
        assert_eq!(message.put(Attr::<u64>::new(4), 0).err(), Some(EMSGSIZE));
        message.end();
        assert!(skb.message(HEADER).is_err());
        let mut seen = 0;
        for (number, payload) in attrs(&skb)? {
            assert_eq!((number, u32::read(payload)), (2, Some(seen)));
            seen += 1;
        }
        assert_eq!(seen, count);
        Ok(())
    }

    fn random(state: &mut u32) -> u32 {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *state >> 8
    }

    /// Writes attributes and containers of them, and notes numbers and values.
    fn grow(
        out: &mut AttrWriter<'_>,
        state: &mut u32,
        depth: u32,
        notes: &mut KVec<(u16, u32)>,
    ) -> Result {
        for _ in 0..random(state) % 5 {
            let number = (random(state) % 100) as u16;
            if depth > 0 && random(state) % 3 == 0 {
                notes.push((number, depth), GFP_KERNEL)?;
                let mut nest = out.nest(Attr::new(u32::from(number) + 100))?;
                grow(&mut nest, state, depth - 1, notes)?;
                nest.end()?;
            } else {
                let value = random(state);
                notes.push((number, value), GFP_KERNEL)?;
                out.put(Attr::<u32>::new(number.into()), value)?;
            }
        }
        Ok(())
    }

    /// Reads what [`grow`] has written; says whether it is what was noted.
    fn same(iter: AttrIter<'_>, depth: u32, notes: &mut core::slice::Iter<'_, (u16, u32)>) -> bool {
        for (number, payload) in iter {
            let Some((noted, value)) = notes.next() else {
                return false;
            };
            let fits = if number >= 100 {
                number - 100 == *noted
                    && depth == *value
                    && depth > 0
                    && Nested::read(payload).is_some_and(|inner| same(inner, depth - 1, notes))
            } else {
                number == *noted && u32::read(payload) == Some(*value)
            };
            if !fits {
                return false;
            }
        }
        true
    }

    #[test]
    fn random_trees() -> Result {
        let mut state = 1;
        let mut total = 0;
        for _ in 0..200 {
            let mut skb = SkBuff::new(Gfp::KERNEL)?;
            let mut notes = KVec::new();
            let mut message = skb.message(HEADER)?;
            grow(&mut message, &mut state, 4, &mut notes)?;
            message.end();
            let mut left = notes.iter();
            assert!(same(attrs(&skb)?, 4, &mut left));
            assert!(left.next().is_none());
            total += notes.len();
        }
        assert!(total > 400);
        Ok(())
    }
}
