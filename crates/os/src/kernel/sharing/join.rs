//! Touches of shared memory (MAP_SHARED) that another mapping already has frames for: maps the same
//! frames, as a part of a 2MB or 1GB page if possible.

use perforate_types::{Frame, HoleSet, Permissions, SpaceId};

use super::{Elsewhere, elsewhere, frame_elsewhere, others_map_any};
use crate::kernel::first_touch::{Backed, Backer, Touch};
use crate::kernel::{Core, FirstTouch, contents, single_page};
use crate::memory::complement;
use crate::space::{
    Area, GIGABYTE_PAGES, Huge, HugePages, Large, Mechanism, Present, REGION_PAGES, SharedBlock,
    SpaceMut, gigabyte_of, index_of, page_at, pages_of, pages_of_gigabyte, region_of, subpages_of,
};
use crate::{Orders, OsError};

/// Backer (mechanism that maps memory on first touches) of shared memory: uses the frames of other mappings.
/// Shared memory that is not mapped yet is backed like private memory.
pub(in crate::kernel) struct SharedMemory;

impl Backer for SharedMemory {
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
        let &Touch { space, page, area } = touch;
        let is_joined = area.attributes.is_shared() && join(core, space, page, area)?;
        Ok(if is_joined { Backed::Yes } else { Backed::No })
    }

    fn maps_beside_pages(&self, area: &Area) -> bool {
        area.attributes.is_shared()
    }
}

/// Maps an untouched page of shared memory to the frame that another mapping has. Returns true if
/// the page is mapped now.
fn join(core: &mut Core, id: SpaceId, page: u64, area: Area) -> Result<bool, OsError> {
    let permissions = area.attributes.effective();
    let region = pages_of(region_of(page));
    let may_be_large = core.orders_at_touch(id, page, &area)?.contains(Orders::LARGE);
    if may_be_large && join_large(core, id, page, &area)? {
        return Ok(true);
    }
    let Some(frame) = frame_elsewhere(core, id, page) else {
        let stays_small = may_be_large && others_map_any(core, id, &area, &region);
        if stays_small {
            single_page::map(core, id, page, permissions)?;
        }
        return Ok(stays_small);
    };
    let space = &mut core.space_mut(id)?;
    space.map_page(page, frame, permissions)?;
    space.memory.share(frame);
    space.ledger.join(FirstTouch::Page);
    contents::receive(core, id, page);
    core.faults.shared_memory += 1;
    Ok(true)
}

/// Maps the 2MB or 1GB page around `page` if another mapping has one at a congruent address (equal
/// modulo the page size). Returns true if it did.
fn join_large(core: &mut Core, id: SpaceId, page: u64, area: &Area) -> Result<bool, OsError> {
    let Some(object) = area.attributes.object else { return Ok(false) };
    let permissions = area.attributes.effective();
    let number = region_of(page);
    let region = pages_of(number);
    let parts = elsewhere(core, id, object, &region);
    for part in &parts {
        if part.distance.rem_euclid(REGION_PAGES as i64) != 0 {
            continue;
        }
        if let Some(run) = huge_to_join(core, id, page, area, part)? {
            join_huge(core, id, page, run, permissions)?;
            let gigabyte = pages_of_gigabyte(gigabyte_of(page));
            let parts = elsewhere(core, id, object, &gigabyte);
            receive_contents(core, id, &parts, part);
            return Ok(true);
        }
        let other_region = region_of(part.pages.start);
        let of_object = parts
            .iter()
            .filter(|other| other.is_same_mapping(part))
            .fold(HoleSet::EMPTY, |sum, part| sum.union(&subpages_of(&part.pages, other_region)));
        let block = core.space(part.space)?.shared_block(other_region, &of_object);
        let Some(block) = block.filter(|block| core.accepts(&block.holes)) else { continue };
        let space = &mut core.space_mut(id)?;
        space.map_shared_block(number, &block, permissions)?;
        receive_contents(core, id, &parts, part);
        core.faults.shared_memory += 1;
        single_page::fill_hole(core, id, page, permissions)?;
        return Ok(true);
    }
    Ok(false)
}

