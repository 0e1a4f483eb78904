// SPDX-License-Identifier: GPL-2.0

//! Directories in sysfs that belong to Rust data.
//!
//! C headers: [`include/linux/kobject.h`](srctree/include/linux/kobject.h),
//! [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h)

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    },
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::Opaque, //
};

/// A `struct kobject`: something that directories can be made in.
///
/// # Invariants
///
/// The kobject is initialised and valid as long as the reference.
#[repr(transparent)]
pub struct Kobject(Opaque<bindings::kobject>);

impl Kobject {
    /// Views a C kobject.
    ///
    /// # Safety
    ///
    /// `ptr` is valid for `'a` and initialised.
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::kobject) -> &'a Self {
        // SAFETY: The type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The C kobject.
    pub fn as_raw(&self) -> *mut bindings::kobject {
        self.0.get()
    }

    /// Adds the files of groups that C code has, a null-terminated list.
    ///
    /// # Safety
    ///
    /// `groups` is null or such a list. It stays valid, and its attributes fit the owner of the
    /// directory, until [`remove_groups`](Self::remove_groups).
    pub unsafe fn create_groups(&self, groups: *const *const bindings::attribute_group) -> Result {
        // SAFETY: By the contract.
        to_result(unsafe { bindings::sysfs_create_groups(self.as_raw(), groups) })
    }

    /// Removes the files of groups, and waits for those who read or write them.
    ///
    /// # Safety
    ///
    /// `groups` was given to [`create_groups`](Self::create_groups), or is null.
    pub unsafe fn remove_groups(&self, groups: *const *const bindings::attribute_group) {
        // SAFETY: By the contract.
        unsafe { bindings::sysfs_remove_groups(self.as_raw(), groups) }
    }
}

/// The most groups that a directory can have.
const MAX_GROUPS: usize = 7;

/// Collects the groups of a directory.
pub struct GroupList {
    groups: [*const bindings::attribute_group; MAX_GROUPS + 1],
    len: usize,
    foreign: *const *const bindings::attribute_group,
}

impl GroupList {
    const EMPTY: GroupList = GroupList {
        groups: [ptr::null(); MAX_GROUPS + 1],
        len: 0,
        foreign: ptr::null(),
    };

    /// Adds a group.
    ///
    /// # Safety
    ///
    /// The group stays valid and in place as long as the data of the directory.
    pub(crate) unsafe fn push(&mut self, group: *const bindings::attribute_group) {
        // The last place stays null.
        if self.len < MAX_GROUPS {
            if let Some(slot) = self.groups.get_mut(self.len) {
                *slot = group;
                self.len = self.len.wrapping_add(1);
            }
        }
    }

    /// Adds the groups of a driver, a null-terminated list, or null.
    ///
    /// # Safety
    ///
    /// The list stays valid as long as the data of the directory, and fits their type.
    pub(crate) unsafe fn set_foreign(&mut self, groups: *const *const bindings::attribute_group) {
        self.foreign = groups;
    }
}

/// What a directory is about.
///
/// # Safety
///
/// The groups that [`groups`](Self::groups) lists belong to `self`, do not move with it, and their
/// attributes are such that `OPS`, which gets the kobject of a [`Dir`] of `self`, can handle them.
pub unsafe trait DirData: Send + Sync + Sized + 'static {
    /// How files are read and written.
    const OPS: Option<&'static bindings::sysfs_ops>;

    /// Lists the groups of files.
    fn groups(&self, list: &mut GroupList);
}

#[repr(C)]
struct Head {
    kobj: bindings::kobject,
    groups: GroupList,
}

/// A directory and its data.
///
/// # Invariants
///
/// The kobject is initialised with the release function of `T`.
#[repr(C)]
pub struct Dir<T> {
    head: Opaque<Head>,
    data: T,
}

impl<T: DirData> Dir<T> {
    const TYPE: &'static bindings::kobj_type = &bindings::kobj_type {
        release: Some(Self::release),
        sysfs_ops: match T::OPS {
            Some(ops) => ops,
            None => ptr::null(),
        },
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by the kobject core when the last reference to the kobject of a `Dir<T>` is gone.
    unsafe extern "C" fn release(kobj: *mut bindings::kobject) {
        // SAFETY: The kobject is the first field of a boxed `Dir<T>`, which `create` leaked.
        drop(unsafe { KBox::from_raw(kobj.cast::<Self>()) });
    }

