//! Addresses and ranges of events: in the arena or at the ends of the address space, and often at
//! the boundary of an earlier range.

use perforate_types::VirtualAddress;

use crate::sequences::{ARENA, Choices, REGIONS};

/// Number of 4KB pages in a 2MB region.
const REGION_PAGES: u64 = 512;
/// Number of 4KB pages in the lower half of the address space, which belongs to the program.
const HALF_PAGES: u64 = 1 << 35;
/// First page of the upper (kernel) half of the address space.
const UPPER_HALF: u64 = (1 << 52) - HALF_PAGES;
/// Maximum number of remembered range boundaries.
const MOST_MARKS: usize = 16;

/// Pages at which earlier ranges of a sequence began or ended.
#[derive(Default)]
pub(crate) struct Places {
    marks: Vec<u64>,
}

impl Places {
    /// Chooses a page: near the boundary of an earlier range, anywhere in the arena, or at an end
    /// of the address space.
    pub(crate) fn page(&self, choices: &mut impl Choices) -> u64 {
        match choices.below(16) {
            0..=7 if !self.marks.is_empty() => {
                let mark = self.marks[choices.below(self.marks.len() as u64) as usize];
                (mark + choices.below(3)).saturating_sub(1)
            }
            8..=10 => arena_page(choices) / REGION_PAGES * REGION_PAGES,
            11 if choices.one_in(8) => end_of_space(choices),
            _ => arena_page(choices),
        }
    }

    /// Chooses a range, and remembers its boundaries. Returns its start address and its length in
    /// bytes.
    pub(crate) fn range(&mut self, choices: &mut impl Choices) -> (VirtualAddress, u64) {
        let first = self.page(choices);
        let pages = self.length(first, choices);
        self.remember(first, choices);
        self.remember(first.saturating_add(pages), choices);
        (self.start(first, choices), cut(pages, choices))
    }

    /// Chooses the number of pages of a range that begins at `first`.
    fn length(&self, first: u64, choices: &mut impl Choices) -> u64 {
        match choices.below(16) {
            0 => 0,
            1..=6 => 1 + choices.below(4),
            7 | 8 => REGION_PAGES,
            9..=11 => 1 + choices.below(2 * REGION_PAGES),
            12 | 13 => self.until_a_mark(first, choices),
            14 => REGIONS * REGION_PAGES,
            _ if choices.one_in(4) => 1 << (12 + choices.below(30)),
            _ => REGION_PAGES - 1 + choices.below(3),
        }
    }

    fn until_a_mark(&self, first: u64, choices: &mut impl Choices) -> u64 {
        let after: Vec<u64> = self.marks.iter().copied().filter(|&mark| mark > first).collect();
        match after.is_empty() {
            true => 1,
            false => after[choices.below(after.len() as u64) as usize] - first,
        }
    }

    /// Returns the address of a page, or in one of 64 cases an address inside the page.
    fn start(&self, page: u64, choices: &mut impl Choices) -> VirtualAddress {
        let offset = if choices.one_in(64) { choices.below(4096) } else { 0 };
        VirtualAddress::new(page.min((1 << 52) - 1) * 4096 + offset)
    }

    fn remember(&mut self, page: u64, choices: &mut impl Choices) {
        if self.marks.len() < MOST_MARKS {
            self.marks.push(page);
        } else {
            self.marks[choices.below(MOST_MARKS as u64) as usize] = page;
        }
    }
}

fn arena_page(choices: &mut impl Choices) -> u64 {
    ARENA / 4096 + choices.below(REGIONS * REGION_PAGES)
}

/// Chooses a page at an end of either half of the address space, or in the non-canonical gap
/// between them, where no program can map memory.
fn end_of_space(choices: &mut impl Choices) -> u64 {
    let end = [0, HALF_PAGES, UPPER_HALF, 1 << 52][choices.below(4) as usize];
    (end + choices.below(3)).saturating_sub(1)
}

/// Returns the length of `pages` pages in bytes, in one of 16 cases without a part of the last
/// page.
fn cut(pages: u64, choices: &mut impl Choices) -> u64 {
    let missing = if pages > 0 && choices.one_in(16) { choices.below(4096) } else { 0 };
    pages.saturating_mul(4096) - missing
}
