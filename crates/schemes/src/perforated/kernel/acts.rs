//! Operations on perforated pages.

use perforate_os::OsError;
use perforate_os::mechanism::{
    AddressSpace, Attributes, Effects, Extent, Large, Present, REGION_PAGES, allowed, complement,
    first_page, index_of, leaf, page_at, region_of,
};
use perforate_types::{
    Frame, HoleSet, PageSize, Permissions, Shootdown, TableOperation, VirtualPage,
};

use super::page::PerforatedPage;
use super::reservation::{keep_reserved, unreserve};
use crate::perforated::{HOLE_BRANCH, PerforatedOperation};

/// Sub-pages covered by one bitmap entry of a TLB (P §IV.C: 32 bits).
const BITMAP_ENTRY_SUBPAGES: usize = 32;

/// Maps `block` with unallocated `holes`.
pub(super) fn perforate(
    space: &mut AddressSpace,
    number: u64,
    large: Large,
    holes: HoleSet,
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    let node = space.open_node(number, HOLE_BRANCH, effects)?;
    space.set_region_extent(number, Box::new(PerforatedPage::new(large, holes, node)));
    report_perforated(space, number, large, holes, effects);
    Ok(())
}

/// Reports and counts a region mapped by a block with holes, all of which are unallocated.
pub(super) fn report_perforated(
    space: &mut AddressSpace,
    number: u64,
    large: Large,
    holes: HoleSet,
    effects: &mut Effects<'_>,
) {
    let Large { block, permissions } = large;
    let (id, page) = (space.id(), first_page(number));
    space.usage_mut().perforated_pages += 1;
    space.usage_mut().holes_unallocated += holes.count() as u64;
    effects.memory.add_holed(block, id, page);
    space.tell_subpages_mapped((number, &complement(&holes)), block, permissions, effects);
    effects.work().pages_mapped += 1;
    let space = id;
    effects.format(PerforatedOperation::Perforate { space, page, block, permissions, holes });
}

/// Unmaps a perforated page with its holes. The caller takes over all references, including those
/// of reserved frames.
pub(super) fn unmap_perforated(
    space: &mut AddressSpace,
    number: u64,
    effects: &mut Effects<'_>,
) -> PerforatedPage {
    let mapped = perforated_mut(space, number).mapped();
    space.tell_subpages_unmapped(number, &mapped, effects);
    let perforated = take_perforated(space, number, effects);
    space.close_region(number, effects);
    perforated
}

/// Clears the entry of a perforated page but keeps its region's record. The caller decides about
/// the sub-pages.
pub(super) fn take_perforated(
    space: &mut AddressSpace,
    number: u64,
    effects: &mut Effects<'_>,
) -> PerforatedPage {
    let page = first_page(number);
    let extent = space.take_region_extent(number);
    let perforated = extent.downcast::<PerforatedPage>();
    let block = perforated.block;
    let (id, size) = (space.id(), PageSize::Size2M);
    effects.table(TableOperation::Unmap { space: id, page, size });
    effects.shootdown(Shootdown::Space { space: id });
    effects.memory.remove_holed(block, id, page);
    shootdown_sharers(block, &perforated.holes, effects);
    let allocated = u64::from(perforated.allocated);
    let usage = space.usage_mut();
    usage.perforated_pages -= 1;
    usage.holes_allocated -= allocated;
    usage.holes_unallocated -= perforated.holes.count() as u64 - allocated;
    usage.reserved -= perforated.reserved.count() as u64;
    space.remove_node(number, perforated.node, HOLE_BRANCH, effects);
    *perforated
}

/// Changes the permissions of all sub-pages that are not holes.
pub(super) fn protect_perforated(
    space: &mut AddressSpace,
    number: u64,
    permissions: Permissions,
    effects: &mut Effects<'_>,
) {
    let perforated = perforated_mut(space, number);
    if perforated.permissions == permissions {
        return;
    }
    perforated.permissions = permissions;
    let in_place = complement(&perforated.holes);
    let page = first_page(number);
    let (id, size) = (space.id(), PageSize::Size2M);
    space.tell_subpages_protected((number, &in_place), permissions, effects);
    effects.table(TableOperation::Protect { space: id, page, size, permissions });
    effects.shootdown(Shootdown::Space { space: id });
}

