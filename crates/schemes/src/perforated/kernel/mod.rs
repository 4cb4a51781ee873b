//! Operating-system half: 2MB pages with holes in an address space.
//!
//! A page may reserve the in-place frames of unallocated holes (P §VI): the block is taken whole,
//! but a sub-page counts as used only after its first touch, which patches the hole. When memory is
//! short, the kernel releases reserved frames for other uses.

mod page;

use std::ops::Range;

use perforate_os::OsError;
use perforate_os::mechanism::{
    AddressSpace, Attributes, Entries, Extent, HoledPages, Large, Mechanism, Part, Present,
    REGION_PAGES, SpaceMut, allowed, complement, first_page, index_of, leaf, page_at, region_of,
    subpages_of,
};
use perforate_types::{
    Frame, HoleSet, PageSize, Permissions, Shootdown, TableOperation, VirtualPage,
};

use crate::perforated::{HOLE_BRANCH, PerforatedOperation};
use page::PerforatedPage;

/// Number of 4KB sub-pages per bitmap entry of a TLB (P §IV.C: 32 bits).
const BITMAP_ENTRY_SUBPAGES: usize = 32;

/// Operations on perforated pages in an address space. They can also detach single pages from
/// ordinary 2MB pages, by punching holes (P §VI).
pub(crate) struct PerforatedPages;

impl Mechanism for PerforatedPages {
    fn map(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        extent: Box<dyn Extent>,
    ) -> Result<(), OsError> {
        let page = extent.downcast::<PerforatedPage>();
        let large = Large { block: page.block, permissions: page.permissions };
        self.map_around(space, region_of(first), large, page.holes)
    }

    fn unmap(&self, space: &mut SpaceMut<'_>, first: u64) -> Box<dyn Extent> {
        Box::new(unmap_perforated(space, region_of(first)))
    }

    fn protect(&self, space: &mut SpaceMut<'_>, first: u64, permissions: Permissions) {
        let number = region_of(first);
        let perforated = perforated_mut(space, number);
        if perforated.permissions == permissions {
            return;
        }
        perforated.permissions = permissions;
        let in_place = complement(&perforated.holes);
        let page = first_page(number);
        let (id, size) = (space.id(), PageSize::Size2M);
        space.report_subpages_protected(number, &in_place, permissions);
        space.table(TableOperation::Protect { space: id, page, size, permissions });
        space.shootdown(Shootdown::Space { space: id });
    }

    /// Replaces the perforated page by 4KB pages in place, without copying, and frees the frames
    /// that were reserved for its holes.
    fn break_up(&self, space: &mut SpaceMut<'_>, first: u64) -> Result<(), OsError> {
        let number = region_of(first);
        let node = space.allocate_node()?;
        let perforated = take_perforated(space, number);
        let mut entries = perforated.entries.clone();
        for index in complement(&perforated.holes).iter() {
            entries.replace(index, leaf(perforated.in_place(index), perforated.permissions));
        }
        space.memory.free_frames_of(perforated.block, &perforated.reserved);
        let present = (0..HoleSet::SUBPAGES).filter(|&index| entries[index].is_present());
        let pages = present.map(|index| {
            let entry = entries[index];
            (page_at(number, index), entry.frame(), entry.permissions())
        });
        space.refill_region(number, node, pages);
        space.work().large_pages_split += 1;
        Ok(())
    }

    fn drop_subpages(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        subpages: &HoleSet,
    ) -> Result<Part, OsError> {
        let number = region_of(first);
        self.release_reserved(space, number, subpages);
        for index in subpages.iter() {
            let page = page_at(number, index);
            let frame = match space.find(page) {
                Some(Present::InPlace(..)) => self.detach(space, page)?,
                Some(Present::Detached(..)) => self.vacate(space, page),
                _ => continue,
            };
            space.memory.release(frame);
        }
        Ok(Part::Done)
    }

