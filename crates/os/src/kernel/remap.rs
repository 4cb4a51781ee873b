//! mremap: a mapping moves, its frames stay.

use std::ops::Range;

use perforate_types::{Frame, HoleSet, Permissions, SpaceId, Update};

use super::Kernel;
use crate::OsError;
use crate::space::{
    AddressSpace, Effects, Large, Mapping, Present, first_of, index_of, page_at, region_of,
    subpages_of,
};

impl Kernel {
    pub(super) fn remap(
        &mut self,
        id: SpaceId,
        from: Range<u64>,
        to: Range<u64>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let attributes = {
            let areas = &self.space(id)?.areas;
            areas.find(from.end.max(from.start + 1) - 1).map(|area| area.attributes)
        };
        let Some(attributes) = attributes else { return Ok(()) };
        if from.start == to.start {
            if to.end < from.end {
                return self.unmap_area(id, to.end..from.end, updates);
            }
            let more = from.end..to.end;
            self.drop_range(id, more.clone(), updates)?;
            if !more.is_empty() {
                self.parts(id, updates)?.0.areas.insert(more, attributes);
            }
            return Ok(());
        }
        if from.start < to.end && to.start < from.end {
            let length_bytes = (to.end - to.start) << 12;
            return Err(OsError::InvalidRange { start: to.start << 12, length_bytes });
        }
        if self.space(id)?.meets_segment(&from) {
            self.dissolve(id, updates)?;
        }
        self.unmap_area(id, to.clone(), updates)?;
        let length = (from.end - from.start).min(to.end - to.start);
        let moved = from.start..from.start + length;
        self.contents.copy(id, moved.clone(), id, to.start);
        let (space, mut effects) = self.parts(id, updates)?;
        for part in space.areas.within(moved.clone()) {
            let start = part.start - from.start + to.start;
            let end = part.end - from.start + to.start;
            space.areas.insert(start..end, part.attributes.moved(from.start, to.start));
        }
        if length < to.end - to.start {
            space.areas.insert(to.start + length..to.end, attributes.moved(from.start, to.start));
        }
        space.move_reclaimed(&moved, to.start);
        space.move_range(&moved, to.start, &mut effects)?;
        self.unmap_area(id, from, updates)
    }
}

impl AddressSpace {
    /// Moves the mappings of `pages` so that the first lies at `to`, where nothing is mapped.
    fn move_range(
        &mut self,
        pages: &Range<u64>,
        to: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        for number in self.huge_within(pages) {
            self.split_huge(number, effects)?;
        }
        for page in self.superpages_within(pages) {
            self.move_superpage(page, pages, to, effects)?;
        }
        let is_aligned = index_of(to) == index_of(pages.start);
        for number in self.regions_within(pages) {
            let subpages = subpages_of(pages, number);
            let target = (first_of(number)).wrapping_add(to).wrapping_sub(pages.start);
            if is_aligned && subpages == HoleSet::FULL && self.mapped_pages(number).is_empty() {
                self.move_two_megabytes(number, region_of(target), effects)?;
                continue;
            }
            if let Mapping::Large(_) = self.region(number).expect("mapped region").mapping {
                self.split_large(number, &HoleSet::FULL, effects)?;
            }
            for index in subpages.iter() {
                let page = page_at(number, index);
                if let Some((frame, permissions)) = self.take_page(page, effects)? {
                    let target = target.wrapping_add(index as u64);
                    let result = self.place(target, frame, permissions, effects);
                    if result.is_err() {
                        effects.memory.release(frame);
                        self.close_if_empty(number, effects);
                    }
                    result?;
                }
            }
            self.close_if_empty(number, effects);
        }
        Ok(())
    }

    fn move_two_megabytes(
        &mut self,
        number: u64,
        target: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        if self.perforated(number).is_none() {
            let Large { block, permissions } = self.unmap_large(number, effects);
            let result = self.map_large(target, block, permissions, effects);
            if result.is_err() {
                effects.memory.release_block(block, &HoleSet::FULL);
            }
            return result;
        }
        let old = self.unmap_perforated(number, effects);
        let large = Large { block: old.block, permissions: old.permissions };
        if let Err(error) = self.perforate(target, large, old.holes, effects) {
            old.release(effects);
            return Err(error);
        }
        self.keep_reserved(target, old.reserved);
        for index in old.holes.iter() {
            let entry = old.entries[index];
            if entry.is_present() {
                let page = page_at(target, index);
                self.map_hole(page, entry.frame(), entry.permissions(), effects);
            }
        }
        Ok(())
    }

    /// Takes the mapping of one page away, not its frame.
    fn take_page(
        &mut self,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Result<Option<(Frame, Permissions)>, OsError> {
        Ok(match self.find(page) {
            None | Some(Present::EmptyHole) => None,
            Some(Present::Page(_, permissions)) => {
                Some((self.unmap_page(page, effects), permissions))
            }
            Some(Present::Hole(_, permissions)) => {
                Some((self.unmap_hole(page, effects), permissions))
            }
            Some(Present::InPlace(_, permissions)) => {
                Some((self.punch(page, effects)?, permissions))
            }
            Some(Present::Large(..) | Present::Huge(..) | Present::Superpage(..)) => {
                unreachable!("split before")
            }
        })
    }

    /// Maps a frame where nothing is mapped: as an unallocated hole's or as a 4KB page.
    fn place(
        &mut self,
        page: u64,
        frame: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        if self.find(page) == Some(Present::EmptyHole) {
            self.map_hole(page, frame, permissions, effects);
            return Ok(());
        }
        self.map_page(page, frame, permissions, effects)
    }
}