/// Maps the unallocated hole `page` and frees a frame reserved for the hole. A new translation
/// needs no shootdown.
pub(super) fn map_hole(
    space: &mut AddressSpace,
    page: u64,
    frame: Frame,
    permissions: Permissions,
    effects: &mut Effects<'_>,
) {
    let index = index_of(page);
    if perforated_mut(space, region_of(page)).reserved.contains(index) {
        let frame = unreserve(space, page);
        effects.memory.free(frame, 0);
    }
    let perforated = perforated_mut(space, region_of(page));
    assert!(perforated.holes.contains(index) && !perforated.entries[index].is_present());
    perforated.entries.replace(index, leaf(frame, permissions));
    perforated.allocated += 1;
    space.usage_mut().holes_allocated += 1;
    space.usage_mut().holes_unallocated -= 1;
    space.tell_mapped((page, 1), frame, permissions, effects);
    let (space, page) = (space.id(), VirtualPage::new(page));
    effects.memory.set_owner(frame, space, page);
    effects.subpage_mapped();
    effects.format(PerforatedOperation::MapHole { space, page, frame, permissions });
}

/// Unmaps the allocated hole `page`. Returns its frame with the reference.
pub(super) fn unmap_hole(space: &mut AddressSpace, page: u64, effects: &mut Effects<'_>) -> Frame {
    let frame = take_hole(space, page, effects);
    space.shootdown_page(page, effects);
    frame
}

/// Maps the allocated hole `page` to another frame or with other permissions. Returns the old frame
/// with its reference.
pub(super) fn remap_hole(
    space: &mut AddressSpace,
    page: u64,
    frame: Frame,
    permissions: Permissions,
    effects: &mut Effects<'_>,
) -> Frame {
    let old = take_hole(space, page, effects);
    map_hole(space, page, frame, permissions, effects);
    space.shootdown_page(page, effects);
    old
}

fn take_hole(space: &mut AddressSpace, page: u64, effects: &mut Effects<'_>) -> Frame {
    let index = index_of(page);
    let perforated = perforated_mut(space, region_of(page));
    let entry = perforated.entries.take(index);
    assert!(entry.is_present(), "hole is not allocated");
    perforated.allocated -= 1;
    space.usage_mut().holes_allocated -= 1;
    space.usage_mut().holes_unallocated += 1;
    space.tell_unmapped(page, 1, effects);
    effects.work().pages_unmapped += 1;
    let (space, page) = (space.id(), VirtualPage::new(page));
    effects.format(PerforatedOperation::UnmapHole { space, page });
    entry.frame()
}

/// Punches sub-page `page` of an ordinary or perforated 2MB page: it becomes an unallocated hole.
/// Returns its in-place frame with the reference.
pub(super) fn punch(
    space: &mut AddressSpace,
    page: u64,
    effects: &mut Effects<'_>,
) -> Result<Frame, OsError> {
    let number = region_of(page);
    let index = index_of(page);
    make_perforated(space, number, effects)?;
    let perforated = perforated_mut(space, number);
    let filter = perforated.holes.filter();
    assert!(perforated.holes.insert(index), "punched twice");
    let filter_changed = perforated.holes.filter() != filter;
    let frame = perforated.in_place(index);
    let block = perforated.block;
    space.usage_mut().holes_unallocated += 1;
    space.note_punched(number);
    space.tell_unmapped(page, 1, effects);
    effects.work().subpages_punched += 1;
    let id = space.id();
    effects.format(PerforatedOperation::Punch { space: id, page: VirtualPage::new(page) });
    shootdown_subpage(space, page, block, filter_changed, effects);
    Ok(frame)
}

