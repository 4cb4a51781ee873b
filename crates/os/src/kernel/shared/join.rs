//! Touches of shared memory that others map already: the page is joined, as a part of a 2MB or 1GB
//! page where that is possible.

use perforate_types::{Frame, HoleSet, Permissions, SpaceId, Update};

use super::Elsewhere;
use crate::OsError;
use crate::kernel::{FirstTouch, Kernel};
use crate::memory::complement;
use crate::space::{
    AddressSpace, Area, Effects, GIGABYTE_PAGES, Huge, HugePages, Large, Mechanism, Present,
    REGION_PAGES, SharedBlock, gigabyte_of, page_at, pages_of, pages_of_gigabyte, region_of,
    subpages_of,
};

impl Kernel {
    /// Maps an untouched page of shared memory as far as others map it already. Returns whether
    /// the page is mapped now; if not, it may be brought in as private memory is.
    pub(in crate::kernel) fn join_shared(
        &mut self,
        id: SpaceId,
        page: u64,
        area: Area,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        let permissions = area.attributes.effective();
        let number = region_of(page);
        let region = pages_of(number);
        let may_be_large = self.may_be_large(id, number, &area)? && area.spans(&region);
        if may_be_large && self.join_large(id, page, &area, updates)? {
            return Ok(true);
        }
        let Some(frame) = self.frame_elsewhere(id, page) else {
            let stays_small = may_be_large && self.others_map_any(id, &area, &region);
            if stays_small {
                self.map_frame(id, page, permissions, updates)?;
            }
            return Ok(stays_small);
        };
        let (space, mut effects) = self.parts(id, updates)?;
        space.map_page(page, frame, permissions, &mut effects)?;
        effects.memory.share(frame);
        effects.ledger.join(FirstTouch::Page);
        self.receive_content(id, page);
        self.faults.shared_memory += 1;
        Ok(true)
    }

    /// Maps the 2MB or 1GB page around `page` that others map, if there is one at a congruent
    /// address.
    fn join_large(
        &mut self,
        id: SpaceId,
        page: u64,
        area: &Area,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        let Some(object) = area.attributes.object else { return Ok(false) };
        let permissions = area.attributes.effective();
        let number = region_of(page);
        let region = pages_of(number);
        let parts = self.elsewhere(id, object, &region);
        for part in &parts {
            if part.distance.rem_euclid(REGION_PAGES as i64) != 0 {
                continue;
            }
            if let Some(run) = self.huge_to_join(id, page, area, part)? {
                self.join_huge(id, page, run, permissions, updates)?;
                let gigabyte = pages_of_gigabyte(gigabyte_of(page));
                let parts = self.elsewhere(id, object, &gigabyte);
                self.receive_contents(id, &parts, part);
                return Ok(true);
            }
            let there = region_of(part.pages.start);
            let of_object = parts
                .iter()
                .filter(|other| other.is_same_mapping(part))
                .fold(HoleSet::EMPTY, |sum, part| sum.union(&subpages_of(&part.pages, there)));
            let block = self.space(part.space)?.shared_block(there, &of_object);
            let Some(block) = block.filter(|block| self.accepts(&block.holes)) else { continue };
            let (space, mut effects) = self.parts(id, updates)?;
            space.map_shared_block(number, &block, permissions, &mut effects)?;
            self.receive_contents(id, &parts, part);
            self.faults.shared_memory += 1;
            self.fill_hole(id, page, permissions, updates)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// What `id` now maps as `like` does has the contents there.
    fn receive_contents(&mut self, id: SpaceId, parts: &[Elsewhere], like: &Elsewhere) {
        for part in parts.iter().filter(|part| part.is_same_mapping(like)) {
            let first = part.pages.start.wrapping_add_signed(-part.distance);
            self.contents.copy(part.space, part.pages.clone(), id, first);
        }
    }

    /// The first frame of the 1GB page that translates `part`, if it can be mapped around `page`.
    fn huge_to_join(
        &self,
        id: SpaceId,
        page: u64,
        area: &Area,
        part: &Elsewhere,
    ) -> Result<Option<Frame>, OsError> {
        let fits = part.distance.rem_euclid(GIGABYTE_PAGES as i64) == 0
            && area.spans(&pages_of_gigabyte(gigabyte_of(page)))
            && self.space(id)?.is_gigabyte_empty(page);
        let there = self.space(part.space)?.extent_at(part.pages.start);
        let huge = there.and_then(|(_, extent)| extent.as_any().downcast_ref::<Huge>());
        Ok(huge.filter(|_| fits).map(|huge| huge.run))
    }

    fn join_huge(
        &mut self,
        id: SpaceId,
        page: u64,
        run: Frame,
        permissions: Permissions,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let (space, mut effects) = self.parts(id, updates)?;
        let huge = Huge { run, permissions };
        let first = pages_of_gigabyte(gigabyte_of(page)).start;
        HugePages.map(space, first, Box::new(huge), &mut effects)?;
        effects.memory.share_huge(run);
        effects.ledger.join(FirstTouch::Huge);
        self.faults.shared_memory += 1;
        Ok(())
    }

    /// Gives an unallocated hole in shared memory the frame that others have for it, and returns
    /// whether there was one. Where that is the frame in place, the hole is patched.
    pub(in crate::kernel) fn join_hole(
        &mut self,
        id: SpaceId,
        page: u64,
        permissions: Permissions,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        if self.space(id)?.find(page) != Some(Present::Vacant) {
            return Ok(false);
        }
        let Some(frame) = self.frame_elsewhere(id, page) else { return Ok(false) };
        let (space, mut effects) = self.parts(id, updates)?;
        let detacher = space.detacher(page).expect("the page was detached");
        let (_, extent) = space.extent_at(page).expect("the page was detached");
        let belongs = frame == detacher.place_of(space, page)
            && extent.permissions() == permissions
            && space.is_shared_as_in_place(page);
        effects.memory.share(frame);
        if belongs {
            detacher.attach(space, page, &mut effects);
        } else {
            detacher.fill(space, page, frame, permissions, &mut effects);
        }
        self.receive_content(id, page);
        self.faults.shared_memory += 1;
        Ok(true)
    }
}

impl AddressSpace {
    /// Maps what another mapping holds of an object, where nothing is mapped.
    pub(super) fn map_shared_block(
        &mut self,
        number: u64,
        shared: &SharedBlock,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let &SharedBlock { block, holes, ref moved } = shared;
        if holes.is_empty() {
            self.map_large(number, block, permissions, effects)?;
            effects.ledger.join(FirstTouch::Large);
        } else {
            self.perforate(number, Large { block, permissions }, holes, effects)?;
            effects.ledger.join(FirstTouch::Perforated { in_place: 0 });
        }
        effects.memory.share_block(block, &complement(&holes));
        for &(index, frame) in moved {
            self.map_hole(page_at(number, index), frame, permissions, effects);
            effects.memory.share(frame);
        }
        Ok(())
    }
}