    /// Views the directory of a kobject.
    ///
    /// # Safety
    ///
    /// `kobj` is the kobject of a `Dir<T>`, and valid for `'a`.
    pub unsafe fn from_kobj<'a>(kobj: *mut bindings::kobject) -> &'a Self {
        // SAFETY: The kobject is the first field.
        unsafe { &*kobj.cast::<Self>() }
    }

    /// Makes a directory with its files.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EEXIST`.
    pub fn create(data: T, parent: &Kobject, name: &CStr) -> Result<OwnedDir<T>> {
        let dir = KBox::new(
            Dir {
                head: Opaque::new(Head {
                    kobj: pin_init::zeroed(),
                    groups: GroupList::EMPTY,
                }),
                data,
            },
            GFP_KERNEL,
        )?;
        let head = dir.head.get();

        // SAFETY: The directory is ours alone; it is given to the kobject core, whose first
        // reference is ours.
        let kobj = unsafe {
            dir.data.groups(&mut (*head).groups);
            let dir = KBox::into_raw(dir);
            bindings::kobject_init(dir.cast(), Self::TYPE);
            Kobject::from_raw(dir.cast())
        };
        let unplaced = Reference(NonNull::from(kobj));

        // SAFETY: Both kobjects are valid, and the format takes one string.
        to_result(unsafe {
            bindings::kobject_add(
                kobj.as_raw(),
                parent.as_raw(),
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            )
        })?;
        let placed = Placed(unplaced);

        // SAFETY: By the contract of `DirData`.
        unsafe {
            kobj.create_groups((&raw const (*head).groups.groups).cast())?;
            if let Err(e) = kobj.create_groups((*head).groups.foreign) {
                kobj.remove_groups((&raw const (*head).groups.groups).cast());
                return Err(e);
            }
        }
        // INVARIANT: The directory is complete.
        let _ = ManuallyDrop::new(placed);
        Ok(OwnedDir(NonNull::from(kobj).cast(), PhantomData))
    }

    /// The kobject.
    pub fn kobject(&self) -> &Kobject {
        // SAFETY: By the type invariant.
        unsafe { Kobject::from_raw(self.head.get().cast()) }
    }
}

impl<T> Deref for Dir<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.data
    }
}

/// A reference to a kobject, dropped on an error.
struct Reference(NonNull<Kobject>);

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::kobject_put(self.0.as_ptr().cast()) };
    }
}

/// A kobject that is in sysfs, taken out on an error.
struct Placed(Reference);

impl Drop for Placed {
    fn drop(&mut self) {
        // SAFETY: The kobject is valid and was added.
        unsafe { bindings::kobject_del(self.0 .0.as_ptr().cast()) };
    }
}

/// A directory that goes away with this value, once nobody reads or writes its files.
///
/// # Invariants
///
/// The directory is complete, and one reference to its kobject belongs to this value.
pub struct OwnedDir<T: DirData>(NonNull<Dir<T>>, PhantomData<T>);

// SAFETY: `T` is `Send` and `Sync`, and a directory may be removed by any task.
unsafe impl<T: DirData> Send for OwnedDir<T> {}

// SAFETY: As above.
unsafe impl<T: DirData> Sync for OwnedDir<T> {}

impl<T: DirData> OwnedDir<T> {
    /// Gives the directory away.
    pub fn into_kobj(self) -> *mut bindings::kobject {
        ManuallyDrop::new(self).0.as_ptr().cast()
    }

    /// Takes a directory back.
    ///
    /// # Safety
    ///
    /// `kobj` came from [`into_kobj`](Self::into_kobj), for the same `T`, and is not used as an
    /// owner again.
    pub unsafe fn from_kobj(kobj: NonNull<bindings::kobject>) -> Self {
        // INVARIANT: By the contract.
        Self(kobj.cast(), PhantomData)
    }
}

impl<T: DirData> Deref for OwnedDir<T> {
    type Target = Dir<T>;

    fn deref(&self) -> &Dir<T> {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl<T: DirData> Drop for OwnedDir<T> {
    fn drop(&mut self) {
        let head = self.head.get();
        let kobj = self.kobject();
        // SAFETY: By the type invariant; the groups are those that `create` added.
        unsafe {
            kobj.remove_groups((*head).groups.foreign);
            kobj.remove_groups((&raw const (*head).groups.groups).cast());
            bindings::kobject_del(kobj.as_raw());
            bindings::kobject_put(kobj.as_raw());
        }
    }
}
