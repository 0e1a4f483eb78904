// SPDX-License-Identifier: GPL-2.0

//! Who asked, and how an answer is told.

use super::port::Port;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    mad::{
        client::Answer,
        wire::{
            Header,
            MAD_SIZE, //
        },
    },
    sa::{
        table::Record,
        wire::{
            data,
            Dialect,
            HEADER, //
        },
        ClassPortInfo,
        GuidInfo,
        ListHandler,
        Member,
        OpaClassPortInfo,
        PathRecord,
        RecordHandler,
        Service, //
    },
};

/// In which form a path was asked for, and has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathForm {
    /// InfiniBand.
    Ib,
    /// Omni-Path.
    Opa,
    /// Asked in the InfiniBand form, told in the Omni-Path form.
    Converted,
}

impl PathForm {
    fn read(self, wire: &[u8]) -> Result<PathRecord> {
        match self {
            Self::Ib => PathRecord::unpack(wire),
            Self::Opa => PathRecord::unpack_opa(wire),
            Self::Converted => Ok(PathRecord::unpack(wire)?.ib_to_opa()),
        }
    }
}

/// Who is told how a query ended, once.
pub(super) enum Asker {
    /// Nobody.
    Nobody,
    /// Of a path.
    Path {
        handler: ListHandler<PathRecord>,
        form: PathForm,
    },
    /// Of services.
    Services(ListHandler<Service>),
    /// Of a member of a multicast group.
    Member(RecordHandler<Member>),
    /// Of the GUIDs of a port.
    GuidInfo(RecordHandler<GuidInfo>),
    /// Of what the administration can do; the port's own query of that generation.
    Abilities { dialect: Dialect, generation: u32 },
}

/// What the administration says about the request. With a status it still sends a record.
fn status_of(mad: &[u8; MAD_SIZE]) -> Result {
    match Header::parse(mad) {
        Some(header) if header.status == 0 => Ok(()),
        _ => Err(EINVAL),
    }
}

/// The records of a transfer. Never more than there are whole ones, whatever the headers claim.
///
/// Errors: `ENODATA` if there is none, `ENOMEM`.
fn read_services(answer: &Answer<'_>) -> Result<KVec<Service>> {
    let wanted = answer
        .len()
        .saturating_sub(HEADER)
        .checked_div(Service::TABLE.bytes())
        .unwrap_or(0);
    let mut records = KVec::new();
    split(answer.segments().map(data), wanted, |wire| {
        records.push(Service::unpack(wire)?, GFP_KERNEL)?;
        Ok(())
    })?;
    if records.is_empty() {
        return Err(ENODATA);
    }
    Ok(records)
}

/// Bytes of a service record.
const SERVICE_BYTES: usize = 176;

/// Cuts the data of the segments, which records run across, into at most `wanted` records.
fn split<'a>(
    segments: impl Iterator<Item = &'a [u8]>,
    wanted: usize,
    mut each: impl FnMut(&[u8]) -> Result,
) -> Result {
    let mut record = [0; SERVICE_BYTES];
    let mut filled = 0;
    let mut done = 0;
    for mut segment in segments {
        while !segment.is_empty() && done < wanted {
            let (head, tail) = segment.split_at(segment.len().min(SERVICE_BYTES - filled));
            for (to, from) in record.iter_mut().skip(filled).zip(head) {
                *to = *from;
            }
            filled += head.len();
            segment = tail;
            if filled == SERVICE_BYTES {
                each(&record)?;
                filled = 0;
                done += 1;
            }
        }
    }
    Ok(())
}

impl Asker {
    /// Tells the answer. May sleep.
    pub(super) fn answer(self, port: &Arc<Port>, answer: &Answer<'_>) {
        if !answer.is_received() {
            return self.fail(port, EIO);
        }
        let mad = answer.mad();
        let status = status_of(mad);
        match self {
            Self::Nobody => {}
            Self::Path { handler, form } => match form.read(data(mad)) {
                Ok(path) => handler.tell(status, &mut [path]),
                Err(error) => handler.tell(Err(error), &mut []),
            },
            Self::Services(handler) => match read_services(answer) {
                Ok(mut services) => handler.tell(status, &mut services),
                Err(error) => handler.tell(Err(error), &mut []),
            },
            Self::Member(handler) => tell_record(handler, status, mad),
            Self::GuidInfo(handler) => tell_record(handler, status, mad),
            Self::Abilities {
                dialect,
                generation,
            } => {
                let opa_paths = status.and_then(|()| read_abilities(dialect, mad));
                port.learned(generation, opa_paths);
            }
        }
    }