    /// Changes the permissions of a part of the page: sub-pages whose permissions differ from those
    /// of the 2MB mapping become holes mapped in place. Such holes are patched once their
    /// permissions match again.
    fn protect_part(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        pages: &Range<u64>,
        attributes: &Attributes,
    ) -> Result<Part, OsError> {
        let number = region_of(first);
        let subpages = subpages_of(pages, number);
        if subpages == HoleSet::FULL {
            let shared = space.extent(first).is_shared(space.memory);
            self.protect(space, first, allowed(attributes, shared));
        }
        for index in subpages.iter() {
            let page = page_at(number, index);
            let Some(present) = space.find(page) else { continue };
            let Some(frame) = present.frame() else { continue };
            let permissions = allowed(attributes, space.memory.is_shared(frame));
            let (block, mapping_permissions) = two_megabytes(space, number);
            let is_hole = matches!(present, Present::Detached(..));
            let belongs = permissions == mapping_permissions;
            let is_at_home = is_hole && frame == block.add(index as u64);
            if is_at_home && belongs && space.is_shared_as_in_place(page) {
                self.attach(space, page);
            } else if present.permissions() == permissions || (!is_hole && belongs) {
                continue;
            } else if is_hole {
                self.refill(space, page, frame, permissions);
            } else {
                let frame = self.detach(space, page)?;
                self.fill(space, page, frame, permissions);
            }
        }
        Ok(Part::Done)
    }

    /// Copies the perforated page with its holes to a child process.
    fn copy_to(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        child: &mut AddressSpace,
    ) -> Result<(), OsError> {
        let number = region_of(first);
        let perforated = existing_perforated(space, number);
        let (block, holes) = (perforated.block, perforated.holes);
        let in_place = complement(&holes);
        // All in-place sub-pages belong to one area. Without any, the permissions do not matter.
        let page = page_at(number, in_place.iter().next().unwrap_or(0));
        let permissions = space.shared_permissions(page, perforated.permissions);
        let allocated: Vec<_> = perforated.allocated_holes().collect();
        self.map_around(&mut space.other(child), number, Large { block, permissions }, holes)?;
        space.memory.share_block(block, &in_place);
        self.protect(space, first, permissions);
        for (index, entry) in allocated {
            let page = page_at(number, index);
            let permissions = space.shared_permissions(page, entry.permissions());
            self.fill(&mut space.other(child), page, entry.frame(), permissions);
            space.memory.share(entry.frame());
            if permissions != entry.permissions() {
                self.refill(space, page, entry.frame(), permissions);
            }
        }
        Ok(())
    }

    fn moves_as_one(&self, _space: &AddressSpace, _first: u64, target: u64) -> bool {
        target.is_multiple_of(REGION_PAGES)
    }

    fn move_to(&self, space: &mut SpaceMut<'_>, first: u64, target: u64) -> Result<(), OsError> {
        let (number, target) = (region_of(first), region_of(target));
        let old = unmap_perforated(space, number);
        let large = Large { block: old.block, permissions: old.permissions };
        if let Err(error) = self.map_around(space, target, large, old.holes) {
            old.release(space.memory);
            return Err(error);
        }
        keep_reserved(space, target, old.reserved);
        for (index, entry) in old.allocated_holes() {
            let page = page_at(target, index);
            self.fill(space, page, entry.frame(), entry.permissions());
        }
        Ok(())
    }
}

impl HoledPages for PerforatedPages {
    fn map_around(
        &self,
        space: &mut SpaceMut<'_>,
        number: u64,
        large: Large,
        holes: HoleSet,
    ) -> Result<(), OsError> {
        let node = space.open_node(number, HOLE_BRANCH)?;
        space.set_region_extent(number, Box::new(PerforatedPage::new(large, holes, node)));
        report_perforated(space, number, large, holes);
        Ok(())
    }

    fn reserve(
        &self,
        space: &mut SpaceMut<'_>,
        number: u64,
        large: Large,
        reserved: HoleSet,
    ) -> Result<(), OsError> {
        self.map_around(space, number, large, HoleSet::FULL)?;
        keep_reserved(space, number, reserved);
        Ok(())
    }

    fn replace_pages(
        &self,
        space: &mut SpaceMut<'_>,
        number: u64,
        large: Large,
        holes: HoleSet,
        node: Frame,
    ) -> Entries {
        let page = Box::new(PerforatedPage::new(large, holes, node));
        let entries = space.take_pages(number, page);
        space.add_node(number, node, HOLE_BRANCH);
        report_perforated(space, number, large, holes);
        entries
    }

