//! Comparison of page tables with the oracles, for mapped pages, and for the pages before and after
//! each run of mapped pages.

use std::ops::Range;

use perforate_mmu::{Dimension, Reach, allow};
use perforate_oracle::{Mapping, Oracle};
use perforate_os::Kernel;
use perforate_sim::System;
use perforate_sim::scheme::shadow::Shadow;
use perforate_types::{Frame, GuestFrame, SpaceId, VirtualPage};

use super::segments::may_take_for_escaped;
use super::{ARENA, REGIONS, Random};

/// Number of pages compared after an event, in addition to the ends of their runs.
const SAMPLES: usize = 16;

/// Frame of a page, and its permissions as bits of `allow` without dirty bits; `None` if the page
/// is not mapped.
type Translation = Option<(Frame, u8)>;

/// Operating system of the program or the host: its oracle, its kernel, and its page tables.
struct Side<'a> {
    oracle: &'a Oracle,
    kernel: &'a Kernel,
    /// Pages that may be mapped.
    pages: Range<u64>,
    look_at: Box<dyn Fn(SpaceId, VirtualPage) -> Translation + 'a>,
    /// Returns the translation that the tables should have for a mapping of the oracle.
    expected: Box<dyn Fn(SpaceId, Mapping) -> Translation + 'a>,
    /// True if the tables may lack an entry until its first use.
    may_lack: Box<dyn Fn(SpaceId, VirtualPage) -> bool + 'a>,
}

impl Side<'_> {
    fn check(&self, space: SpaceId, page: VirtualPage) {
        let truth = self.oracle.translate(space, page);
        let expected = truth.and_then(|mapping| (self.expected)(space, mapping));
        let found = (self.look_at)(space, page);
        let lacks = found.is_none() && (self.may_lack)(space, page);
        assert!(
            found == expected || lacks,
            "{page:?} of {space:?}: the tables have {found:x?}, {expected:x?} is true"
        );
    }

    fn spaces(&self) -> Vec<SpaceId> {
        self.kernel.processes().map(|(_, space)| space).collect()
    }

    /// Compares all mapped pages, and the pages on either side of every run.
    fn check_all(&self) {
        for space in self.spaces() {
            for run in self.oracle.extents(space) {
                let first = run.page.number().saturating_sub(1);
                for page in first..=run.end().number() {
                    self.check(space, VirtualPage::new(page));
                }
            }
        }
    }

    /// Compares some pages, and the ends of their runs with the pages on either side.
    fn check_some(&self, random: &mut Random) {
        let spaces = self.spaces();
        // All processes may have exited.
        if spaces.is_empty() {
            return;
        }
        let space = spaces[random.below(spaces.len() as u64) as usize];
        for _ in 0..SAMPLES {
            let page = self.pages.start + random.below(self.pages.end - self.pages.start);
            self.check(space, VirtualPage::new(page));
            if let Some(run) = self.oracle.extent(space, VirtualPage::new(page)) {
                let (first, end) = (run.page.number(), run.end().number());
                for page in [first.saturating_sub(1), first, end - 1, end] {
                    self.check(space, VirtualPage::new(page));
                }
            }
        }
    }
}

/// Compares the tables of program and host with the oracles for all pages.
pub fn check_all_tables(system: &System) {
    sides(system).iter().for_each(Side::check_all);
}

/// Compares the tables of program and host with the oracles for some random pages.
pub fn check_some_tables(system: &System, seed: u64) {
    sides(system).iter().for_each(|side| side.check_some(&mut Random::new(seed)));
}

fn sides(system: &System) -> Vec<Side<'_>> {
    let oracle = system.oracle().expect("the system is checked");
    let kernel = system.kernel();
    let dimension = system.mmu().dimension();
    let lacks = move |space, page| may_take_for_escaped(kernel, space, page);
    let (Some(hypervisor), Some(host_oracle)) = (system.hypervisor(), system.host_oracle()) else {
        return vec![Side {
            oracle,
            kernel,
            pages: arena(),
            look_at: Box::new(|space, page| plain(page, dimension.look_at(space, page))),
            expected: Box::new(|_, mapping| Some(allowed(mapping))),
            may_lack: Box::new(lacks),
        }];
    };
    let host_kernel = hypervisor.kernel();
    let host_lacks = move |space, page| may_take_for_escaped(host_kernel, space, page);
    let tables = dimension.host().expect("the system is virtualized").dimension();
    let host = Side {
        oracle: host_oracle,
        kernel: host_kernel,
        pages: 0..kernel.end_frame().number(),
        look_at: Box::new(|space, page| plain(page, tables.look_at(space, page))),
        expected: Box::new(|_, mapping| Some(allowed(mapping))),
        may_lack: Box::new(host_lacks),
    };
    let machine = hypervisor.space();
    let at = |frame: Frame| VirtualPage::new(frame.number());
    let composed = move |_, mapping| {
        let (guest_frame, allows) = allowed(mapping);
        let (frame, host_allows) = allowed(host_oracle.translate(machine, at(guest_frame))?);
        Some((frame, allows & host_allows))
    };
    let shadow: Option<&Shadow> = dimension.part();
    let both = Side {
        oracle,
        kernel,
        pages: arena(),
        look_at: Box::new(move |space, page| match shadow {
            Some(shadow) => through_shadow(shadow, dimension, space, page),
            None => plain(page, dimension.look_at(space, page)),
        }),
        expected: Box::new(composed),
        may_lack: Box::new(move |space, page| {
            let guest_frame = oracle.translate(space, page).map(|(frame, _)| frame);
            lacks(space, page) || guest_frame.is_some_and(|frame| host_lacks(machine, at(frame)))
        }),
    };
    vec![host, both]
}

/// Returns the translation that the hypervisor reads in guest and host tables. Asserts that an
/// existing shadow entry leads to the same frame and does not allow more.
fn through_shadow(
    shadow: &Shadow,
    dimension: &dyn Dimension,
    space: SpaceId,
    page: VirtualPage,
) -> Translation {
    let entry = plain(page, dimension.look_at(space, page));
    let both = || {
        let guest = shadow.guest_leaf(space, page)?;
        let guest_frame = guest.frame_of(page);
        let guest_page = GuestFrame::new(guest_frame.number());
        let host = shadow.host_leaf(guest_page)?;
        let frame = host.frame.add(guest_page.index_in(host.size) as u64);
        Some((frame, guest.allows & host.allows & !allow::DIRTY))
    };
    let both = both();
    if let Some((frame, allows)) = entry {
        let (at, most) = both.expect("shadow entries are of what guest and host map");
        assert_eq!((frame, allows & !most), (at, 0), "shadow entry of {page:?} of {space:?}");
    }
    both
}

fn arena() -> Range<u64> {
    let first = ARENA / 4096;
    first..first + REGIONS * 512
}

fn plain(page: VirtualPage, found: Option<Reach>) -> Translation {
    found.map(|reach| (reach.frame_of(page), reach.allows & !allow::DIRTY))
}

fn allowed((frame, permissions): Mapping) -> (Frame, u8) {
    (frame, allow::of_leaf(permissions, false))
}
