//! Unmaps and protects ranges. An extent that overlaps the range in part is broken up, or the part
//! is detached from it.

use std::ops::Range;

use perforate_types::{HoleSet, Permissions, SpaceId};

use super::Core;
use crate::OsError;
use crate::space::{
    Area, Attributes, Departure, Part, Present, SpaceMut, allowed, covers, effective, first_of,
    page_at, subpages_of,
};

/// Unmaps all pages of a range and releases their frames; the memory areas stay.
pub(super) fn unmap(core: &mut Core, id: SpaceId, pages: Range<u64>) -> Result<(), OsError> {
    let space = &mut core.space_mut(id)?;
    space.leave_overlay(&pages, Departure::Unmapped)?;
    core.contents.forget(id, &pages);
    let space = &mut core.space_mut(id)?;
    space.forget_reclaimed(&pages);
    for first in space.wide_within(&pages) {
        if space.has_wide(first) {
            space.drop_extent(first, &pages)?;
        }
    }
    for number in space.regions_within(&pages) {
        let subpages = subpages_of(&pages, number);
        space.drop_subpages(number, &subpages)?;
    }
    Ok(())
}

/// Changes the permissions of a range; `accessible` is false for PROT_NONE.
pub(super) fn protect(
    core: &mut Core,
    id: SpaceId,
    pages: Range<u64>,
    permissions: Permissions,
    accessible: bool,
) -> Result<(), OsError> {
    let space = &mut core.space_mut(id)?;
    let departure = Departure::Protected(effective(permissions, accessible));
    space.leave_overlay(&pages, departure)?;
    space.areas.change(pages.clone(), |attributes| {
        attributes.permissions = permissions;
        attributes.accessible = accessible;
    });
    protect_mappings(core, id, pages)
}

/// Gives the mapped pages of a range the present permissions of their memory areas (VMAs).
pub(super) fn protect_mappings(
    core: &mut Core,
    id: SpaceId,
    pages: Range<u64>,
) -> Result<(), OsError> {
    let space = &mut core.space_mut(id)?;
    for area in space.areas.within(pages) {
        space.protect_area(area)?;
    }
    Ok(())
}

impl SpaceMut<'_> {
    /// Unmaps an extent (mapping in one piece, such as a 2MB page) and releases its frames. Breaks the extent
    /// up if `pages` covers only a part.
    fn drop_extent(&mut self, first: u64, pages: &Range<u64>) -> Result<(), OsError> {
        let extent = self.extent(first);
        let mechanism = extent.mechanism();
        if !covers(pages, &(first..first + extent.pages())) {
            return mechanism.break_up(self, first);
        }
        mechanism.unmap(self, first).release(self.memory);
        Ok(())
    }

    /// Unmaps sub-pages of a 2MB region and releases their frames. A 2MB page that loses only a part is
    /// split, or gets holes if the policy makes such pages. Fails, without any change, only if memory for the
    /// new table nodes runs out.
    pub(super) fn drop_subpages(&mut self, number: u64, subpages: &HoleSet) -> Result<(), OsError> {
        if !self.has_extent(number) {
            self.drop_pages(number, subpages);
        } else if *subpages == HoleSet::FULL {
            let first = first_of(number);
            self.mechanism(first).unmap(self, first).release(self.memory);
        } else {
            let first = first_of(number);
            let mechanism = self.mechanism(first);
            if mechanism.drop_subpages(self, first, subpages)? == Part::BrokenUp {
                self.drop_pages(number, subpages);
            }
        }
        self.close_if_empty(number);
        Ok(())
    }

    fn drop_pages(&mut self, number: u64, subpages: &HoleSet) {
        let mapped = self.mapped_pages(number);
        self.drop_blocks(number, |index| subpages.contains(index));
        for index in subpages.iter().filter(|&index| mapped.contains(index)) {
            let frame = self.unmap_page(page_at(number, index));
            self.memory.release(frame);
        }
    }

    fn protect_area(&mut self, area: Area) -> Result<(), OsError> {
        let (pages, attributes) = (area.pages(), &area.attributes);
        for first in self.wide_within(&pages) {
            if self.has_wide(first) {
                self.mechanism(first).protect_part(self, first, &pages, attributes)?;
            }
        }
        for number in self.regions_within(&pages) {
            let subpages = subpages_of(&pages, number);
            let first = first_of(number);
            let part = match self.has_extent(number) {
                true => {
                    let mechanism = self.mechanism(first);
                    mechanism.protect_part(self, first, &pages, attributes)?
                }
                false => Part::BrokenUp,
            };
            if part == Part::BrokenUp {
                self.protect_pages(number, &subpages, attributes);
            }
        }
        Ok(())
    }

    fn protect_pages(&mut self, number: u64, subpages: &HoleSet, attributes: &Attributes) {
        let mapped = self.mapped_pages(number);
        for index in subpages.iter().filter(|&index| mapped.contains(index)) {
            let page = page_at(number, index);
            let frame = self.find(page).and_then(Present::frame);
            let shared = frame.is_some_and(|frame| self.memory.is_shared(frame));
            self.protect_page(page, allowed(attributes, shared));
        }
    }
}
