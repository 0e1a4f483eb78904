// SPDX-License-Identifier: GPL-2.0

//! Where the choices of a test come from: a small generator, so that a failure can be repeated, or
//! the bytes of a fuzzer.

enum Source {
    Seed(u64),
    Bytes { bytes: Vec<u8>, at: usize },
}

pub struct Random(Source);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Source::Seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    /// All choices from these bytes; 0 when they are used up.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(Source::Bytes {
            bytes: bytes.to_vec(),
            at: 0,
        })
    }

    /// Whether there are choices left.
    pub fn has_more(&self) -> bool {
        match &self.0 {
            Source::Seed(_) => true,
            Source::Bytes { bytes, at } => *at < bytes.len(),
        }
    }

    pub fn next(&mut self) -> u64 {
        match &mut self.0 {
            Source::Seed(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                state.wrapping_mul(0x2545_f491_4f6c_dd1d)
            }
            Source::Bytes { bytes, at } => Self::take(bytes, at, 8),
        }
    }

    fn take(bytes: &[u8], at: &mut usize, n: usize) -> u64 {
        let rest = bytes.get(*at..).unwrap_or(&[]);
        let taken = &rest[..n.min(rest.len())];
        *at += taken.len();
        taken
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        match &mut self.0 {
            Source::Seed(_) => (self.next() >> 16) % n,
            Source::Bytes { bytes, at } => {
                let size = if n <= 256 { 1 } else { 4 };
                Self::take(bytes, at, size) % n
            }
        }
    }

    /// True in `n` of 1000 cases.
    pub fn permille(&mut self, n: u64) -> bool {
        match &self.0 {
            Source::Seed(_) => self.below(1000) < n,
            Source::Bytes { .. } => self.below(256) * 1000 < n * 256,
        }
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
