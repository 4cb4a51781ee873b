//! Writes to pages that are read-only although their areas may be written: copy on write after a
//! fork or a merge, and what is left of it once nobody else maps the frame.

use perforate_types::{Frame, PageSize, SpaceId, Update};

use super::Kernel;
use crate::memory::complement;
use crate::space::{Attributes, Effects, Present, gigabyte_of, index_of, region_of};
use crate::{OsError, PartialChange};

impl Kernel {
    /// A write to a page that is mapped read-only although its area may be written: the frame is
    /// copied if others map it too, else it only gets its permissions back.
    pub(super) fn make_writable(
        &mut self,
        id: SpaceId,
        page: u64,
        attributes: Attributes,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let partial = self.partial_change();
        let permissions = attributes.effective();
        let number = region_of(page);
        let index = index_of(page);
        let (space, mut effects) = self.parts(id, updates)?;
        let effects = &mut effects;
        let copies = |frame: Frame, effects: &Effects<'_>| {
            !attributes.is_shared() && effects.memory.is_shared(frame)
        };
        match space.find(page).expect("present") {
            Present::Page(frame, _) if copies(frame, effects) => {
                let new = effects.memory.allocate_page()?;
                let old = space.unmap_page(page, effects);
                space.map_page(page, new, permissions, effects)?;
                effects.ledger.done.frames_copied += 1;
                effects.memory.release(old);
            }
            Present::Page(..) => space.protect_page(page, permissions, effects),
            Present::Hole(frame, _) if copies(frame, effects) => {
                let new = effects.memory.allocate_page()?;
                let old = space.remap_hole(page, new, permissions, effects);
                effects.ledger.done.frames_copied += 1;
                effects.memory.release(old);
            }
            Present::Hole(frame, _) => {
                space.remap_hole(page, frame, permissions, effects);
            }
            Present::Large(frame, _) => {
                let block = frame.align_down(PageSize::Size2M);
                if !effects.memory.any_shared(block, &perforate_types::HoleSet::FULL)
                    || attributes.is_shared()
                {
                    space.protect_large(number, permissions, effects);
                } else if partial == PartialChange::Split {
                    space.split_large(number, &perforate_types::HoleSet::FULL, effects)?;
                    return self.make_writable(id, page, attributes, updates);
                } else {
                    space.copy_subpage(page, copies(frame, effects), permissions, effects)?;
                }
            }
            Present::InPlace(frame, _) => {
                let in_place = complement(&space.perforated(number).expect("perforated").holes);
                let block = frame.align_down(PageSize::Size2M);
                if !effects.memory.any_shared(block, &in_place) || attributes.is_shared() {
                    space.protect_perforated(number, permissions, effects);
                } else {
                    space.copy_subpage(page, copies(frame, effects), permissions, effects)?;
                }
            }
            Present::Superpage(..) => {
                let start = space.superpage_start(page);
                if space.is_superpage_shared(start, effects.memory) {
                    space.demote_superpages(start, effects)?;
                    return self.make_writable(id, page, attributes, updates);
                }
                space.protect_superpage(start, permissions, effects);
            }
            Present::Huge(..)
                if attributes.is_shared()
                    || !effects.memory.any_shared_huge(space.huge_block(gigabyte_of(page))) =>
            {
                space.protect_huge(gigabyte_of(page), permissions, effects);
            }
            Present::Huge(..) => {
                space.split_huge(gigabyte_of(page), effects)?;
                return self.make_writable(id, page, attributes, updates);
            }
            Present::EmptyHole => unreachable!("sub-page {index} was present"),
        }
        Ok(())
    }
}