/// Copies the content identities of shared pages to address space `id`, which now maps these pages too. Uses
/// those of `parts` (parts of other mappings) that lie in the same mapping as `like`.
fn receive_contents(core: &mut Core, id: SpaceId, parts: &[Elsewhere], like: &Elsewhere) {
    for part in parts.iter().filter(|part| part.is_same_mapping(like)) {
        let first = part.pages.start.wrapping_add_signed(-part.distance);
        core.contents.copy(part.space, part.pages.clone(), id, first);
    }
}

/// First frame of the 1GB page that translates `part` of another mapping; `None` if address space `id`
/// cannot map that page around `page` too.
fn huge_to_join(
    core: &Core,
    id: SpaceId,
    page: u64,
    area: &Area,
    part: &Elsewhere,
) -> Result<Option<Frame>, OsError> {
    let fits = part.distance.rem_euclid(GIGABYTE_PAGES as i64) == 0
        && area.spans(&pages_of_gigabyte(gigabyte_of(page)))
        && core.space(id)?.is_gigabyte_empty(page);
    let other_extent = core.space(part.space)?.extent_at(part.pages.start);
    let huge = other_extent.and_then(|(_, extent)| extent.downcast_ref::<Huge>());
    Ok(huge.filter(|_| fits).map(|huge| huge.run))
}

fn join_huge(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    run: Frame,
    permissions: Permissions,
) -> Result<(), OsError> {
    let space = &mut core.space_mut(id)?;
    let huge = Huge { run, permissions };
    let first = pages_of_gigabyte(gigabyte_of(page)).start;
    HugePages.map(space, first, Box::new(huge))?;
    space.memory.share_huge(run);
    space.ledger.join(FirstTouch::Huge);
    core.faults.shared_memory += 1;
    Ok(())
}

/// Maps an unallocated hole in shared memory to the frame that another mapping has for it. Patches
/// the hole if that is its in-place frame. Returns false if no other mapping has a frame.
pub(in crate::kernel) fn join_hole(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    permissions: Permissions,
) -> Result<bool, OsError> {
    if core.space(id)?.find(page) != Some(Present::Vacant) {
        return Ok(false);
    }
    let Some(frame) = frame_elsewhere(core, id, page) else { return Ok(false) };
    let space = &mut core.space_mut(id)?;
    let (pages, holed) = space.holes_around(page);
    let belongs = frame == holed.in_place(index_of(page))
        && holed.permissions == permissions
        && space.is_shared_as_in_place(page);
    space.memory.share(frame);
    if belongs {
        pages.attach(space, page);
    } else {
        pages.fill(space, page, frame, permissions);
    }
    contents::receive(core, id, page);
    core.faults.shared_memory += 1;
    Ok(true)
}

impl SpaceMut<'_> {
    /// Maps unmapped 2MB region `number` to block `shared` of another mapping of the same shared object.
    pub(super) fn map_shared_block(
        &mut self,
        number: u64,
        shared: &SharedBlock,
        permissions: Permissions,
    ) -> Result<(), OsError> {
        let &SharedBlock { block, holes, ref moved } = shared;
        if holes.is_empty() {
            self.map_large(number, Large { block, permissions })?;
            self.ledger.join(FirstTouch::Large);
        } else {
            let pages = self.holes.expect("every address space makes the same pages");
            pages.map_around(self, number, Large { block, permissions }, holes)?;
            self.ledger.join(FirstTouch::WithHoles { in_place: 0 });
        }
        self.memory.share_block(block, &complement(&holes));
        for &(index, frame) in moved {
            let pages = self.holes.expect("it was just mapped with holes");
            pages.fill(self, page_at(number, index), frame, permissions);
            self.memory.share(frame);
        }
        Ok(())
    }
}