/// Patches the hole `page`: the 2MB mapping translates it again. The caller provides the reference
/// to the in-place frame. Returns the frame of an allocated hole with its reference. The last patch
/// leaves an ordinary 2MB page.
pub(super) fn patch(
    space: &mut AddressSpace,
    page: u64,
    effects: &mut Effects<'_>,
) -> Option<Frame> {
    let number = region_of(page);
    let index = index_of(page);
    let perforated = perforated_mut(space, number);
    let filter = perforated.holes.filter();
    assert!(perforated.holes.remove(index), "not a hole");
    let filter_changed = perforated.holes.filter() != filter;
    let entry = perforated.entries.take(index);
    perforated.allocated -= u32::from(entry.is_present());
    let (block, permissions) = (perforated.block, perforated.permissions);
    if entry.is_present() {
        space.usage_mut().holes_allocated -= 1;
        space.tell_unmapped(page, 1, effects);
    } else {
        space.usage_mut().holes_unallocated -= 1;
    }
    if entry.frame() == block.add(index as u64) {
        effects.memory.forget_owner(entry.frame());
    }
    space.tell_mapped((page, 1), block.add(index as u64), permissions, effects);
    effects.work().subpages_patched += 1;
    let id = space.id();
    effects.format(PerforatedOperation::Patch { space: id, page: VirtualPage::new(page) });
    shootdown_subpage(space, page, block, filter_changed, effects);
    make_ordinary_if_whole(space, number, effects);
    entry.is_present().then(|| entry.frame())
}

fn make_perforated(
    space: &mut AddressSpace,
    number: u64,
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    let Some(&mut large) = space.region_extent_mut::<Large>(number) else { return Ok(()) };
    let node = space.allocate_node(effects)?;
    space.add_node(number, node, HOLE_BRANCH, effects);
    let perforated = PerforatedPage::new(large, HoleSet::EMPTY, node);
    space.set_region_extent(number, Box::new(perforated));
    space.usage_mut().large_pages -= 1;
    space.usage_mut().perforated_pages += 1;
    effects.memory.add_holed(large.block, space.id(), first_page(number));
    Ok(())
}

fn make_ordinary_if_whole(space: &mut AddressSpace, number: u64, effects: &mut Effects<'_>) {
    let perforated = perforated_mut(space, number);
    if !perforated.holes.is_empty() {
        return;
    }
    let (block, node) = (perforated.block, perforated.node);
    let permissions = perforated.permissions;
    space.set_region_extent(number, Box::new(Large { block, permissions }));
    space.usage_mut().perforated_pages -= 1;
    space.usage_mut().large_pages += 1;
    effects.memory.remove_holed(block, space.id(), first_page(number));
    space.remove_node(number, node, HOLE_BRANCH, effects);
}

/// Shootdown after a punch or patch (P-5). The paper names the 4KB translation and the bitmap
/// entry. It does not mention that a TLB entry of the 2MB page also caches the filter. If the
/// filter changes, an old entry would treat a new hole as mapped in place, so this entry is
/// invalidated, too.
fn shootdown_subpage(
    space: &AddressSpace,
    page: u64,
    block: Frame,
    filter_changed: bool,
    effects: &mut Effects<'_>,
) {
    let id = space.id();
    space.shootdown_page(page, effects);
    effects.shootdown(Shootdown::Bitmap { space: id, page: VirtualPage::new(page) });
    if filter_changed {
        space.shootdown_large(page, PageSize::Size2M, effects);
    }
    // The bitmap is the union over all mappings of the block (P-2), so the other mappings' bitmap
    // has changed as well.
    let index = page % REGION_PAGES;
    for place in 0..effects.memory.holed_pages_of(block).len() {
        let (user, first) = effects.memory.holed_pages_of(block)[place];
        if user != id || first != first_page(region_of(page)) {
            effects.shootdown(Shootdown::Bitmap { space: user, page: first.add(index) });
        }
    }
}

/// The perforated page of a region, which must exist.
pub(super) fn existing_perforated(space: &AddressSpace, number: u64) -> &PerforatedPage {
    perforated(space, number).expect("a perforated page")
}

/// The perforated page of a region, which must exist, mutable.
pub(super) fn perforated_mut(space: &mut AddressSpace, number: u64) -> &mut PerforatedPage {
    space.region_extent_mut(number).expect("a perforated page")
}

/// The perforated page of a region, if there is one.
pub(super) fn perforated(space: &AddressSpace, number: u64) -> Option<&PerforatedPage> {
    space.region_extent(number)
}

