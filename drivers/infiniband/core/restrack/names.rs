// SPDX-License-Identifier: GPL-2.0

//! The names of the modules that create objects.
//!
//! A creator passes a string of its own. A dump that runs while that module goes away, or an
//! object that it forgot, would read freed memory; so entries refer to a copy. Modules are few,
//! and a copy stays until this module goes: the copies live in a fixed array.

use kernel::{prelude::*, sync::SetOnce};

/// Room for a module name and its terminator, `MODULE_NAME_LEN` rounded up.
const NAME_LEN: usize = 64;

/// How many different creators are remembered.
const SLOTS: usize = 64;

/// What further creators are called.
const OTHER: &CStr = c"kernel";

/// A terminated string.
struct Name([u8; NAME_LEN]);

impl Name {
    /// Copies `name`, cut to what fits.
    fn new(name: &CStr) -> Self {
        let mut copy = [0; NAME_LEN];
        // The last byte stays the terminator.
        for (to, from) in copy.iter_mut().take(NAME_LEN - 1).zip(name.to_bytes()) {
            *to = *from;
        }
        Self(copy)
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(OTHER)
    }
}

/// A set of names that only grows.
struct Names([SetOnce<Name>; SLOTS]);

impl Names {
    const fn new() -> Self {
        Self([const { SetOnce::new() }; SLOTS])
    }

    fn intern(&self, name: &CStr) -> &CStr {
        for slot in &self.0 {
            // A slot that another CPU is filling right now is passed over; a name that is there
            // twice does no harm.
            if slot.as_ref().is_none() {
                slot.populate(Name::new(name));
            }
            if let Some(known) = slot.as_ref().map(Name::as_c_str) {
                if is_copy(known, name) {
                    return known;
                }
            }
        }
        OTHER
    }
}

/// Whether `copy` is what [`Name`] keeps of `name`.
fn is_copy(copy: &CStr, name: &CStr) -> bool {
    let name = name.to_bytes();
    name.get(..NAME_LEN - 1).unwrap_or(name) == copy.to_bytes()
}

static NAMES: Names = Names::new();

/// A lasting copy of `name`. Any context.
pub(super) fn intern(name: &CStr) -> &'static CStr {
    NAMES.intern(name)
}

#[kunit_tests(rust_ib_core_restrack_names)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        let names = Names::new();
        let first = names.intern(c"ib_core");
        let other = names.intern(c"rdma_cm");

        assert_eq!(first.to_bytes(), b"ib_core");
        assert_eq!(other.to_bytes(), b"rdma_cm");
        assert!(core::ptr::eq(first, names.intern(c"ib_core")));
        assert!(core::ptr::eq(other, names.intern(c"rdma_cm")));
    }

    #[test]
    fn a_long_name_is_cut() -> Result {
        let mut bytes = [b'x'; 80];
        bytes[79] = 0;
        let name = CStr::from_bytes_until_nul(&bytes).map_err(|_| EINVAL)?;
        let names = Names::new();
        let copy = names.intern(name);
        assert_eq!(copy.to_bytes().len(), NAME_LEN - 1);
        assert!(core::ptr::eq(copy, names.intern(name)));
        Ok(())
    }

    #[test]
    fn a_full_set_says_kernel() -> Result {
        let names = Names::new();
        let mut text = *b"a0\0";

        for i in 0..SLOTS as u8 {
            text[0] = b'a'.wrapping_add(i / 8);
            text[1] = b'0'.wrapping_add(i % 8);
            let name = CStr::from_bytes_until_nul(&text).map_err(|_| EINVAL)?;
            assert_eq!(names.intern(name).to_bytes(), name.to_bytes());
        }
        assert_eq!(names.intern(c"one_more"), OTHER);
        assert_eq!(names.intern(c"a0").to_bytes(), b"a0");
        Ok(())
    }
}
