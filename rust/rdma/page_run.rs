// SPDX-License-Identifier: GPL-2.0

//! Pages that lie one after another in memory, found in one walk over their pointers.
//!
//! A scatter list has one entry for such a run. The kernel's function that builds the list looks
//! at every page twice, which for memory in huge pages is most of what registering it costs.

/// Pages of a subsection, 2 MiB: the unit in which memory, that of devices too, comes into
/// being. Descriptors of one subsection are an array, and its pages have one owner.
pub const SUBSECTION: usize = 512;

/// From how many pages on a run is worth a call of its own.
pub const LONG: usize = 16;

/// From how many pages an entry on it is worth looking for runs.
pub const WORTH: usize = 64;

/// The beginning of a list of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// So many pages that follow one another and lie in one subsection, at least [`LONG`].
    Run(usize),
    /// So many pages before the next run, or the end.
    Mixed(usize),
}

/// Whether two descriptors are neighbours.
fn adjacent<T>(pair: &[*mut T]) -> bool {
    matches!(pair, [a, b] if a.wrapping_add(1) == *b)
}

/// How many of the first `most` descriptors follow one another.
fn leading<T>(pages: &[*mut T], most: usize) -> usize {
    let within = pages.get(..most).unwrap_or(pages);
    let ends = within.windows(2).position(|pair| !adjacent(pair));
    ends.map_or(within.len(), |last| last + 1)
}

/// Where in `window` the last descriptor is that does not follow its predecessor.
fn last_break<T>(window: &[*mut T]) -> Option<usize> {
    window
        .windows(2)
        .rposition(|pair| !adjacent(pair))
        .map(|before| before + 1)
}

/// What the list of descriptors begins with; `None` when it is empty.
///
/// Runs have at most `most` pages, which is at least [`LONG`]. `number` tells the page frame
/// number of a descriptor.
pub fn first<T>(
    pages: &[*mut T],
    most: usize,
    number: impl Fn(*mut T) -> usize,
) -> Option<Stretch> {
    let most = most.clamp(LONG, SUBSECTION);
    let mut mixed = 0;
    while let Some(window @ [head, ..]) = pages.get(mixed..).and_then(|rest| rest.get(..LONG)) {
        // No run is long that begins before the last break within so many pages.
        if let Some(step) = last_break(window) {
            mixed += step;
            continue;
        }
        // Descriptors of two subsections may touch although their pages do not.
        let border = SUBSECTION - number(*head) % SUBSECTION;
        if border < LONG {
            mixed += border;
        } else if mixed == 0 {
            return Some(Stretch::Run(leading(pages, most.min(border))));
        } else {
            return Some(Stretch::Mixed(mixed));
        }
    }
    // What is left is shorter than a long run.
    (!pages.is_empty()).then_some(Stretch::Mixed(pages.len()))
}
