//! Effects of other memory operations on a direct segment.
//!
//! - Unmapping, MADV_DONTNEED, mremap and fork *dissolve* it: all its pages get page-table entries
//!   in place. If the whole segment is unmapped, it is removed.
//! - mprotect of few pages makes them escape (guard pages, D §V). mprotect of many pages dissolves
//!   the segment.
//! - A failing frame makes its page escape to another frame (D §V).
//!
//! A fault on a page that an active segment translates is a false positive of the hardware's escape
//! filter, whose hash functions the kernel does not know. The kernel then also maps the page in
//! place by a page-table entry.

use std::ops::Range;

use perforate_os::mechanism::{
    AddressSpace, Area, Departure, FirstTouch, FrameVisitor, Overlay, OverlayMechanism, Recount,
    SpaceMut, covers, expect, region_of, visit_run,
};
use perforate_os::{FrameClass, OsError};
use perforate_types::{Frame, Permissions};

use super::record::{self, Segment, held_ranges, is_region_held, segment_of};

/// Reactions of a direct segment to changes of its pages, such as unmapping, mprotect and faults of
/// frames.
struct SegmentMechanism;

impl OverlayMechanism for SegmentMechanism {
    fn leave(
        &self,
        space: &mut SpaceMut<'_>,
        pages: &Range<u64>,
        departure: Departure,
    ) -> Result<(), OsError> {
        let Some(segment) = segment_of(space) else { return Ok(()) };
        match departure {
            // Pages that the segment keeps are never remapped, and the segment does not depend on
            // other pages.
            Departure::Remapped => Ok(()),
            Departure::Forked => record::dissolve(space),
            _ if !segment.meets(pages) => Ok(()),
            Departure::Moved => record::dissolve(space),
            Departure::Protected(permissions) => protect(space, pages, permissions),
            Departure::Unmapped if !covers(pages, &segment.pages()) => record::dissolve(space),
            Departure::Unmapped => {
                for frames in record::end(space) {
                    space.memory.free_range(frames);
                }
                Ok(())
            }
        }
    }

    fn touch(&self, space: &mut SpaceMut<'_>, page: u64) -> Result<bool, OsError> {
        let Some(segment) = segment_of(space).filter(|segment| segment.translates(page)) else {
            return Ok(false);
        };
        let number = region_of(page);
        if !segment.is_active && segment.large_pages && is_region_held(space, number) {
            record::region_in_place(space, number)?;
            space.join(FirstTouch::Large);
        } else {
            record::page_in_place(space, page)?;
            space.join(FirstTouch::Page);
        }
        Ok(true)
    }

    /// Makes the page escape from the segment to a new frame.
    fn replace_frame(&self, space: &mut SpaceMut<'_>, page: u64) -> Result<(), OsError> {
        let to = space.memory.allocate_page()?;
        let escaped = record::escape_to(space, page, to);
        let free = *escaped.as_ref().unwrap_or(&to);
        space.memory.free(free, 0);
        escaped?;
        space.migrated(1);
        Ok(())
    }
}

/// Changes the permissions of pages of the segment: few pages escape, many pages dissolve the
/// segment.
fn protect(
    space: &mut SpaceMut<'_>,
    pages: &Range<u64>,
    permissions: Permissions,
) -> Result<(), OsError> {
    let segment = segment_of(space).expect("a segment");
    if permissions == segment.permissions {
        return Ok(());
    }
    let inside = segment.start.max(pages.start)..segment.end.min(pages.end);
    let room = segment.most_escapes.saturating_sub(segment.escaped.len() as u64) as usize;
    let leaving = inside.filter(|&page| segment.translates(page));
    let leaving: Vec<u64> = leaving.take(room + 1).collect();
    if leaving.len() > room {
        return record::dissolve(space);
    }
    if leaving.is_empty() {
        return Ok(());
    }
    record::escape_in_place(space, &leaving)
}

