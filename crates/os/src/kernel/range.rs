//! Dropping and protecting the mappings of a range, with 2MB pages split or punched where the
//! range covers a part of them.

use std::ops::Range;

use perforate_types::{Frame, HoleSet, PageSize, Permissions, SpaceId, Update};

use super::Kernel;
use crate::memory::complement;
use crate::space::{
    AddressSpace, Area, Attributes, Effects, Mapping, page_at, pages_of_gigabyte, subpages_of,
};
use crate::{OsError, PartialChange};

/// Whether `pages` has all of `part`.
pub(super) fn covers(pages: &Range<u64>, part: &Range<u64>) -> bool {
    pages.start <= part.start && part.end <= pages.end
}

impl Kernel {
    /// Unmaps all pages of a range and gives up their frames; areas stay.
    pub(super) fn drop_range(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.leave_segment(id, &pages, updates)?;
        self.contents.forget(id, &pages);
        let partial = self.partial_change();
        let (space, mut effects) = self.parts(id, updates)?;
        space.forget_reclaimed(&pages, &mut effects.memory.swap);
        for number in space.huge_within(&pages) {
            if covers(&pages, &pages_of_gigabyte(number)) {
                let block = space.unmap_huge(number, &mut effects);
                effects.memory.release_huge(block);
            } else {
                space.split_huge(number, &mut effects)?;
            }
        }
        for page in space.superpages_within(&pages) {
            space.drop_superpage(page, &pages, &mut effects)?;
        }
        for number in space.regions_within(&pages) {
            let subpages = subpages_of(&pages, number);
            space.drop_subpages(number, &subpages, partial, &mut effects)?;
        }
        Ok(())
    }

    /// Gives the mappings of a range the permissions that their areas have now.
    pub(super) fn protect_range(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let partial = self.partial_change();
        let (space, mut effects) = self.parts(id, updates)?;
        for area in space.areas.within(pages) {
            space.protect_area(area, partial, &mut effects)?;
        }
        Ok(())
    }
}

/// What a page of an area may allow: a frame that others use as well stays read-only until a
/// write copies it.
pub(super) fn allowed(attributes: &Attributes, is_shared: bool) -> Permissions {
    let permissions = attributes.effective();
    let write = permissions.write && (attributes.is_shared() || !is_shared);
    Permissions { write, ..permissions }
}

impl AddressSpace {
    /// Unmaps these sub-pages of a region and gives up their frames. A 2MB page is split or
    /// punched unless all of it goes; only that can fail, and before anything has changed.
    pub(super) fn drop_subpages(
        &mut self,
        number: u64,
        subpages: &HoleSet,
        partial: PartialChange,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let page = |index: usize| page_at(number, index);
        let whole = *subpages == HoleSet::FULL;
        match &self.region(number).expect("mapped region").mapping {
            Mapping::Pages(_) => {
                let mapped = self.mapped_pages(number);
                for index in subpages.iter().filter(|&index| mapped.contains(index)) {
                    let frame = self.unmap_page(page(index), effects);
                    effects.memory.release(frame);
                }
            }
            Mapping::Large(_) if whole => {
                let large = self.unmap_large(number, effects);
                effects.memory.release_block(large.block, &HoleSet::FULL);
            }
            Mapping::Large(_) if partial == PartialChange::Split => {
                let large = self.split_large(number, &complement(subpages), effects)?;
                effects.memory.release_block(large.block, subpages);
            }
            Mapping::Large(_) => {
                for index in subpages.iter() {
                    let frame = self.punch(page(index), effects)?;
                    effects.memory.release(frame);
                }
            }
            Mapping::Perforated(_) if whole => {
                self.unmap_perforated(number, effects).release(effects);
            }
            Mapping::Perforated(perforated) => {
                let holes = perforated.holes;
                let is_allocated = |index: usize| perforated.entries[index].is_present();
                let allocated: HoleSet = holes.iter().filter(|&i| is_allocated(i)).collect();
                self.release_reserved(number, subpages, effects);
                for index in subpages.iter() {
                    let frame = match (holes.contains(index), allocated.contains(index)) {
                        (false, _) => self.punch(page(index), effects)?,
                        (true, true) => self.unmap_hole(page(index), effects),
                        (true, false) => continue,
                    };
                    effects.memory.release(frame);
                }
            }
        }
        self.close_if_empty(number, effects);
        Ok(())
    }

