// SPDX-License-Identifier: GPL-2.0

//! Clients and devices: who is told of what, in which order, and what nobody sees any more.

use super::util::{wait_until, Counter, Fake};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::{atomic::Relaxed, new_mutex, Arc, Mutex},
    types::Opaque,
    workqueue::{impl_has_work, new_work, Work, WorkItem},
};

#[kunit_tests(rust_verbs_client)]
mod tests {
    use super::*;
    // Both globs below have these.
    use bindings::*;
    use kernel::{
        alloc::flags::GFP_KERNEL,
        error::code::{ENOMEM, EOPNOTSUPP},
    };

    /// What a client was told: its letter, and whether the device came or went.
    #[pin_data]
    struct Diary {
        #[pin]
        lines: Mutex<KVec<(u8, bool, usize)>>,
    }

    /// A client that writes down what it is told.
    #[repr(C)]
    struct Client {
        raw: Opaque<ib_client>,
        letter: u8,
        refuses: bool,
        inside: Counter,
        diary: Arc<Diary>,
    }

    /// # Safety
    ///
    /// Called by the core with a live device.
    unsafe extern "C" fn add(device: *mut ib_device) -> c_int {
        // SAFETY: A client is registered only as long as it is live.
        let client = unsafe { current_client() };
        let Some(client) = client else { return 0 };
        let line = (client.letter, true, device as usize);
        if client.diary.lines.lock().push(line, GFP_KERNEL).is_err() {
            return ENOMEM.to_errno();
        }
        if client.refuses {
            return EOPNOTSUPP.to_errno();
        }
        // SAFETY: The device is being added to this client.
        unsafe {
            ib_set_client_data(
                device,
                client.raw.get(),
                core::ptr::from_ref(client).cast_mut().cast(),
            )
        };
        0
    }

    /// # Safety
    ///
    /// Called by the core with a live device and what `add` has set.
    unsafe extern "C" fn remove(device: *mut ib_device, data: *mut c_void) {
        if data.is_null() {
            return;
        }
        // SAFETY: Set by `add`; clients outlive their registration.
        let client = unsafe { &*data.cast::<Client>() };
        client.inside.fetch_add(1, Relaxed);
        let line = (client.letter, false, device as usize);
        let _ = client.diary.lines.lock().push(line, GFP_KERNEL);
        client.inside.fetch_sub(1, Relaxed);
    }

    /// Which client is being registered, or told: the core calls `add` without saying.
    static CURRENT: kernel::sync::atomic::Atomic<usize> = kernel::sync::atomic::Atomic::new(0);

    /// # Safety
    ///
    /// The client of `CURRENT` must be live.
    unsafe fn current_client<'a>() -> Option<&'a Client> {
        // SAFETY: By the contract of this function.
        unsafe { (CURRENT.load(Relaxed) as *const Client).as_ref() }
    }

    impl Client {
        /// A client that is not registered yet.
        fn new(
            diary: &Arc<Diary>,
            letter: u8,
            refuses: bool,
            add: AddFn,
        ) -> Result<Pin<KBox<Self>>> {
            let mut raw: ib_client = pin_init::zeroed();
            raw.name = c"kunit_client".as_ptr().cast();
            raw.add = Some(add);
            raw.remove = Some(remove);
            let this = KBox::pin(
                Self {
                    raw: Opaque::new(raw),
                    letter,
                    refuses,
                    inside: Counter::new(0),
                    diary: diary.clone(),
                },
                GFP_KERNEL,
            )?;
            Ok(this)
        }
    }

    type AddFn = unsafe extern "C" fn(*mut ib_device) -> c_int;

    fn diary() -> Result<Arc<Diary>> {
        Arc::pin_init(
            pin_init!(Diary {
                lines <- new_mutex!(KVec::new()),
            }),
            GFP_KERNEL,
        )
    }

    /// A registered client; unregistered when dropped.
    struct Registered(Pin<KBox<Client>>);

    impl Registered {
        fn new(client: Pin<KBox<Client>>) -> Result<Self> {
            let raw = client.raw.get();
            CURRENT.store(core::ptr::from_ref(&*client) as usize, Relaxed);
            // SAFETY: Pinned, and unregistered before it goes.
            to_result(unsafe { ib_register_client(raw) })?;
            Ok(Self(client))
        }
    }

