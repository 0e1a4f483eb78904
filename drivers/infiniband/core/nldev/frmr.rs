// SPDX-License-Identifier: GPL-2.0

//! Pools of fast-registration handles.

use kernel::prelude::*;
use rdma::{
    netlink::{
        AttrWriter,
        Attrs,
        Dump,
        DumpHandler,
        Handler,
        Progress,
        Request, //
    },
    nldev::frmr::{
        self,
        Key,
        Pool,
        Pools, //
    },
};

use super::{
    fill,
    policy::{
        FRMR_POOLS,
        FRMR_POOLS_AGING_PERIOD,
        FRMR_POOL_ENTRY,
        FRMR_POOL_IN_USE,
        FRMR_POOL_KEY,
        FRMR_POOL_KEY_ACCESS_FLAGS,
        FRMR_POOL_KEY_ATS,
        FRMR_POOL_KEY_KERNEL_VENDOR_KEY,
        FRMR_POOL_KEY_NUM_DMA_BLOCKS,
        FRMR_POOL_KEY_VENDOR_KEY,
        FRMR_POOL_MAX_IN_USE,
        FRMR_POOL_PINNED_HANDLES,
        FRMR_POOL_QUEUE_HANDLES,
        POLICY, //
    },
    CLIENT, FRMR_POOLS_GET,
};

fn put_key(out: &mut AttrWriter<'_>, key: &Key) -> Result {
    let mut nest = out.nest(FRMR_POOL_KEY)?;
    nest.put(FRMR_POOL_KEY_ATS, key.ats.into())?;
    nest.put(FRMR_POOL_KEY_ACCESS_FLAGS, key.access_flags)?;
    nest.put(FRMR_POOL_KEY_VENDOR_KEY, key.vendor_key)?;
    nest.put(FRMR_POOL_KEY_NUM_DMA_BLOCKS, key.num_dma_blocks)?;
    let kernel = Some(key.kernel_vendor_key).filter(|key| *key != 0);
    nest.put_some(FRMR_POOL_KEY_KERNEL_VENDOR_KEY, kernel)?;
    nest.end()
}

fn put(out: &mut AttrWriter<'_>, pool: &Pool<'_>) -> Result {
    let mut entry = out.nest_unmarked(FRMR_POOL_ENTRY)?;
    put_key(&mut entry, &pool.key())?;
    let info = pool.info();
    entry.put(FRMR_POOL_QUEUE_HANDLES, info.queued)?;
    entry.put(FRMR_POOL_MAX_IN_USE, info.max_in_use)?;
    entry.put(FRMR_POOL_IN_USE, info.in_use)?;
    entry.put(FRMR_POOL_PINNED_HANDLES, info.pinned)?;
    entry.end()
}

/// `FRMR_POOLS_GET`. The cursor is the number of pools told of: pools only come, and rarely.
pub(super) struct Get;

impl DumpHandler for Get {
    fn dump(dump: &mut Dump<'_>) -> Result<Progress> {
        let attrs = dump.attrs(&POLICY).map_err(|_| EINVAL)?;
        let device = fill::device(dump.netns(), &attrs)?;
        let details = fill::wants_details(&attrs);
        if !frmr::has_pools(&device) {
            return Ok(Progress::Done);
        }
        let start = dump.cursor();
        let mut told = start;
        let mut full = false;

        let mut message = dump.message(CLIENT, FRMR_POOLS_GET)?;
        fill::put_device(&mut message, &device)?;
        let mut table = message.nest_unmarked(FRMR_POOLS)?;
        if let Some(pools) = Pools::lock(&device) {
            for pool in pools
                .iter()
                .filter(|pool| details || pool.key().kernel_vendor_key == 0)
                .skip(usize::try_from(start)?)
            {
                full = put(&mut table, &pool).is_err();
                if full {
                    break;
                }
                told += 1;
            }
        }
        if told == start {
            // Nothing left, unless a pool does not even fit an empty buffer.
            return if full {
                Err(EMSGSIZE)
            } else {
                Ok(Progress::Done)
            };
        }
        table.end()?;
        message.end();
        dump.set_cursor(told);
        Ok(Progress::More)
    }
}

/// `FRMR_POOLS_SET`: the first of ageing period and pinned handles that the request has.
pub(super) struct Set;

impl Handler for Set {
    fn invalid(error: Error) -> Error {
        error
    }

    fn handle<'a>(request: &mut Request<'a>, attrs: &Attrs<'a>) -> Result {
        let device = fill::device(request.netns(), attrs)?;

        if let Some(seconds) = attrs.get(FRMR_POOLS_AGING_PERIOD) {
            return frmr::set_aging_period(&device, seconds);
        }
        let Some(handles) = attrs.get(FRMR_POOL_PINNED_HANDLES) else {
            return Ok(());
        };
        let key = request.nested_attrs(&POLICY, attrs, FRMR_POOL_KEY)?;
        if key.has(FRMR_POOL_KEY_KERNEL_VENDOR_KEY) {
            // Such pools are not for user space.
            return Err(EINVAL);
        }
        let key = Key {
            ats: key.get(FRMR_POOL_KEY_ATS).unwrap_or(0) & 1 != 0,
            access_flags: key.get(FRMR_POOL_KEY_ACCESS_FLAGS).unwrap_or(0),
            vendor_key: key.get(FRMR_POOL_KEY_VENDOR_KEY).unwrap_or(0),
            kernel_vendor_key: 0,
            num_dma_blocks: key.get(FRMR_POOL_KEY_NUM_DMA_BLOCKS).unwrap_or(0),
        };
        frmr::set_pinned(&device, key, handles)
    }
}