impl Overlay for Segment {
    fn mechanism(&self) -> &'static dyn OverlayMechanism {
        &SegmentMechanism
    }

    fn keeps(&self, page: u64) -> bool {
        self.translates(page)
    }

    fn claims(&self, pages: &Range<u64>) -> bool {
        self.meets(pages)
    }

    fn frame_of(&self, page: u64) -> Option<Frame> {
        (self.is_active && self.translates(page)).then(|| self.run_frame(page))
    }

    fn page_of(&self, frame: Frame) -> Option<u64> {
        self.run_page(frame).filter(|&page| self.translates(page))
    }

    fn translated_pages(&self) -> u64 {
        if self.is_active { self.held_pages() } else { 0 }
    }

    fn idle_pages(&self) -> u64 {
        if self.is_active { 0 } else { self.held_pages() }
    }

    fn is_in_registers(&self) -> bool {
        self.is_active
    }

    fn visit_frames(&self, space: &AddressSpace, visitor: &mut dyn FrameVisitor) {
        for pages in held_ranges(space) {
            visit_run(self.frames_of(&pages), FrameClass::Segment, visitor);
        }
    }

    fn check(&self, space: &AddressSpace, recount: &mut Recount) -> Result<(), String> {
        let held = held_ranges(space);
        let pages: u64 = held.iter().map(|pages| pages.end - pages.start).sum();
        expect("pages that the segment holds", self.held_pages(), pages)?;
        for frame in held.iter().flat_map(|pages| self.frames_of(pages)).map(Frame::new) {
            match self.is_active {
                true => recount.map(frame, None),
                false => recount.hold(frame)?,
            }
        }
        let is_lost = |&page: &u64| self.translates(page) && space.is_swapped(page);
        if space.any_swapped(self.pages())
            && let Some(page) = self.pages().find(is_lost)
        {
            return Err(format!("page {page:#x} of the segment is swapped"));
        }
        if let Some(page) = self.escaped.iter().find(|page| !self.covers(**page)) {
            return Err(format!("page {page:#x} escaped a segment that it is not in"));
        }
        let areas: Vec<Area> = space.areas_within(self.pages()).collect();
        for mapped in space.mapped_within(&self.pages()) {
            mapped.into_iter().try_for_each(|page| check_page(space, self, page))?;
        }
        for area in &areas {
            let own = self.permissions == area.attributes.effective()
                && area.attributes.is_private_anonymous();
            if !own && area.pages().any(|page| self.translates(page)) {
                return Err(format!("the area at {:#x} differs from the segment", area.start));
            }
        }
        let covered: u64 = areas.iter().map(|area| area.pages().count() as u64).sum();
        expect("pages of the segment in areas", self.end - self.start, covered)
    }
}