    impl Drop for Registered {
        fn drop(&mut self) {
            let raw = self.0.raw.get();
            // SAFETY: Registered by `new`.
            unsafe { ib_unregister_client(raw) };
            CURRENT.store(0, Relaxed);
        }
    }

    fn of_device(diary: &Diary, device: usize) -> Result<KVec<(u8, bool)>> {
        let mut found = KVec::new();
        for (letter, came, of) in diary.lines.lock().iter() {
            if *of == device {
                found.push((*letter, *came), GFP_KERNEL)?;
            }
        }
        Ok(found)
    }

    #[test]
    fn told_of_what_is_there_and_what_comes() -> Result {
        let diary = diary()?;
        let old = Fake::new()?;
        let client = Registered::new(Client::new(&diary, b'a', false, add)?)?;
        let old_at = old.raw() as usize;
        assert_eq!(of_device(&diary, old_at)?.as_slice(), [(b'a', true)]);
        let new = Fake::new()?;
        let new_at = new.raw() as usize;
        assert_eq!(of_device(&diary, new_at)?.as_slice(), [(b'a', true)]);
        drop(new);
        assert_eq!(
            of_device(&diary, new_at)?.as_slice(),
            [(b'a', true), (b'a', false)]
        );
        drop(client);
        assert_eq!(
            of_device(&diary, old_at)?.as_slice(),
            [(b'a', true), (b'a', false)]
        );
        Ok(())
    }

    #[test]
    fn a_client_that_refuses_is_not_told_of_the_end() -> Result {
        let diary = diary()?;
        let _client = Registered::new(Client::new(&diary, b'r', true, add)?)?;
        let device = Fake::new()?;
        let at = device.raw() as usize;
        assert_eq!(of_device(&diary, at)?.as_slice(), [(b'r', true)]);
        drop(device);
        // `EOPNOTSUPP` is "not for me": there is nothing to take back.
        assert_eq!(of_device(&diary, at)?.as_slice(), [(b'r', true)]);
        Ok(())
    }

    /// How many devices each worker makes. There are as many as it takes for each step of one to meet
    /// each step of a client, and no more: on this kernel a device takes a while.
    const DEVICES: usize = 4;

    /// Makes devices and ends them, over and over.
    #[pin_data]
    struct Churn {
        failed: Counter,
        done: Counter,
        #[pin]
        work: Work<Churn>,
    }

    impl_has_work! {
        impl HasWork<Self> for Churn { self.work }
    }

    impl WorkItem for Churn {
        type Pointer = Arc<Self>;

        fn run(this: Arc<Self>) {
            for _ in 0..DEVICES {
                if Fake::new().is_err() {
                    this.failed.fetch_add(1, Relaxed);
                }
            }
            this.done.store(1, Relaxed);
        }
    }

    #[test]
    fn devices_and_clients_come_and_go_at_once() -> Result {
        const WORKERS: usize = 3;
        let mut workers = KVec::new();
        for _ in 0..WORKERS {
            let churn = Arc::pin_init(
                pin_init!(Churn {
                    failed: Counter::new(0),
                    done: Counter::new(0),
                    work <- new_work!("Churn::work"),
                }),
                GFP_KERNEL,
            )?;
            let queued = kernel::workqueue::system_unbound().enqueue(churn.clone());
            assert!(queued.is_ok());
            workers.push(churn, GFP_KERNEL)?;
        }
        let diary = diary()?;
        // Clients come and go as long as devices do.
        let mut failed = Ok(());
        let ended = wait_until(|| {
            failed = Client::new(&diary, b'c', false, add)
                .and_then(Registered::new)
                .map(drop);
            failed.is_err() || workers.iter().all(|churn| churn.done.load(Relaxed) == 1)
        });
        assert!(ended);
        failed?;
        for churn in &workers {
            assert_eq!(churn.failed.load(Relaxed), 0);
        }
        // Whoever was told that a device came was told that it went, in this order.
        let lines = diary.lines.lock();
        for (at, (_, came, device)) in lines.iter().enumerate() {
            if *came {
                let later = lines.iter().skip(at + 1).find(|line| line.2 == *device);
                assert_eq!(later.map(|line| line.1), Some(false));
            }
        }
        Ok(())
    }
}
