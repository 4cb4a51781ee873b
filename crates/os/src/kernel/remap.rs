//! mremap: moves a mapping and keeps its frames.

use std::ops::Range;

use perforate_types::{CONTIGUOUS_PAGES, Frame, HoleSet, Permissions, SpaceId};

use super::{Core, areas, contents, range};
use crate::OsError;
use crate::space::{
    Departure, Present, SpaceMut, covers, first_of, index_of, page_at, region_of, subpages_of,
};

/// Moves, grows or shrinks a mapping. As in Linux, an empty `from` maps shared memory a second time
/// and does nothing for private memory. An empty `to` does nothing. `from` may span several areas and the
/// gaps between them; a grown mapping has the attributes of the last area.
pub(super) fn remap(
    core: &mut Core,
    id: SpaceId,
    from: Range<u64>,
    to: Range<u64>,
) -> Result<(), OsError> {
    let last = core.space(id)?.areas.parts(from.start..from.end.max(from.start + 1)).next_back();
    let Some(attributes) = last.map(|area| area.attributes) else { return Ok(()) };
    let maps_again = from.is_empty() && from.start != to.start && attributes.is_shared();
    if to.is_empty() || (from.is_empty() && !maps_again) {
        return Ok(());
    }
    if from.start == to.start {
        if to.end < from.end {
            return areas::unmap(core, id, to.end..from.end);
        }
        let more = from.end..to.end;
        range::unmap(core, id, more.clone())?;
        if !more.is_empty() {
            core.space_mut(id)?.areas.insert(more, attributes);
        }
        return Ok(());
    }
    if from.start < to.end && to.start < from.end {
        let length_bytes = (to.end - to.start) << 12;
        return Err(OsError::InvalidRange { start: to.start << 12, length_bytes });
    }
    let space = &mut core.space_mut(id)?;
    space.leave_overlay(&from, Departure::Moved)?;
    areas::unmap(core, id, to.clone())?;
    let length = (from.end - from.start).min(to.end - to.start);
    let moved = from.start..from.start + length;
    contents::move_range(core, id, &moved, to.start)?;
    let space = &mut core.space_mut(id)?;
    for part in space.areas.within(moved.clone()) {
        let start = part.start - from.start + to.start;
        let end = part.end - from.start + to.start;
        space.areas.insert(start..end, part.attributes.moved(from.start, to.start));
    }
    if length < to.end - to.start {
        space.areas.insert(to.start + length..to.end, attributes.moved(from.start, to.start));
    }
    space.move_reclaimed(&moved, to.start);
    space.move_range(&moved, to.start)?;
    areas::unmap(core, id, from)
}

impl SpaceMut<'_> {
    /// Moves the mappings of `pages` to the unmapped pages that begin at `to`.
    fn move_range(&mut self, pages: &Range<u64>, to: u64) -> Result<(), OsError> {
        for first in self.wide_within(pages) {
            if self.has_wide(first) {
                self.move_wide(first, pages, to)?;
            }
        }
        for number in self.regions_within(pages) {
            let subpages = subpages_of(pages, number);
            let target = (first_of(number)).wrapping_add(to).wrapping_sub(pages.start);
            if self.has_extent(number) {
                let (first, mechanism) = (first_of(number), self.mechanism(first_of(number)));
                let is_all = subpages == HoleSet::FULL;
                if is_all && mechanism.moves_as_one(self, first, target) {
                    mechanism.move_to(self, first, target)?;
                    continue;
                }
                if self.extent(first).is_whole() {
                    mechanism.break_up(self, first)?;
                }
            }
            let folios = self.folio_blocks(number);
            for index in subpages.iter() {
                let page = page_at(number, index);
                if let Some((frame, permissions)) = self.take_page(page)? {
                    let target = target.wrapping_add(index as u64);
                    let result = self.place(target, frame, permissions);
                    if result.is_err() {
                        self.memory.release(frame);
                        self.close_if_empty(number);
                    }
                    result?;
                }
            }
            for block in folios.iter() {
                let index = block * CONTIGUOUS_PAGES as usize;
                let to = target.wrapping_add(index as u64);
                let is_moved = (index..index + CONTIGUOUS_PAGES as usize)
                    .all(|index| subpages.contains(index));
                if is_moved && to.is_multiple_of(CONTIGUOUS_PAGES) {
                    self.note_folio(region_of(to), index_of(to) / CONTIGUOUS_PAGES as usize);
                }
            }
            self.close_if_empty(number);
        }
        Ok(())
    }

    /// Moves an extent (a large page) in one piece if the range covers it and its kind (such as 1GB pages)
    /// supports the move. Otherwise breaks the extent up, so that the caller moves its pages.
    fn move_wide(&mut self, first: u64, pages: &Range<u64>, to: u64) -> Result<(), OsError> {
        let extent = self.extent(first);
        let (mechanism, own) = (extent.mechanism(), first..first + extent.pages());
        let target = first.wrapping_add(to).wrapping_sub(pages.start);
        if covers(pages, &own) && mechanism.moves_as_one(self, first, target) {
            return mechanism.move_to(self, first, target);
        }
        mechanism.break_up(self, first)
    }

    /// Unmaps one page without freeing its frame. Returns the frame and permissions, or `None` if
    /// the page was not mapped.
    fn take_page(&mut self, page: u64) -> Result<Option<(Frame, Permissions)>, OsError> {
        Ok(match self.find(page) {
            None | Some(Present::Vacant) => None,
            Some(Present::Page(_, permissions)) => Some((self.unmap_page(page), permissions)),
            Some(Present::Detached(_, permissions)) => {
                let detacher = self.detacher(page).expect("it was detached");
                Some((detacher.vacate(self, page), permissions))
            }
            Some(Present::InPlace(_, permissions)) => {
                let detacher = self.detacher(page).expect("others were broken up");
                Some((detacher.detach(self, page)?, permissions))
            }
        })
    }
}
