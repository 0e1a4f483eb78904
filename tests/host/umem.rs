// SPDX-License-Identifier: GPL-2.0

//! Page sizes, blocks and ranges of memory regions against a plain 128-bit model, with random
//! scatter lists (`rust_test.py`; by hand `rustc -O --edition 2021 tests/host/umem.rs && ./umem 100000`).

#![allow(dead_code)]

#[path = "../../drivers/infiniband/core/iter/blocks.rs"]
mod blocks;
#[path = "../../rust/rdma/page_run.rs"]
mod page_run;
#[path = "../../drivers/infiniband/core/umem/page_size.rs"]
mod page_size;
#[path = "../../rust/rdma/region.rs"]
mod region;

use blocks::{take_block, SegmentWalk};
use page_size::{best, Layout};
use region::Region;

/// A small generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A number of random magnitude up to 2^`bits`.
    fn magnitude(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits + 1);
        if bits == 0 {
            0
        } else {
            self.next() >> (64 - bits)
        }
    }
}

struct Walk<'a> {
    segments: &'a [(u64, u32)],
    consumed: u32,
}

impl SegmentWalk for Walk<'_> {
    fn segment(&self) -> Option<(u64, u32)> {
        self.segments.first().copied()
    }
    fn consumed(&self) -> u32 {
        self.consumed
    }
    fn set_consumed(&mut self, bytes: u32) {
        self.consumed = bytes;
    }
    fn step(&mut self) {
        self.segments = &self.segments[1..];
        self.consumed = 0;
    }
}

/// Contiguous runs of the list as (start, length), in 128 bits.
fn runs(segments: &[(u64, u32)]) -> Vec<(u128, u128)> {
    let mut runs: Vec<(u128, u128)> = Vec::new();
    for &(addr, len) in segments {
        match runs.last_mut() {
            Some((start, length)) if *start + *length == u128::from(addr) => {
                *length += u128::from(len)
            }
            _ => runs.push((addr.into(), len.into())),
        }
    }
    runs
}

/// The model: the definition of a fitting page size, byte arithmetic in 128 bits.
fn model_best(supported: u64, layout: Layout, segments: &[(u64, u32)]) -> u64 {
    let iova = u128::from(layout.iova);
    let last = iova + u128::from(layout.length) - 1;
    if layout.length == 0 || last >= 1 << 64 {
        return 0;
    }
    // The first byte of the region lies `offset` into the first segment.
    let fits = |page: u128| {
        let mut va = iova as i128 - i128::from(layout.offset);
        for (i, (start, length)) in runs(segments).into_iter().enumerate() {
            let congruent = (start as i128 - va).rem_euclid(page as i128) == 0;
            if !congruent || (i != 0 && va.rem_euclid(page as i128) != 0) {
                return false;
            }
            va += length as i128;
        }
        true
    };
    // The largest that fits, but none above the smallest that holds everything in one page.
    let mut best = 0;
    for size in (0..64)
        .map(|bit| 1u64 << bit)
        .filter(|size| supported & size != 0)
    {
        if fits(size.into()) {
            best = size;
        }
        if iova / u128::from(size) == last / u128::from(size) {
            break;
        }
    }
    best
}

/// The model of a walk: cut each run at multiples of the block size.
fn model_blocks(segments: &[(u64, u32)], bits: u32) -> Vec<u64> {
    let size = 1u128 << bits;
    let mut blocks = Vec::new();
    for (start, length) in runs(segments) {
        let (mut at, end) = (start, start + length);
        while at < end {
            blocks.push(at as u64);
            at = (at / size + 1) * size;
        }
    }
    blocks
}

fn walk(segments: &[(u64, u32)], bits: u32) -> Vec<u64> {
    let mut walk = Walk {
        segments,
        consumed: 0,
    };
    std::iter::from_fn(|| take_block(&mut walk, bits)).collect()
}

fn random_list(r: &mut Random) -> Vec<(u64, u32)> {
    let align = [12, 12, 12, 16, 21, 30][r.below(6) as usize];
    let mut at = r.magnitude(52) >> align << align;
    let mut list = Vec::new();
    for _ in 0..1 + r.below(6) {
        let len = (r.magnitude(32) as u32 & 0xffff_f000).max(1 << 12);
        list.push((at, len));
        at += u64::from(len);
        if r.below(3) == 0 {
            // A gap of a random number of pages, sometimes of large alignment.
            at = (at + (1 + r.below(64) << 12))
                .next_multiple_of(1 << [12, 16, 21][r.below(3) as usize]);
        }
    }
    list
}