    fn protect_area(
        &mut self,
        area: Area,
        partial: PartialChange,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let pages = area.pages();
        for number in self.huge_within(&pages) {
            if covers(&pages, &pages_of_gigabyte(number)) {
                let block = self.huge_block(number);
                let shared = effects.memory.any_shared_huge(block);
                self.protect_huge(number, allowed(&area.attributes, shared), effects);
            } else {
                self.split_huge(number, effects)?;
            }
        }
        for page in self.superpages_within(&pages) {
            self.protect_or_demote(page, &area, effects)?;
        }
        for number in self.regions_within(&pages) {
            let subpages = subpages_of(&pages, number);
            self.protect_subpages(number, &subpages, &area.attributes, partial, effects)?;
        }
        Ok(())
    }

    fn protect_subpages(
        &mut self,
        number: u64,
        subpages: &HoleSet,
        attributes: &Attributes,
        partial: PartialChange,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let whole = *subpages == HoleSet::FULL;
        match &self.region(number).expect("mapped region").mapping {
            Mapping::Pages(_) => {
                self.protect_pages(number, subpages, attributes, effects);
                Ok(())
            }
            Mapping::Large(large) => {
                let shared = effects.memory.any_shared(large.block, subpages);
                let permissions = allowed(attributes, shared);
                if large.permissions == permissions {
                    return Ok(());
                }
                if whole {
                    self.protect_large(number, permissions, effects);
                    return Ok(());
                }
                if partial == PartialChange::Split {
                    self.split_large(number, &HoleSet::FULL, effects)?;
                    self.protect_pages(number, subpages, attributes, effects);
                    return Ok(());
                }
                self.protect_perforated_part(number, subpages, attributes, effects)
            }
            Mapping::Perforated(perforated) => {
                if whole {
                    let in_place = complement(&perforated.holes);
                    let shared = effects.memory.any_shared(perforated.block, &in_place);
                    self.protect_perforated(number, allowed(attributes, shared), effects);
                }
                self.protect_perforated_part(number, subpages, attributes, effects)
            }
        }
    }

    fn protect_pages(
        &mut self,
        number: u64,
        subpages: &HoleSet,
        attributes: &Attributes,
        effects: &mut Effects<'_>,
    ) {
        let mapped = self.mapped_pages(number);
        for index in subpages.iter().filter(|&index| mapped.contains(index)) {
            let page = page_at(number, index);
            let Some(present) = self.find(page) else { continue };
            let shared = present.frame().is_some_and(|frame| effects.memory.is_shared(frame));
            self.protect_page(page, allowed(attributes, shared), effects);
        }
    }

    /// Sub-pages whose permissions differ from those of the 2MB mapping become holes that are
    /// mapped in place; such holes whose permissions are those of the mapping again are patched.
    fn protect_perforated_part(
        &mut self,
        number: u64,
        subpages: &HoleSet,
        attributes: &Attributes,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        for index in subpages.iter() {
            let page = page_at(number, index);
            let Some(present) = self.find(page) else { continue };
            let Some(frame) = present.frame() else { continue };
            let permissions = allowed(attributes, effects.memory.is_shared(frame));
            let (block, mapping_permissions) = self.two_megabytes(number);
            let is_hole = matches!(present, crate::space::Present::Hole(..));
            let belongs = permissions == mapping_permissions;
            let is_at_home = is_hole && frame == in_place(block, index);
            if is_at_home && belongs && self.is_shared_as_in_place(page) {
                self.patch(page, effects);
            } else if present.permissions() == permissions || (!is_hole && belongs) {
                continue;
            } else if is_hole {
                self.remap_hole(page, frame, permissions, effects);
            } else {
                let frame = self.punch(page, effects)?;
                self.map_hole(page, frame, permissions, effects);
            }
        }
        Ok(())
    }

    /// Block and permissions of the 2MB mapping of a region.
    fn two_megabytes(&self, number: u64) -> (Frame, Permissions) {
        match &self.region(number).expect("mapped region").mapping {
            Mapping::Large(large) => (large.block, large.permissions),
            Mapping::Perforated(perforated) => (perforated.block, perforated.permissions),
            Mapping::Pages(_) => unreachable!("region {number:#x} has 4KB pages"),
        }
    }
}

fn in_place(block: Frame, index: usize) -> Frame {
    debug_assert!(block.is_aligned(PageSize::Size2M));
    block.add(index as u64)
}
