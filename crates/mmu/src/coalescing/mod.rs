//! TLB coalescing: an entry of the second-level TLB that holds a run of 4KB pages (G §5.7; CoLT,
//! Pham et al., MICRO 2012).
//!
//! Virtual pages are cut into aligned windows. When a walk has found a 4KB page, the walker looks at
//! the other entries of its window, and those that continue the same mapping share one TLB entry:
//! frames must follow each other as the pages do, and what the entries allow must be the same, dirty
//! bits included. As in G these looks cost nothing; up to 8 entries lie in the cache line that the
//! walk has just read, 32 in four lines. Accessed bits are neither asked for nor set: Linux makes
//! entries with the bit set, and nothing here clears it.
//!
//! This stands with the pipeline and not with the mechanisms: any machine's second-level TLB can
//! coalesce, under any scheme (`tlb.l2_coalescing` of a machine file). The schemes `4k-colt-*` are 4KB
//! pages that ask for it on every machine.

mod entries;
mod fill;

use perforate_types::{Frame, SpaceId, VirtualPage};
use serde::{Deserialize, Serialize};

use crate::Reach;

/// How the second-level TLB coalesces 4KB pages, `tlb.l2_coalescing` of a machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coalescing {
    /// Pages of a window, the most that one entry can hold; a power of two, 2 to 32.
    pub pages: u64,
    /// Which pages of a window share an entry.
    pub form: CoalescingForm,
}

/// Which pages of a window share an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoalescingForm {
    /// All of them or none.
    Groups,
    /// The longest run around the page that was wanted (CoLT-SA).
    Runs,
}

impl Coalescing {
    /// Most pages of a window: what an entry counts in 5 bits.
    pub const MAXIMUM_PAGES: u64 = 32;

    pub(crate) const fn is_possible(self) -> bool {
        self.pages >= 2 && self.pages <= Self::MAXIMUM_PAGES && self.pages.is_power_of_two()
    }

    /// Whether a run this long is held as one entry.
    pub(crate) const fn holds(self, run: &Run) -> bool {
        match self.form {
            CoalescingForm::Groups => run.pages == self.pages,
            CoalescingForm::Runs => run.pages > 1,
        }
    }
}

/// Pages of one window that are mapped to consecutive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Place of the first page in its window.
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
    /// Frame of the first page.
    pub frame: Frame,
}

impl Run {
    /// Whether it has the page at this place of the window.
    #[inline]
    pub const fn covers(&self, index: u64) -> bool {
        index.wrapping_sub(self.first) < self.pages
    }
}

/// The place around which a run is to be found: a 4KB page, as a walk has found it.
#[derive(Clone, Copy, Debug)]
pub struct RunRequest {
    /// Address space.
    pub space: SpaceId,
    /// The page.
    pub page: VirtualPage,
    /// Its frame.
    pub frame: Frame,
    /// The accesses that it allows, as bits of [`crate::allow`].
    pub allows: u8,
    /// Bits of [`crate::allow`] in which the pages of a run must agree.
    pub compared: u8,
    /// Pages of a window.
    pub window: u64,
}

impl RunRequest {
    /// Around a `page` with a reach of 4KB.
    pub(crate) fn new(space: SpaceId, page: VirtualPage, reach: &Reach, window: u64) -> Self {
        let Reach { frame, allows, .. } = *reach;
        Self { space, page, frame, allows, compared: u8::MAX, window }
    }

    /// The longest run around the page, given what the tables say of a page of the window.
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

    /// The run around page 5 of a window of 8, which has frame 0x105 and allows 3.
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