/// Changes the permissions of sub-pages. Sub-pages whose permissions differ from those of the 2MB
/// mapping become holes mapped in place. Such holes are patched once their permissions match again.
pub(super) fn protect_perforated_part(
    space: &mut AddressSpace,
    number: u64,
    subpages: &HoleSet,
    attributes: &Attributes,
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    for index in subpages.iter() {
        let page = page_at(number, index);
        let Some(present) = space.find(page) else { continue };
        let Some(frame) = present.frame() else { continue };
        let permissions = allowed(attributes, effects.memory.is_shared(frame));
        let (block, mapping_permissions) = two_megabytes(space, number);
        let is_hole = matches!(present, Present::Detached(..));
        let belongs = permissions == mapping_permissions;
        let is_at_home = is_hole && frame == block.add(index as u64);
        if is_at_home && belongs && space.is_shared_as_in_place(page) {
            patch(space, page, effects);
        } else if present.permissions() == permissions || (!is_hole && belongs) {
            continue;
        } else if is_hole {
            remap_hole(space, page, frame, permissions, effects);
        } else {
            let frame = punch(space, page, effects)?;
            map_hole(space, page, frame, permissions, effects);
        }
    }
    Ok(())
}

/// Block and permissions of a region's 2MB mapping.
fn two_megabytes(space: &AddressSpace, number: u64) -> (Frame, Permissions) {
    match space.region_extent::<Large>(number) {
        Some(large) => (large.block, large.permissions),
        None => {
            let perforated = existing_perforated(space, number);
            (perforated.block, perforated.permissions)
        }
    }
}

/// Copies a perforated page for fork: the child has the same holes.
pub(super) fn copy_perforated(
    space: &mut AddressSpace,
    number: u64,
    child: &mut AddressSpace,
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    let perforated = existing_perforated(space, number);
    let (block, holes) = (perforated.block, perforated.holes);
    let in_place = complement(&holes);
    // All in-place sub-pages belong to one area; without any, the permissions do not matter.
    let page = page_at(number, in_place.iter().next().unwrap_or(0));
    let permissions = space.shared_permissions(page, perforated.permissions);
    let allocated: Vec<_> = perforated.allocated_holes().collect();
    perforate(child, number, Large { block, permissions }, holes, effects)?;
    effects.memory.share_block(block, &in_place);
    protect_perforated(space, number, permissions, effects);
    for (index, entry) in allocated {
        let page = page_at(number, index);
        let permissions = space.shared_permissions(page, entry.permissions());
        map_hole(child, page, entry.frame(), permissions, effects);
        effects.memory.share(entry.frame());
        if permissions != entry.permissions() {
            remap_hole(space, page, entry.frame(), permissions, effects);
        }
    }
    Ok(())
}

/// Moves a perforated page with its holes for mremap.
pub(super) fn move_perforated(
    space: &mut AddressSpace,
    number: u64,
    target: u64,
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    let old = unmap_perforated(space, number, effects);
    let large = Large { block: old.block, permissions: old.permissions };
    if let Err(error) = perforate(space, target, large, old.holes, effects) {
        old.release(effects.memory);
        return Err(error);
    }
    keep_reserved(space, target, old.reserved);
    for (index, entry) in old.allocated_holes() {
        let page = page_at(target, index);
        map_hole(space, page, entry.frame(), entry.permissions(), effects);
    }
    Ok(())
}

/// Invalidates bitmap entries of the other sharers, after these holes left the union of a block.
fn shootdown_sharers(block: Frame, holes: &HoleSet, effects: &mut Effects<'_>) {
    for place in 0..effects.memory.holed_pages_of(block).len() {
        let (space, first) = effects.memory.holed_pages_of(block)[place];
        for start in (0..HoleSet::SUBPAGES).step_by(BITMAP_ENTRY_SUBPAGES) {
            if (start..start + BITMAP_ENTRY_SUBPAGES).any(|index| holes.contains(index)) {
                let page = first.add(start as u64);
                effects.shootdown(Shootdown::Bitmap { space, page });
            }
        }
    }
}