fn check_page(space: &AddressSpace, segment: &Segment, page: u64) -> Result<(), String> {
    if !segment.translates(page) {
        return Ok(());
    }
    match space.find(page) {
        Some(present)
            if present.frame() != Some(segment.run_frame(page))
                || present.permissions() != segment.permissions =>
        {
            Err(format!("page {page:#x} of the segment is mapped as {present:?}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use perforate_config::Size;
    use perforate_os::{BasePages, Kernel, KernelConfig};
    use perforate_types::{
        AccessKind, Backing, ProgramEvent, SpaceId, VirtualAddress, VirtualPage,
    };

    use super::*;
    use crate::segment::kernel::Segments;
    use crate::segment::policy::SegmentPolicy;
    use crate::segment::{DirectSegments, SegmentOptions};

    const SPACE: SpaceId = SpaceId(0);
    const START: u64 = 1 << 20;
    const PAGES: u64 = 4096;

    fn map(kernel: &mut Kernel, pages: u64) {
        let event = ProgramEvent::Map {
            start: VirtualPage::new(START).address(),
            length: pages * 4096,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        };
        kernel.event(&event).unwrap();
    }

    fn write(kernel: &mut Kernel, page: u64) {
        kernel.fault(SPACE, VirtualPage::new(page), AccessKind::Write).unwrap();
    }

    fn change(kernel: &mut Kernel, act: impl FnOnce(&mut SpaceMut<'_>)) {
        let none = |_: &dyn perforate_os::Policy| Segments::new(None, false);
        let changed = kernel.with_backer(none, |_: &mut Segments, core| {
            act(&mut core.space_mut(SPACE)?);
            Ok(())
        });
        changed.unwrap();
    }

    /// A segment of 16MB whose page 7 is also mapped by an entry, if `is_paged`.
    fn with_segment(is_paged: bool) -> Kernel {
        let options = SegmentOptions { min: Size(16 << 20), ..SegmentOptions::DEFAULT };
        let policy = Box::new(SegmentPolicy::new(options).unwrap());
        let mut kernel = Kernel::new(KernelConfig::new(64 << 20), policy).unwrap();
        map(&mut kernel, PAGES);
        write(&mut kernel, START);
        if is_paged {
            write(&mut kernel, START + 7);
        }
        assert_eq!(kernel.segment(SPACE).unwrap().paged_pages, u64::from(is_paged));
        kernel
    }

    #[test]
    fn a_segment_that_disagrees_with_its_memory_is_found() {
        type Spoil = fn(&mut Segment);
        let area = format!("space 0: the area at {START:#x} differs from the segment");
        let cases: [(bool, Spoil, &str); 9] = [
            (true, |it| it.paged += 1, "space 0: pages that the segment holds: "),
            (true, |it| it.paged -= 1, "space 0: pages that the segment holds: "),
            (
                true,
                |it| {
                    it.escaped.insert(it.end);
                    it.paged -= 1;
                },
                "space 0: page 0x101000 escaped a segment that it is not in",
            ),
            (
                true,
                |it| it.frame = it.frame.add(1),
                "space 0: page 0x100007 of the segment is mapped as Page(",
            ),
            (
                true,
                |it| it.permissions = Permissions::READ,
                "space 0: page 0x100007 of the segment is mapped as Page(",
            ),
            (false, |it| it.permissions = Permissions::READ, &area),
            (
                false,
                |it| it.end += 1,
                "space 0: pages of the segment in areas: 4097 recorded, 4096 counted",
            ),
            (
                false,
                |it| (it.start, it.frame) = (it.start - 1, it.frame.add(9)),
                "space 0: pages of the segment in areas: 4097 recorded, 4096 counted",
            ),
            (false, |it| it.frame = it.frame.add(2048), ""),
        ];
        for (number, (is_paged, spoil, expected)) in cases.into_iter().enumerate() {
            for is_active in [true, false] {
                let mut kernel = with_segment(is_paged);
                if !is_active {
                    kernel.disable_segment(SPACE).unwrap();
                }
                assert_eq!(kernel.check_invariants(), Ok(()));
                let run = kernel.segment(SPACE).unwrap().frame.number();
                change(&mut kernel, |space| {
                    spoil(space.overlay_mut().unwrap().downcast_mut().unwrap());
                });
                let error = kernel.check_invariants().unwrap_err();
                assert!(error.starts_with(expected), "{number} {is_active} {run}: {error}");
            }
        }
    }

    #[test]
    fn pages_by_frame_end_at_the_bounds() {
        let segment = Segment {
            start: 100,
            end: 104,
            frame: Frame::new(50),
            permissions: Permissions::READ_WRITE,
            is_active: true,
            escaped: BTreeSet::new(),
            paged: 0,
            large_pages: false,
            most_escapes: 1,
        };
        let pages = [49, 50, 53, 54].map(|frame| segment.run_page(Frame::new(frame)));
        assert_eq!(pages, [None, Some(100), Some(103), None]);
    }

    /// A page of a segment cannot be in swap, unless it has escaped.
    #[test]
    fn a_swapped_page_of_a_segment_is_found() {
        for is_escaped in [false, true] {
            let config = KernelConfig { swap: Size(64 << 20), ..KernelConfig::new(8 << 20) };
            let mut kernel = Kernel::new(config, Box::new(BasePages)).unwrap();
            map(&mut kernel, PAGES);
            (START..START + 2048).for_each(|page| write(&mut kernel, page));
            change(&mut kernel, |space| {
                let page = (START..).find(|&page| space.is_swapped(page)).unwrap();
                let escaped = if is_escaped { BTreeSet::from([page]) } else { BTreeSet::new() };
                let segment = Segment {
                    start: page,
                    end: page + 1,
                    frame: Frame::new(0),
                    permissions: Permissions::READ_WRITE,
                    is_active: true,
                    escaped,
                    paged: 0,
                    large_pages: false,
                    most_escapes: 1,
                };
                record::set(space, segment);
                let checked = segment_of(space).unwrap().check(space, &mut Recount::default());
                let address = VirtualAddress::new(page * 4096);
                let lost = format!("page {:#x} of the segment is swapped", address.page().number());
                assert_eq!(checked, if is_escaped { Ok(()) } else { Err(lost) });
            });
        }
    }
}
