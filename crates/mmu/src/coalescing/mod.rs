//! TLB coalescing: an entry of the second-level TLB that holds a run of 4KB pages (G §5.7; CoLT,
//! Pham et al., MICRO 2012).
//!
//! Virtual pages are divided into aligned windows. After a walk to a 4KB page, the walker examines
//! the other entries of the window. Pages that continue the same mapping share one TLB entry: their
//! frames must be consecutive, and their permissions and dirty bits equal. As in G, examining the
//! neighbours is free; up to 8 entries are in the cache line that the walk has just read, 32 in
//! four lines. Accessed bits are neither checked nor set: Linux creates entries with the bit set,
//! and no code here clears it.
//!
//! Other instruction sets have page-table entries that say themselves that they belong to a block
//! of 64KB (Arm's contiguous bit, RISC-V's Svnapot; [`Contiguity`]). The walker then compares
//! nothing: it believes the one entry that it has read. A store sets the dirty bit of one entry of
//! the block, and the TLB entry counts as dirty for all of its pages.
//!
//! Coalescing belongs to the pipeline, not to a mechanism: any machine's second-level TLB can
//! coalesce under any scheme (`tlb.l2_coalescing` of a machine file). The schemes `4k-colt-*` are
//! 4KB pages with coalescing on every machine.

mod entries;
mod fill;

use perforate_types::{CONTIGUOUS_PAGES, Contiguity, Frame, SpaceId, VirtualPage};
use serde::{Deserialize, Serialize};

use crate::{Reach, allow};

/// Coalescing of 4KB pages in the second-level TLB: `tlb.l2_coalescing` of a machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coalescing {
    /// Number of pages in a window, and so the maximum in one entry; a power of two from 2 to 32.
    pub pages: u64,
    /// Rule by which pages of a window share an entry.
    pub form: CoalescingForm,
}

/// Rule by which pages of a window share an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoalescingForm {
    /// All pages of the window share an entry, or none does.
    Groups,
    /// As `groups`, if the first frame of the window is aligned to the window's length, too.
    AlignedGroups,
    /// The pages of the longest run around the accessed page share an entry (CoLT-SA).
    Runs,
    /// All pages of a block of 64KB share an entry if the entry read by the walk has Arm's
    /// contiguous bit.
    ContiguousBit,
    /// All pages of a block of 64KB share an entry if the entry read by the walk is a NAPOT entry
    /// (RISC-V, Svnapot).
    Napot,
}

impl CoalescingForm {
    /// Encoding of contiguous pages that the operating system writes into page-table entries;
    /// `None` if the walker compares entries instead.
    pub const fn contiguity(self) -> Option<Contiguity> {
        match self {
            Self::Groups | Self::AlignedGroups | Self::Runs => None,
            Self::ContiguousBit => Some(Contiguity::ContiguousBit),
            Self::Napot => Some(Contiguity::Napot),
        }
    }
}

impl Coalescing {
    /// Maximum number of pages in a window, because an entry has 5 bits for the length of a run.
    pub const MAXIMUM_PAGES: u64 = 32;

    pub(crate) const fn is_possible(self) -> bool {
        match self.form.contiguity() {
            Some(_) => self.pages == CONTIGUOUS_PAGES,
            None => {
                self.pages >= 2 && self.pages <= Self::MAXIMUM_PAGES && self.pages.is_power_of_two()
            }
        }
    }

    /// True if every entry covers its whole window, so that the first level can hold it.
    pub(crate) fn is_whole(self) -> bool {
        self.form != CoalescingForm::Runs
    }

    /// True if this run gets one TLB entry: a whole window, or at least two pages (`Runs`).
    pub(crate) const fn holds(self, run: &Run) -> bool {
        match self.form {
            CoalescingForm::Runs => run.pages > 1,
            CoalescingForm::AlignedGroups => {
                run.pages == self.pages && run.frame.number().is_multiple_of(self.pages)
            }
            CoalescingForm::Groups | CoalescingForm::ContiguousBit | CoalescingForm::Napot => {
                run.pages == self.pages
            }
        }
    }

    /// Returns the accesses that an entry of the first level allows to the whole window around a
    /// page. `held` is what the second-level entry allows, and `page` what the page allows after
    /// the access. `None` if the first level can hold the page only: a store through a clean entry
    /// has to set the dirty bit of its own page, unless the pages share their dirty bits.
    pub(crate) fn first_level(self, held: u8, page: u8) -> Option<u8> {
        match self.form.contiguity() {
            Some(_) => Some(page),
            None => (held & (allow::WRITE | allow::DIRTY) != allow::WRITE).then_some(held),
        }
    }
}