fn check_best(supported: u64, layout: Layout, list: &[(u64, u32)]) -> u64 {
    let got = best(supported, layout, list.iter().copied());
    let want = model_best(supported, layout, list);
    assert_eq!(
        got, want,
        "supported {supported:#x} iova {:#x} length {:#x} offset {:#x} list {list:x?}",
        layout.iova, layout.length, layout.offset
    );
    got
}

fn fixed_cases() {
    const L: u32 = 0xffff_f000;
    let pages = !0xfffu64;
    // Five entries of nearly 4 GiB back to back, then 16 KiB.
    let mut list: Vec<(u64, u32)> = (0..5u64)
        .map(|i| (0x100_0000_0000 + i * u64::from(L), L))
        .collect();
    list.push((0x100_0000_0000 + 5 * u64::from(L), 0x4000));
    let length = 5 * u64::from(L) + 0x4000;
    let layout = |iova, length, offset| Layout {
        iova,
        length,
        offset,
    };
    check_best(pages, layout(0x100_0000_0000, length, 0), &list);
    for bits in [12, 21, 30, 32, 33, 35, 63] {
        assert_eq!(walk(&list, bits), model_blocks(&list, bits), "{bits}");
    }
    // 5 GiB in two entries.
    let big = [(0x40_0000_0000, 0x8000_0000), (0x40_8000_0000, 0xc000_0000)];
    check_best(pages, layout(0x40_0000_0000, 5 << 30, 0), &big);
    // 64 KiB alignment with an offset in the first page.
    let list = [(0x1_0000, 0x1_0000), (0x8_0000, 0x1_0000)];
    check_best(pages, layout(0x1_0080, 0x1_ff00, 0x80), &list);
    // A device page smaller than the system page.
    check_best(!0x3f, layout(0x1_0080, 0x1_ff00, 0x80), &list);
    check_best(1 << 10, layout(0x1_0480, 0x1_ff00, 0x80), &list);
    // Beyond the last address.
    assert_eq!(
        best(
            pages,
            layout(u64::MAX - 0xfff, 0x1001, 0),
            [(0, 0x2000)].into_iter()
        ),
        0
    );
    assert_eq!(best(pages, layout(0, 0, 0), [(0, 0x2000)].into_iter()), 0);
    assert_ne!(
        best(
            pages,
            layout(u64::MAX - 0xfff, 0x1000, 0),
            [(0, 0x1000)].into_iter()
        ),
        0
    );
}

fn random_cases(count: u32) {
    let mut r = Random(0x9e37_79b9_7f4a_7c15);
    let mut found = [0u32; 64];
    for _ in 0..count {
        let list = random_list(&mut r);
        let total: u64 = list.iter().map(|s| u64::from(s.1)).sum();
        let offset = [0, r.below(4096)][r.below(2) as usize];
        let length = total - offset - [0, r.below(4096 - offset)][r.below(2) as usize];
        // Mostly congruent with the bus address to some random degree.
        let bits = r.below(48);
        let low = list[0].0.wrapping_add(offset) & ((1 << bits) - 1);
        let iova = r.magnitude(64) >> bits << bits | low;
        let supported = match r.below(4) {
            0 => !0xfff,
            1 => 0x4020_1000,
            2 => r.next() & !0x3f,
            _ => u64::MAX,
        };
        let layout = Layout {
            iova,
            length,
            offset,
        };
        let got = check_best(supported, layout, &list);
        if got != 0 {
            found[got.ilog2() as usize] += 1;
        }
        // Aligned lists in blocks no larger than their alignment at gaps, as drivers ask for.
        let bits = 12 + r.below(4) as u32;
        let blocks = walk(&list, bits);
        let aligned = runs(&list)
            .iter()
            .skip(1)
            .all(|(start, _)| start % (1 << bits) == 0);
        let closed = runs(&list)
            .iter()
            .rev()
            .skip(1)
            .all(|(start, len)| (start + len) % (1 << bits) == 0);
        if aligned && closed && blocks.len() < 1 << 22 {
            assert_eq!(blocks, model_blocks(&list, bits), "{bits} {list:x?}");
        }

        let (start, length) = (r.magnitude(64), r.magnitude(64));
        let end = u128::from(start) + u128::from(length);
        let up = end.next_multiple_of(4096);
        match Region::new(start, length) {
            None => assert!(up >= 1 << 64),
            Some(region) => {
                assert!(up < 1 << 64);
                assert_eq!(
                    u128::from(region.pages()),
                    (up - u128::from(start) / 4096 * 4096) / 4096
                );
                let shift = 12 + r.below(19) as u32;
                let size = 1u128 << shift;
                match region.enclosing(shift) {
                    None => assert!(end.next_multiple_of(size) >= 1 << 64),
                    Some(pages) => {
                        assert_eq!(u128::from(pages.start()), u128::from(start) / size * size);
                        assert_eq!(u128::from(pages.end()), end.next_multiple_of(size));
                        assert!(pages.contains(region));
                    }
                }
            }
        }
    }
    println!("page sizes found: {found:?}");
}

