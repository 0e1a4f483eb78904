// SPDX-License-Identifier: GPL-2.0

//! Buffers that a command of user space names.
//!
//! C header: [`include/uapi/rdma/ib_user_ioctl_cmds.h`](srctree/include/uapi/rdma/ib_user_ioctl_cmds.h)

use kernel::{
    bindings,
    prelude::*, //
};

/// Where a command's buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferSource {
    /// At a user address of the calling process.
    UserMemory,
    /// In a dma-buf that the calling process has open; the address is an offset.
    DmaBuf {
        /// File descriptor in the calling process.
        fd: i32,
    },
}

/// A buffer as user space describes it, `struct ib_uverbs_buffer_desc`. Nothing is checked yet.
#[derive(Clone, Copy)]
pub struct BufferDesc(pub(super) bindings::ib_uverbs_buffer_desc);

impl BufferDesc {
    /// A descriptor without flags.
    pub fn new(source: BufferSource, address: u64, length: u64) -> Self {
        let (type_, fd) = match source {
            BufferSource::UserMemory => {
                (bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_VA, 0)
            }
            BufferSource::DmaBuf { fd } => (
                bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_DMABUF,
                fd,
            ),
        };
        Self(bindings::ib_uverbs_buffer_desc {
            type_,
            fd,
            addr: address,
            length,
            ..pin_init::zeroed()
        })
    }

    /// # Safety
    ///
    /// `desc` must point at a descriptor in kernel memory.
    pub unsafe fn from_raw(desc: *const bindings::ib_uverbs_buffer_desc) -> Self {
        // SAFETY: Readable by the contract.
        Self(unsafe { desc.read() })
    }

    /// The descriptor for C.
    pub fn into_raw(self) -> bindings::ib_uverbs_buffer_desc {
        self.0
    }

    /// Whether flags are set that change the meaning in a way unknown here.
    pub fn has_unknown_flags(&self) -> bool {
        self.0.flags & !bindings::IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK != 0
    }

    /// The kind of buffer; `EINVAL` for an unknown one.
    pub fn source(&self) -> Result<BufferSource> {
        match self.0.type_ {
            bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_VA => {
                Ok(BufferSource::UserMemory)
            }
            bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_DMABUF => {
                Ok(BufferSource::DmaBuf { fd: self.0.fd })
            }
            _ => Err(EINVAL),
        }
    }

    /// User address or offset.
    pub fn address(&self) -> u64 {
        self.0.addr
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.0.length
    }
}

/// The attributes by which CREATE_CQ took a buffer before descriptors came.
#[derive(Clone, Copy)]
pub enum CqBufferAttr {
    /// User address.
    Va,
    /// Bytes.
    Length,
    /// File descriptor of a dma-buf.
    Fd,
    /// Offset in the dma-buf.
    Offset,
}

impl CqBufferAttr {
    pub(super) fn id(self) -> u16 {
        (match self {
            Self::Va => {
                bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_VA
            }
            Self::Length => {
                bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH
            }
            Self::Fd => {
                bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_FD
            }
            Self::Offset => {
                bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET
            }
        }) as u16
    }
}