    /// Punches the 4KB sub-page, which becomes a hole without a frame. Returns the in-place frame,
    /// which the caller now owns.
    fn detach(&self, space: &mut SpaceMut<'_>, page: u64) -> Result<Frame, OsError> {
        let number = region_of(page);
        let index = index_of(page);
        make_perforated(space, number)?;
        let perforated = perforated_mut(space, number);
        let filter = perforated.holes.filter();
        assert!(perforated.holes.insert(index), "punched twice");
        let filter_changed = perforated.holes.filter() != filter;
        let frame = perforated.in_place(index);
        let block = perforated.block;
        space.usage_mut().holes_unallocated += 1;
        space.note_punched(number);
        space.report_unmapped(page, 1);
        space.work().subpages_punched += 1;
        let id = space.id();
        space.format(PerforatedOperation::Punch { space: id, page: VirtualPage::new(page) });
        shootdown_subpage(space, page, block, filter_changed);
        Ok(frame)
    }

    /// Patches the hole and returns the frame of its own, if it had one. The last patch leaves an
    /// ordinary 2MB page.
    fn attach(&self, space: &mut SpaceMut<'_>, page: u64) -> Option<Frame> {
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
            space.report_unmapped(page, 1);
        } else {
            space.usage_mut().holes_unallocated -= 1;
        }
        if entry.frame() == block.add(index as u64) {
            space.memory.forget_owner(entry.frame());
        }
        space.report_mapped(page, 1, block.add(index as u64), permissions);
        space.work().subpages_patched += 1;
        let id = space.id();
        space.format(PerforatedOperation::Patch { space: id, page: VirtualPage::new(page) });
        shootdown_subpage(space, page, block, filter_changed);
        make_ordinary_if_whole(space, number);
        entry.is_present().then(|| entry.frame())
    }

    /// Maps a hole that has no frame to `frame`. Frees the in-place frame that was reserved for the
    /// hole, if any. A new translation needs no shootdown.
    fn fill(&self, space: &mut SpaceMut<'_>, page: u64, frame: Frame, permissions: Permissions) {
        let index = index_of(page);
        if perforated_mut(space, region_of(page)).reserved.contains(index) {
            let frame = unreserve(space, page);
            space.memory.free(frame, 0);
        }
        let perforated = perforated_mut(space, region_of(page));
        assert!(perforated.holes.contains(index) && !perforated.entries[index].is_present());
        perforated.entries.replace(index, leaf(frame, permissions));
        perforated.allocated += 1;
        space.usage_mut().holes_allocated += 1;
        space.usage_mut().holes_unallocated -= 1;
        space.report_mapped(page, 1, frame, permissions);
        let (id, page) = (space.id(), VirtualPage::new(page));
        space.memory.set_owner(frame, id, page);
        space.subpage_mapped();
        space.format(PerforatedOperation::MapHole { space: id, page, frame, permissions });
    }

    /// Patches the hole if `permissions` are those of the 2MB page; otherwise maps it in place as a
    /// hole. Returns false if the in-place frame is not available.
    fn fill_in_place(&self, space: &mut SpaceMut<'_>, page: u64, permissions: Permissions) -> bool {
        let index = index_of(page);
        let perforated = existing_perforated(space, region_of(page));
        let frame = perforated.in_place(index);
        let is_reserved = perforated.reserved.contains(index);
        // Most in-place frames have another use. This test is faster than the one for `belongs`.
        if !is_reserved && !space.memory.is_free(frame) {
            return false;
        }
        let belongs = perforated.permissions == permissions && space.is_shared_as_in_place(page);
        if !(is_reserved || belongs) || !self.take_place(space, page) {
            return false;
        }
        if belongs {
            self.attach(space, page);
        } else {
            self.fill(space, page, frame, permissions);
        }
        true
    }

    fn vacate(&self, space: &mut SpaceMut<'_>, page: u64) -> Frame {
        let frame = take_hole(space, page);
        space.shootdown_page(page);
        frame
    }

    fn refill(
        &self,
        space: &mut SpaceMut<'_>,
        page: u64,
        frame: Frame,
        permissions: Permissions,
    ) -> Frame {
        let old = take_hole(space, page);
        self.fill(space, page, frame, permissions);
        space.shootdown_page(page);
        old
    }

    fn take_place(&self, space: &mut SpaceMut<'_>, page: u64) -> bool {
        let index = index_of(page);
        let perforated = existing_perforated(space, region_of(page));
        if !perforated.reserved.contains(index) {
            return space.memory.take(perforated.in_place(index));
        }
        unreserve(space, page);
        true
    }

    fn release_reserved(&self, space: &mut SpaceMut<'_>, number: u64, subpages: &HoleSet) -> u64 {
        let Some(perforated) = perforated(space, number) else { return 0 };
        let reserved = perforated.reserved;
        let mut released = 0;
        for index in reserved.iter().filter(|&index| subpages.contains(index)) {
            let frame = unreserve(space, page_at(number, index));
            space.memory.free(frame, 0);
            released += 1;
        }
        released
    }
}

