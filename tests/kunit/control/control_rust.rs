// SPDX-License-Identifier: GPL-2.0

//! Deliberate bugs in Rust, each of which a checker of the debug kernel has to
//! report between the two lines that a test prints.

use kernel::prelude::*;

module! {
    type: Control,
    name: "control_rust",
    description: "Deliberate bugs for the checkers of the debug kernel",
    license: "GPL",
}

struct Control;

impl kernel::Module for Control {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

// In this order: the report of lockdep on the order of locks is its last, and a
// mutex under a spinlock is one to it as well, of the contexts of locks.
#[kunit_tests(control_rust)]
mod tests {
    use core::hint::black_box;
    use kernel::sync::{new_mutex, new_spinlock, Mutex, SpinLock};

    use super::*;

    /// Prints the line before, and when dropped the one after.
    struct Marked(&'static str);

    impl Marked {
        fn new(name: &'static str) -> Self {
            pr_info!("control: begin rust_{}\n", name);
            Self(name)
        }
    }

    impl Drop for Marked {
        fn drop(&mut self) {
            pr_info!("control: end rust_{}\n", self.0);
        }
    }

    #[pin_data]
    struct Locks {
        #[pin]
        spin: SpinLock<u32>,
        #[pin]
        other: SpinLock<u32>,
        #[pin]
        mutex: Mutex<u32>,
    }

    impl Locks {
        fn new() -> Result<Pin<KBox<Self>>> {
            KBox::pin_init(
                pin_init!(Self {
                    spin <- new_spinlock!(0),
                    other <- new_spinlock!(0),
                    mutex <- new_mutex!(0),
                }),
                GFP_KERNEL,
            )
        }
    }

    #[test]
    fn leak() -> Result {
        let _marked = Marked::new("leak");
        for i in 0..10u8 {
            core::mem::forget(KBox::new([i; 256], GFP_KERNEL)?);
        }
        Ok(())
    }

    #[test]
    fn lock_inversion() -> Result {
        let _marked = Marked::new("lock_inversion");
        let locks = Locks::new()?;
        {
            let mut first = locks.spin.lock();
            *first += *locks.other.lock();
        }
        let mut first = locks.other.lock();
        *first += *locks.spin.lock();
        Ok(())
    }

    #[test]
    fn atomic_sleep() -> Result {
        let _marked = Marked::new("atomic_sleep");
        let locks = Locks::new()?;
        let mut spinning = locks.spin.lock();
        *spinning += *locks.mutex.lock();
        Ok(())
    }

    #[test]
    fn use_after_free() -> Result {
        let _marked = Marked::new("use_after_free");
        let freed = KBox::into_raw(KBox::new([1u8; 64], GFP_KERNEL)?);
        // SAFETY: The pointer is that of a box just taken apart.
        drop(unsafe { KBox::from_raw(freed) });
        // SAFETY: None: the memory is free. That is the bug.
        black_box(unsafe { black_box(freed).cast::<u8>().read_volatile() });
        Ok(())
    }

    #[test]
    fn out_of_bounds() -> Result {
        let _marked = Marked::new("out_of_bounds");
        let bytes = KBox::new([1u8; 64], GFP_KERNEL)?;
        let start: *const u8 = black_box(bytes.as_ptr());
        // SAFETY: None: the byte after the box is not ours. That is the bug.
        black_box(unsafe { start.wrapping_add(64).read_volatile() });
        Ok(())
    }
}