    /// Tells what user space has found.
    pub(super) fn paths<'a>(
        self,
        port: &Arc<Port>,
        found: impl Iterator<Item = (u32, &'a [u8; 64])>,
    ) {
        /// As many as anybody makes use of: both ways, out, and in.
        const MOST: usize = 3;

        let Self::Path { handler, form } = self else {
            return self.fail(port, EIO);
        };
        // The first one is the path if it has to be converted.
        let most = if form == PathForm::Ib { MOST } else { 1 };
        let mut paths = [None; MOST];
        let read = found.filter_map(|(flags, wire)| {
            let mut path = form.read(wire).ok()?;
            if form == PathForm::Ib {
                path.set_flags(flags);
            }
            Some(path)
        });
        for (slot, path) in paths.iter_mut().zip(read.take(most)) {
            *slot = Some(path);
        }
        match paths {
            [Some(a), Some(b), Some(c)] => handler.tell(Ok(()), &mut [a, b, c]),
            [Some(a), Some(b), _] => handler.tell(Ok(()), &mut [a, b]),
            [Some(a), ..] => handler.tell(Ok(()), &mut [a]),
            _ => handler.tell(Err(EIO), &mut []),
        }
    }

    /// Tells that there is no answer. May sleep.
    pub(super) fn fail(self, port: &Arc<Port>, error: Error) {
        match self {
            Self::Nobody => {}
            Self::Path { handler, .. } => handler.tell(Err(error), &mut []),
            Self::Services(handler) => handler.tell(Err(error), &mut []),
            Self::Member(handler) => handler.tell(Err(error), None),
            Self::GuidInfo(handler) => handler.tell(Err(error), None),
            Self::Abilities { generation, .. } => port.learned(generation, Err(error)),
        }
    }
}

fn tell_record<R: Record>(handler: RecordHandler<R>, status: Result, mad: &[u8; MAD_SIZE]) {
    match R::unpack(data(mad)) {
        Ok(mut record) => handler.tell(status, Some(&mut record)),
        Err(error) => handler.tell(Err(error), None),
    }
}

/// Whether the administration knows paths of the Omni-Path form.
fn read_abilities(dialect: Dialect, mad: &[u8; MAD_SIZE]) -> Result<bool> {
    match dialect {
        Dialect::Ib => ClassPortInfo::unpack(data(mad)).map(|_| false),
        Dialect::Opa => Ok(OpaClassPortInfo::unpack(data(mad))?.has_opa_paths()),
    }
}

#[kunit_tests(rust_ib_core_sa_asker)]
mod tests {
    use super::*;

    fn sizes(segments: &[&[u8]], wanted: usize) -> (usize, u32) {
        let (mut count, mut sum) = (0, 0u32);
        let cut = split(segments.iter().copied(), wanted, |record| {
            count += 1;
            sum += record.iter().map(|byte| u32::from(*byte)).sum::<u32>();
            Ok(())
        });
        assert!(cut.is_ok());
        (count, sum)
    }

    #[test]
    fn records_run_across_segments() {
        let (ones, twos) = ([1u8; 200], [2u8; 200]);
        // The second record has the last 24 bytes of the first segment.
        assert_eq!(sizes(&[&ones, &twos], 2), (2, 176 + 24 + 2 * (176 - 24)));
        assert_eq!(sizes(&[&ones, &twos], 1), (1, 176));
    }

    #[test]
    fn a_record_that_is_not_whole_does_not_count() {
        assert_eq!(sizes(&[&[1; 175]], 7), (0, 0));
        assert_eq!(sizes(&[&[1; 200]], 7), (1, 176));
        assert_eq!(sizes(&[], 7), (0, 0));
        assert_eq!(sizes(&[&[1; 200]], 0), (0, 0));
    }

    #[test]
    fn table_and_split_agree() {
        assert_eq!(Service::TABLE.bytes(), SERVICE_BYTES);
    }

    #[test]
    fn status_of_an_answer() {
        let mut mad = [0; MAD_SIZE];
        assert!(status_of(&mad).is_ok());
        mad[4] = 3;
        assert!(status_of(&mad) == Err(EINVAL));
    }
}