/// Reports a new perforated page to the oracle, counts it, and writes its entry. It maps 2MB region
/// `number` to a block; none of its holes has a frame yet.
fn report_perforated(space: &mut SpaceMut<'_>, number: u64, large: Large, holes: HoleSet) {
    let Large { block, permissions } = large;
    let (id, page) = (space.id(), first_page(number));
    space.usage_mut().perforated_pages += 1;
    space.usage_mut().holes_unallocated += holes.count() as u64;
    space.memory.add_holed(block, id, page);
    space.report_subpages_mapped(number, &complement(&holes), block, permissions);
    space.work().pages_mapped += 1;
    let perforate = PerforatedOperation::Perforate { space: id, page, block, permissions, holes };
    space.format(perforate);
}

/// Unmaps a perforated page with its holes. The caller must release all its frames, including
/// reserved ones.
fn unmap_perforated(space: &mut SpaceMut<'_>, number: u64) -> PerforatedPage {
    let mapped = perforated_mut(space, number).mapped();
    space.report_subpages_unmapped(number, &mapped);
    let perforated = take_perforated(space, number);
    space.close_region(number);
    perforated
}

/// Clears the entry of a perforated page but keeps the kernel's structure for its 2MB region. The
/// oracle is not informed: the caller must report the unmapping or new mapping of the sub-pages.
fn take_perforated(space: &mut SpaceMut<'_>, number: u64) -> PerforatedPage {
    let page = first_page(number);
    let extent = space.take_region_extent(number);
    let perforated = extent.downcast::<PerforatedPage>();
    let block = perforated.block;
    let (id, size) = (space.id(), PageSize::Size2M);
    space.table(TableOperation::Unmap { space: id, page, size });
    space.shootdown(Shootdown::Space { space: id });
    space.memory.remove_holed(block, id, page);
    shootdown_sharers(space, block, &perforated.holes);
    let allocated = u64::from(perforated.allocated);
    let usage = space.usage_mut();
    usage.perforated_pages -= 1;
    usage.holes_allocated -= allocated;
    usage.holes_unallocated -= perforated.holes.count() as u64 - allocated;
    usage.reserved -= perforated.reserved.count() as u64;
    space.remove_node(number, perforated.node, HOLE_BRANCH);
    *perforated
}

fn take_hole(space: &mut SpaceMut<'_>, page: u64) -> Frame {
    let index = index_of(page);
    let perforated = perforated_mut(space, region_of(page));
    let entry = perforated.entries.take(index);
    assert!(entry.is_present(), "hole is not allocated");
    perforated.allocated -= 1;
    space.usage_mut().holes_allocated -= 1;
    space.usage_mut().holes_unallocated += 1;
    space.report_unmapped(page, 1);
    space.work().pages_unmapped += 1;
    let id = space.id();
    space.format(PerforatedOperation::UnmapHole { space: id, page: VirtualPage::new(page) });
    entry.frame()
}

fn make_perforated(space: &mut SpaceMut<'_>, number: u64) -> Result<(), OsError> {
    let Some(&mut large) = space.region_extent_mut::<Large>(number) else { return Ok(()) };
    let node = space.allocate_node()?;
    space.add_node(number, node, HOLE_BRANCH);
    let perforated = PerforatedPage::new(large, HoleSet::EMPTY, node);
    space.set_region_extent(number, Box::new(perforated));
    space.usage_mut().large_pages -= 1;
    space.usage_mut().perforated_pages += 1;
    space.memory.add_holed(large.block, space.id(), first_page(number));
    Ok(())
}

