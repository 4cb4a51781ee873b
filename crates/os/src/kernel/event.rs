//! What programs ask for: map, unmap, protect, advise, brk.

use std::ops::Range;

use perforate_types::{
    AccessKind, Advice, Backing, HoleSet, Permissions, ProgramEvent, SpaceId, Update,
    VirtualAddress,
};

use super::Kernel;
use crate::OsError;
use crate::space::{
    Area, Attributes, LargePageAdvice, Present, is_canonical, page_at, pages_of, regions_of,
    subpages_of,
};

/// The whole pages that a byte range touches.
pub(super) fn page_range(start: VirtualAddress, length_bytes: u64) -> Result<Range<u64>, OsError> {
    let invalid = OsError::InvalidRange { start: start.value(), length_bytes };
    let Some(end) = start.value().checked_add(length_bytes) else { return Err(invalid) };
    let pages = start.value() >> 12..end.div_ceil(4096);
    let last = pages.end.max(pages.start + 1) - 1;
    // Both ends in the same half.
    let in_one_half =
        is_canonical(pages.start) && is_canonical(last) && (pages.start >> 51) == (last >> 51);
    if in_one_half { Ok(pages) } else { Err(invalid) }
}

/// Linux's MADV_POPULATE_READ: the pages are faulted in now.
const POPULATE_READ: i32 = 22;
/// Linux's MADV_POPULATE_WRITE. Recorded traces begin with it for the pages that exist already.
pub(crate) const POPULATE_WRITE: i32 = 23;

impl Kernel {
    pub(super) fn handle(
        &mut self,
        id: SpaceId,
        event: &ProgramEvent,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        match *event {
            ProgramEvent::Map {
                start,
                length,
                permissions,
                accessible,
                backing,
                shared,
                populate,
            } => {
                let pages = page_range(start, length)?;
                let attributes = Attributes {
                    permissions,
                    accessible,
                    backing,
                    object: shared.then(|| self.new_object(pages.start)),
                    large_pages: LargePageAdvice::None,
                };
                self.map_area(id, pages.clone(), attributes, updates)?;
                if populate { self.populate(id, pages, updates) } else { Ok(()) }
            }
            ProgramEvent::Unmap { start, length } => {
                self.unmap_area(id, page_range(start, length)?, updates)
            }
            ProgramEvent::Protect { start, length, permissions, accessible } => {
                let pages = page_range(start, length)?;
                self.protect_in_segment(id, &pages, (permissions, accessible), updates)?;
                self.parts(id, updates)?.0.areas.change(pages.clone(), |attributes| {
                    attributes.permissions = permissions;
                    attributes.accessible = accessible;
                });
                self.protect_range(id, pages, updates)
            }
            ProgramEvent::Advise { start, length, advice } => {
                self.advise(id, page_range(start, length)?, advice, updates)
            }
            ProgramEvent::Remap { from, from_length, to, to_length } => {
                self.remap(id, page_range(from, from_length)?, page_range(to, to_length)?, updates)
            }
            ProgramEvent::Brk { start, end } => self.brk(id, start, end, updates),
            ProgramEvent::Fork { child } => self.fork(id, child, updates),
            ProgramEvent::Exec => self.clear_space(id, updates),
            ProgramEvent::Exit { process } => self.exit(process, updates),
            ProgramEvent::Switch { process, .. } => self.switch(process),
            ProgramEvent::Gap { .. } | ProgramEvent::Phase { .. } => Ok(()),
        }
    }

    /// Maps an area over whatever was there.
    fn map_area(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        attributes: Attributes,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        if pages.is_empty() {
            return Ok(());
        }
        self.drop_range(id, pages.clone(), updates)?;
        self.parts(id, updates)?.0.areas.insert(pages, attributes);
        Ok(())
    }

    pub(super) fn unmap_area(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.drop_range(id, pages.clone(), updates)?;
        self.parts(id, updates)?.0.areas.remove(pages);
        Ok(())
    }