/// Descriptors as the kernel lays them out: an array, that of page `first` at the beginning.
struct Map {
    first: usize,
}

type Descriptor = [u64; 8];

impl Map {
    fn descriptor(&self, number: usize) -> *mut Descriptor {
        std::ptr::without_provenance_mut((number - self.first + 1) * size_of::<Descriptor>())
    }

    fn number(&self, page: *mut Descriptor) -> usize {
        page.addr() / size_of::<Descriptor>() - 1 + self.first
    }
}

/// A list of pages is taken to pieces that are runs, or have none that would be worth it.
fn page_runs(count: u32) {
    use page_run::{first, Stretch, LONG, SUBSECTION};
    let mut r = Random(0x2545_f491_4f6c_dd1d);
    let map = Map { first: 1 << 20 };
    let (mut longest, mut runs, mut mixed) = (0, 0, 0);
    for _ in 0..count {
        let mut numbers: Vec<usize> = Vec::new();
        while numbers.len() < 1024 && r.below(12) != 0 {
            let start = map.first + r.below(1 << 16) as usize;
            let length = 1 + r.magnitude(10) as usize;
            match r.below(4) {
                0 => numbers.extend((start..start + length).rev()),
                1 => numbers.extend((start..start + length).map(|n| n & !1)),
                _ => numbers.extend(start..start + length),
            }
        }
        let pages: Vec<_> = numbers.iter().map(|n| map.descriptor(*n)).collect();
        let most = [SUBSECTION * 2, LONG, 64, 100][r.below(4) as usize];
        let follows = |at: usize| numbers[at] == numbers[at - 1] + 1;
        let mut at = 0;
        while let Some(stretch) = first(&pages[at..], most, |page| map.number(page)) {
            match stretch {
                Stretch::Run(n) => {
                    assert!(n >= LONG && n <= most);
                    assert!((at + 1..at + n).all(follows));
                    let (start, end) = (numbers[at], numbers[at + n - 1]);
                    assert_eq!(start / SUBSECTION, end / SUBSECTION);
                    // It ends where it has to.
                    let next = at + n;
                    assert!(
                        n == most
                            || next == pages.len()
                            || !follows(next)
                            || numbers[next] % SUBSECTION == 0
                    );
                    longest = longest.max(n);
                    runs += 1;
                    at += n;
                }
                Stretch::Mixed(n) => {
                    assert_ne!(n, 0);
                    // No LONG pages of one subsection follow one another, apart from the start of
                    // a run that a border has cut.
                    let mut length = 1;
                    for i in at + 1..at + n {
                        let same = numbers[i] % SUBSECTION != 0;
                        length = if follows(i) && same { length + 1 } else { 1 };
                        assert!(length < LONG, "{length} at {i}");
                    }
                    mixed += 1;
                    at += n;
                }
            }
        }
        assert_eq!(at, pages.len());
    }
    assert_eq!(longest, SUBSECTION);
    assert!(runs > count && mixed > count);
}

fn main() {
    fixed_cases();
    let count = std::env::args().nth(1).and_then(|n| n.parse().ok());
    random_cases(count.unwrap_or(5_000));
    page_runs(10_000);
    println!("ok");
}