fn make_ordinary_if_whole(space: &mut SpaceMut<'_>, number: u64) {
    let perforated = perforated_mut(space, number);
    if !perforated.holes.is_empty() {
        return;
    }
    let (block, node) = (perforated.block, perforated.node);
    let permissions = perforated.permissions;
    space.set_region_extent(number, Box::new(Large { block, permissions }));
    space.usage_mut().perforated_pages -= 1;
    space.usage_mut().large_pages += 1;
    space.memory.remove_holed(block, space.id(), first_page(number));
    space.remove_node(number, node, HOLE_BRANCH);
}

/// Sends the shootdowns after a punch or patch. The paper names the 4KB translation and the bitmap
/// entry. It does not mention that a TLB entry of the 2MB page also caches the filter. With an old
/// filter, the hardware would treat a new hole as mapped in place. So if the filter changes, this
/// entry is invalidated too.
fn shootdown_subpage(space: &mut SpaceMut<'_>, page: u64, block: Frame, filter_changed: bool) {
    let id = space.id();
    space.shootdown_page(page);
    space.shootdown(Shootdown::Bitmap { space: id, page: VirtualPage::new(page) });
    if filter_changed {
        space.shootdown_large(page, PageSize::Size2M);
    }
    // The bitmap is the union over all mappings of the block, so it has changed for the other
    // mappings as well.
    let index = page % REGION_PAGES;
    for place in 0..space.memory.holed_pages_of(block).len() {
        let (user, first) = space.memory.holed_pages_of(block)[place];
        if user != id || first != first_page(region_of(page)) {
            space.shootdown(Shootdown::Bitmap { space: user, page: first.add(index) });
        }
    }
}

/// Invalidates the bitmap entries of the block's other sharers, after `holes` have left the block's
/// bitmap.
fn shootdown_sharers(space: &mut SpaceMut<'_>, block: Frame, holes: &HoleSet) {
    for place in 0..space.memory.holed_pages_of(block).len() {
        let (user, first) = space.memory.holed_pages_of(block)[place];
        for start in (0..HoleSet::SUBPAGES).step_by(BITMAP_ENTRY_SUBPAGES) {
            if (start..start + BITMAP_ENTRY_SUBPAGES).any(|index| holes.contains(index)) {
                let page = first.add(start as u64);
                space.shootdown(Shootdown::Bitmap { space: user, page });
            }
        }
    }
}

/// Block and permissions of the 2MB mapping, ordinary or perforated, of region `number`.
fn two_megabytes(space: &AddressSpace, number: u64) -> (Frame, Permissions) {
    match space.region_extent::<Large>(number) {
        Some(large) => (large.block, large.permissions),
        None => {
            let perforated = existing_perforated(space, number);
            (perforated.block, perforated.permissions)
        }
    }
}

/// Records that the in-place frames of the holes in `reserved`, which have no frame of their own,
/// are reserved for their page. The caller must have allocated these frames.
fn keep_reserved(space: &mut AddressSpace, number: u64, reserved: HoleSet) {
    perforated_mut(space, number).reserved = reserved;
    space.usage_mut().reserved += reserved.count() as u64;
}

/// Ends the reservation of a sub-page's in-place frame. Returns the frame, which the caller now
/// owns.
fn unreserve(space: &mut AddressSpace, page: u64) -> Frame {
    let index = index_of(page);
    let perforated = perforated_mut(space, region_of(page));
    assert!(perforated.reserved.remove(index), "not reserved");
    let frame = perforated.in_place(index);
    space.usage_mut().reserved -= 1;
    frame
}

/// The perforated page of the 2MB region `number`, which must have one.
fn existing_perforated(space: &AddressSpace, number: u64) -> &PerforatedPage {
    perforated(space, number).expect("a perforated page")
}

/// The perforated page of the 2MB region `number`, which must have one, for changes.
fn perforated_mut(space: &mut AddressSpace, number: u64) -> &mut PerforatedPage {
    space.region_extent_mut(number).expect("a perforated page")
}

/// The perforated page of the 2MB region `number`; `None` if the region has another mapping.
fn perforated(space: &AddressSpace, number: u64) -> Option<&PerforatedPage> {
    space.region_extent(number)
}