    /// Touches all pages at once (MAP_POPULATE), except for those that the program has no data
    /// at: the holes of unallocated fragmentation.
    fn populate(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        for part in self.space(id)?.areas.within(pages) {
            if !part.attributes.effective().allow(AccessKind::Read) {
                continue;
            }
            // The whole area decides the page size, not the part that is populated.
            let Some(area) = self.space(id)?.areas.find(part.start) else { continue };
            let pages = part.pages();
            for number in regions_of(&pages) {
                let untouched = self.untouched_holes(area, number);
                for index in subpages_of(&pages, number).iter() {
                    if !untouched.contains(index) {
                        let page = page_at(number, index);
                        self.relieve(Some((id, number)), updates);
                        let mut result = self.populate_page(id, page, area, updates);
                        while self.relieves(&result, (id, number), updates) {
                            result = self.populate_page(id, page, area, updates);
                        }
                        result?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The sub-pages of a region that the program has no data at.
    fn untouched_holes(&self, area: Area, number: u64) -> HoleSet {
        let region = pages_of(number);
        match self.config.fragmentation {
            Some(fragmentation)
                if !fragmentation.allocated
                    && area.attributes.eligible()
                    && area.spans(&region) =>
            {
                fragmentation.holes(self.config.seed, number).unwrap_or_default()
            }
            _ => HoleSet::EMPTY,
        }
    }

    fn populate_page(
        &mut self,
        id: SpaceId,
        page: u64,
        area: Area,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.ledger.clears = area.attributes.backing != Backing::File;
        let is_there = self.space(id)?.segment_frame(page).is_some();
        if is_there
            || (self.space(id)?.find(page).is_none() && self.touch_segment(id, page, updates)?)
        {
            self.touch(id, page);
            return Ok(());
        }
        let present = self.space(id)?.find(page);
        match present {
            None | Some(Present::Vacant)
                if self.swap_in(id, page, area, AccessKind::Read, updates)? => {}
            None => self.bring_in(id, page, area, updates)?,
            Some(Present::Vacant) => {
                self.fill_hole(id, page, area.attributes.effective(), updates)?;
            }
            Some(_) => {}
        }
        self.touch(id, page);
        Ok(())
    }

    fn advise(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        advice: Advice,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        match advice {
            Advice::DontNeed => self.drop_range(id, pages, updates),
            Advice::HugePage | Advice::NoHugePage => {
                let large_pages = match advice {
                    Advice::HugePage => LargePageAdvice::Wanted,
                    _ => LargePageAdvice::Refused,
                };
                let (space, _) = self.parts(id, updates)?;
                space.areas.change(pages, |attributes| attributes.large_pages = large_pages);
                Ok(())
            }
            Advice::Free => self.advise_free(id, pages, updates),
            Advice::Other(POPULATE_READ | POPULATE_WRITE) => self.populate(id, pages, updates),
            Advice::Other(_) => Ok(()),
        }
    }

    fn brk(
        &mut self,
        id: SpaceId,
        start: VirtualAddress,
        end: VirtualAddress,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let length = end.value().saturating_sub(start.value());
        let pages = page_range(start, length)?;
        let (space, _) = self.parts(id, updates)?;
        // The page where the program's data end and the heap begins may be mapped already.
        let first = match space.areas.find(pages.start) {
            Some(area) if area.attributes.backing != Backing::Heap => pages.start + 1,
            _ => pages.start,
        };
        let old_end = space.heap_end.unwrap_or(first).max(first);
        let new_end = pages.end.max(first);
        space.heap_end = Some(new_end);
        if new_end < old_end {
            return self.unmap_area(id, new_end..old_end, updates);
        }
        let attributes = Attributes::private(Permissions::READ_WRITE, Backing::Heap);
        self.map_area(id, old_end..new_end, attributes, updates)
    }
}
