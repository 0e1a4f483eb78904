// SPDX-License-Identifier: GPL-2.0

//! The datagrams of subnet administration (IBTA volume 1, 15.2.1).

use super::{
    table::Record,
    Components, //
};
use crate::mad::wire::{
    Class,
    MAD_SIZE, //
};
use kernel::prelude::*;

/// Bytes of the headers.
pub const HEADER: usize = Class::SUBN_ADM.data_offset();
/// Bytes of the data of one datagram.
pub const DATA: usize = MAD_SIZE - HEADER;

/// Methods, besides those of all classes.
pub mod method {
    pub use crate::mad::wire::method::{
        GET,
        SET, //
    };
    /// Reads all records that match.
    pub const GET_TABLE: u8 = 0x12;
    /// Deletes a record.
    pub const DELETE: u8 = 0x15;
}

/// Attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// What the class can do.
    ClassPortInfo = 0x01,
    /// GUIDs of a port.
    GuidInfo = 0x30,
    /// Services.
    Service = 0x31,
    /// Paths.
    Path = 0x35,
    /// Members of multicast groups.
    Member = 0x38,
}

/// Versions of the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// InfiniBand.
    Ib,
    /// Omni-Path.
    Opa,
}

impl Dialect {
    /// Version of the common header.
    pub const fn base_version(self) -> u8 {
        match self {
            Self::Ib => crate::mad::wire::BASE_VERSION,
            Self::Opa => crate::mad::wire::OPA_BASE_VERSION,
        }
    }

    const fn class_version(self) -> u8 {
        match self {
            Self::Ib => 2,
            Self::Opa => 0x80,
        }
    }
}

/// A request under construction.
pub struct Draft([u8; MAD_SIZE]);

impl Draft {
    /// A request without data.
    pub fn new(dialect: Dialect, method: u8, attribute: Attribute, components: Components) -> Self {
        const ATTRIBUTE: usize = 16;
        const COMPONENTS: usize = 48;

        let mut bytes = [0; MAD_SIZE];
        let start = [
            dialect.base_version(),
            Class::SUBN_ADM.0,
            dialect.class_version(),
            method,
        ];
        put(&mut bytes, 0, &start);
        put(&mut bytes, ATTRIBUTE, &(attribute as u16).to_be_bytes());
        put(&mut bytes, COMPONENTS, &components.0.to_be_bytes());
        Self(bytes)
    }

    /// Sets the number of the transaction.
    pub fn set_transaction(&mut self, tid: u64) {
        const TRANSACTION: usize = 8;
        put(&mut self.0, TRANSACTION, &tid.to_be_bytes());
    }

    /// Where the record goes.
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.0.get_mut(HEADER..).unwrap_or_default()
    }

    /// Packs a record into the request.
    pub fn with<R: Record>(mut self, record: &R) -> Result<Self> {
        record.pack(self.data_mut())?;
        Ok(self)
    }

    /// The datagram.
    pub fn as_bytes(&self) -> &[u8; MAD_SIZE] {
        &self.0
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(value) {
        *to = *from;
    }
}

/// The data of a datagram.
pub fn data(mad: &[u8; MAD_SIZE]) -> &[u8] {
    mad.get(HEADER..).unwrap_or_default()
}

#[kunit_tests(rust_rdma_sa_wire)]
mod tests {
    use super::*;

    #[test]
    fn header_of_a_request() {
        let mut draft = Draft::new(
            Dialect::Ib,
            method::GET,
            Attribute::Path,
            Components::of([2, 63]),
        );
        draft.set_transaction(0x0102_0304_0506_0708);
        let bytes = draft.as_bytes();
        assert_eq!(bytes[..8], [1, 3, 2, 1, 0, 0, 0, 0]);
        assert_eq!(bytes[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes[16..24], [0, 0x35, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..48], [0; 24]);
        assert_eq!(bytes[48..56], [0x80, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!(bytes[56..], [0; 200]);
    }

    #[test]
    fn versions_of_omni_path() {
        let draft = Draft::new(
            Dialect::Opa,
            method::GET_TABLE,
            Attribute::Service,
            Components::NONE,
        );
        assert_eq!(draft.as_bytes()[..4], [0x80, 3, 0x80, 0x12]);
    }
}