/// Pages of one window that are mapped to consecutive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index of the run's first page in its aligned window of pages.
    pub first: u64,
    /// Length of the run in 4KB pages.
    pub pages: u64,
    /// Frame of the run's first page.
    pub frame: Frame,
}

impl Run {
    /// True if the run contains the page at `index` in the window.
    #[inline]
    pub const fn covers(&self, index: u64) -> bool {
        index.wrapping_sub(self.first) < self.pages
    }
}

/// Parameters of a search for a run around a 4KB page that a walk has found.
#[derive(Clone, Copy, Debug)]
pub struct RunRequest {
    /// Address space of the page that the walk found.
    pub space: SpaceId,
    /// The 4KB page that the walk found, around which a run is searched.
    pub page: VirtualPage,
    /// Frame to which the page is mapped.
    pub frame: Frame,
    /// Accesses that the page allows, as bits of [`crate::allow`].
    pub allows: u8,
    /// Bits of [`crate::allow`] in which the pages of a run must agree.
    pub compared: u8,
    /// Number of 4KB pages in an aligned window, which no run may cross.
    pub window: u64,
}

impl RunRequest {
    /// Creates a request for the run around `page`, which a walk translated to the 4KB in `reach`.
    pub(crate) fn new(space: SpaceId, page: VirtualPage, reach: &Reach, window: u64) -> Self {
        let Reach { frame, allows, .. } = *reach;
        Self { space, page, frame, allows, compared: u8::MAX, window }
    }

    /// Returns the run of all pages in the window, which the page belongs to.
    pub(crate) const fn whole_window(&self) -> Run {
        let before = self.page.number() % self.window;
        Run { first: 0, pages: self.window, frame: Frame::new(self.frame.number() - before) }
    }

    /// Returns the longest run around the page. `look_at` must translate any page of the window.
    pub fn longest(&self, look_at: impl Fn(VirtualPage) -> Option<Reach>) -> Run {
        let own = self.page.number() % self.window;
        let start = self.page.number() - own;
        let continues = |index: u64| {
            let page = VirtualPage::new(start + index);
            look_at(page).is_some_and(|found| {
                found.frame_of(page).number() + own == self.frame.number() + index
                    && (found.allows ^ self.allows) & self.compared == 0
            })
        };
        let before = (0..own).rev().take_while(|&index| continues(index)).count() as u64;
        let behind = (own + 1..self.window).take_while(|&index| continues(index)).count() as u64;
        Run {
            first: own - before,
            pages: before + 1 + behind,
            frame: Frame::new(self.frame.number() - before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: VirtualPage = VirtualPage::new(0x1005);

    /// Returns the longest run around page 5 in a window of 8 pages, as first index, length, and
    /// first frame. Page 5 has frame 0x105 and allows 3.
    fn longest(window: &[Option<(u64, u8)>; 8]) -> (u64, u64, u64) {
        let request = RunRequest {
            space: SpaceId(0),
            page: PAGE,
            frame: Frame::new(0x105),
            allows: 3,
            compared: u8::MAX,
            window: 8,
        };
        let run = request.longest(|page| {
            let (frame, allows) = window[(page.number() - 0x1000) as usize]?;
            Some(Reach::of_page(Frame::new(frame), allows))
        });
        (run.first, run.pages, run.frame.number())
    }

    #[test]
    fn a_run_ends_where_frames_attributes_or_the_window_do() {
        let mut window: [_; 8] = std::array::from_fn(|index| Some((0x100 + index as u64, 3)));
        assert_eq!(longest(&window), (0, 8, 0x100));
        window[2] = Some((0x102, 1));
        assert_eq!(longest(&window), (3, 5, 0x103), "another permission");
        window[6] = None;
        assert_eq!(longest(&window), (3, 3, 0x103), "nothing is mapped");
        window[4] = Some((0x106, 3));
        assert_eq!(longest(&window), (5, 1, 0x105), "frames that descend");
    }

    #[test]
    fn frames_near_zero_do_not_wrap() {
        let request = RunRequest {
            space: SpaceId(0),
            page: PAGE,
            frame: Frame::new(1),
            allows: 1,
            compared: u8::MAX,
            window: 8,
        };
        let run = request.longest(|page| Some(Reach::of_page(Frame::new(page.number() % 8), 1)));
        assert_eq!((run.first, run.pages), (5, 1), "frame 5 is not 1");
    }
}
