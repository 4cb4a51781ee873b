//! Operations on perforated pages: 2MB pages with holes (P §IV).

use perforate_types::{
    Frame, HOLE_BRANCH, HoleSet, PageSize, PerforatedOperation, Permissions, Shootdown,
    TableOperation, VirtualPage,
};

use super::{
    AddressSpace, Effects, Large, Mapping, Perforated, Present, REGION_PAGES, Region, first_page,
    index_of, leaf, region_of,
};
use crate::OsError;
use crate::memory::complement;

/// Sub-pages that one bitmap entry of a TLB covers (P §IV.C: 32 bits).
const BITMAP_ENTRY_SUBPAGES: usize = 32;

impl Perforated {
    /// How sub-page `index` is translated.
    pub(super) fn find(&self, index: usize) -> Present {
        if !self.holes.contains(index) {
            return Present::InPlace(self.in_place(index), self.permissions);
        }
        let entry = self.entries[index];
        if entry.is_present() {
            Present::Hole(entry.frame(), entry.permissions())
        } else {
            Present::EmptyHole
        }
    }

    /// The sub-pages that are mapped, in place or not.
    fn mapped(&self) -> HoleSet {
        let is_mapped = |&index: &usize| self.entries[index].is_present();
        complement(&self.holes).union(&self.holes.iter().filter(is_mapped).collect())
    }
}

impl AddressSpace {
    /// Maps `block` except for `holes`, where nothing is mapped.
    pub(crate) fn perforate(
        &mut self,
        number: u64,
        large: Large,
        holes: HoleSet,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let node = self.open_leaf_node(number, HOLE_BRANCH, effects)?;
        let Large { block, permissions } = large;
        let mapping = Mapping::Perforated(Box::new(Perforated::new(large, holes, node)));
        self.regions.insert(number, Region { mapping, fragment: None });
        self.usage.perforated_pages += 1;
        self.usage.holes_unallocated += holes.count() as u64;
        effects.memory.add_perforated(block, self.id, first_page(number));
        self.tell_subpages_mapped((number, &complement(&holes)), block, permissions, effects);
        effects.ledger.done.pages_mapped += 1;
        effects.format(PerforatedOperation::Perforate {
            space: self.id,
            page: first_page(number),
            block,
            permissions,
            holes,
        });
        Ok(())
    }

    /// Unmaps a perforated page with its holes and returns what it was; all references are now
    /// the caller's, those of reserved frames as well.
    pub(crate) fn unmap_perforated(
        &mut self,
        number: u64,
        effects: &mut Effects<'_>,
    ) -> Perforated {
        let mapped = self.perforated_mut(number).mapped();
        self.tell_subpages_unmapped(number, &mapped, effects);
        let perforated = self.take_perforated(number, effects);
        self.close_region(number, effects);
        perforated
    }

    /// Clears the entry of a perforated page but leaves the record of its region. What becomes of
    /// its sub-pages the caller says.
    pub(super) fn take_perforated(&mut self, number: u64, effects: &mut Effects<'_>) -> Perforated {
        let page = first_page(number);
        let region = self.regions.get_mut(&number).expect("mapped region");
        let block = match &region.mapping {
            Mapping::Perforated(perforated) => perforated.block,
            _ => unreachable!("region {number:#x} is not perforated"),
        };
        // The caller gets the content of the record and closes or refills it.
        let permissions = Permissions::READ;
        let taken =
            std::mem::replace(&mut region.mapping, Mapping::Large(Large { block, permissions }));
        let Mapping::Perforated(perforated) = taken else { unreachable!("checked above") };
        let (space, size) = (self.id, PageSize::Size2M);
        effects.table(TableOperation::Unmap { space, page, size });
        effects.shootdown(Shootdown::Space { space });
        effects.memory.remove_perforated(block, space, page);
        shootdown_sharers(block, &perforated.holes, effects);
        self.usage.perforated_pages -= 1;
        self.usage.holes_allocated -= u64::from(perforated.allocated);
        self.usage.holes_unallocated -=
            perforated.holes.count() as u64 - u64::from(perforated.allocated);
        self.usage.reserved -= perforated.reserved.count() as u64;
        self.remove_leaf_node(number, perforated.node, HOLE_BRANCH, effects);
        *perforated
    }

    /// Gives all sub-pages that are not holes other permissions.
    pub(crate) fn protect_perforated(
        &mut self,
        number: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        let perforated = self.perforated_mut(number);
        if perforated.permissions == permissions {
            return;
        }
        perforated.permissions = permissions;
        let in_place = complement(&perforated.holes);
        let page = first_page(number);
        let (space, size) = (self.id, PageSize::Size2M);
        self.tell_subpages_protected((number, &in_place), permissions, effects);
        effects.table(TableOperation::Protect { space, page, size, permissions });
        effects.shootdown(Shootdown::Space { space });
    }

    /// Maps the unallocated hole `page`. It adds a translation, so nothing is shot down. A frame
    /// reserved for it is free then.
    pub(crate) fn map_hole(
        &mut self,
        page: u64,
        frame: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        let index = index_of(page);
        if self.perforated_mut(region_of(page)).reserved.contains(index) {
            let frame = self.unreserve(page);
            effects.memory.free(frame, 0);
        }
        let perforated = self.perforated_mut(region_of(page));
        assert!(perforated.holes.contains(index) && !perforated.entries[index].is_present());
        perforated.entries[index] = leaf(frame, permissions);
        perforated.allocated += 1;
        self.usage.holes_allocated += 1;
        self.usage.holes_unallocated -= 1;
        let (space, page) = (self.id, VirtualPage::new(page));
        effects.memory.set_owner(frame, space, page);
        self.tell_mapped((page.number(), 1), frame, permissions, effects);
        effects.ledger.done.pages_mapped += 1;
        effects.ledger.subpages_mapped += 1;
        effects.format(PerforatedOperation::MapHole { space, page, frame, permissions });
    }

    /// Makes the hole `page` unallocated and returns its frame, whose reference is now the
    /// caller's.
    pub(crate) fn unmap_hole(&mut self, page: u64, effects: &mut Effects<'_>) -> Frame {
        let frame = self.take_hole(page, effects);
        self.shootdown_page(page, effects);
        frame
    }

    /// Maps the allocated hole `page` to another frame or with other permissions; the reference
    /// to the frame it had is now the caller's.
    pub(crate) fn remap_hole(
        &mut self,
        page: u64,
        frame: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Frame {
        let old = self.take_hole(page, effects);
        self.map_hole(page, frame, permissions, effects);
        self.shootdown_page(page, effects);
        old
    }

    fn take_hole(&mut self, page: u64, effects: &mut Effects<'_>) -> Frame {
        let index = index_of(page);
        let perforated = self.perforated_mut(region_of(page));
        let entry = std::mem::take(&mut perforated.entries[index]);
        assert!(entry.is_present(), "hole is not allocated");
        perforated.allocated -= 1;
        self.usage.holes_allocated -= 1;
        self.usage.holes_unallocated += 1;
        self.tell_unmapped(page, 1, effects);
        effects.ledger.done.pages_unmapped += 1;
        let (space, page) = (self.id, VirtualPage::new(page));
        effects.format(PerforatedOperation::UnmapHole { space, page });
        entry.frame()
    }

    /// Makes sub-page `page` of an ordinary or perforated 2MB page an unallocated hole. The
    /// reference to its in-place frame, which is returned, is now the caller's.
    pub(crate) fn punch(&mut self, page: u64, effects: &mut Effects<'_>) -> Result<Frame, OsError> {
        let number = region_of(page);
        let index = index_of(page);
        self.make_perforated(number, effects)?;
        let perforated = self.perforated_mut(number);
        let filter = perforated.holes.filter();
        assert!(perforated.holes.insert(index), "punched twice");
        let filter_changed = perforated.holes.filter() != filter;
        let frame = perforated.in_place(index);
        let block = perforated.block;
        self.usage.holes_unallocated += 1;
        self.punched.push(number);
        self.tell_unmapped(page, 1, effects);
        effects.ledger.done.subpages_punched += 1;
        let space = self.id;
        effects.format(PerforatedOperation::Punch { space, page: VirtualPage::new(page) });
        self.shootdown_subpage(page, block, filter_changed, effects);
        Ok(frame)
    }

    /// Punches sub-page `page` out so that it can have its own permissions: in place, or in a
    /// copy of its own if others use the frame as well.
    pub(crate) fn copy_subpage(
        &mut self,
        page: u64,
        copies: bool,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        if !copies {
            let frame = self.punch(page, effects)?;
            self.map_hole(page, frame, permissions, effects);
            return Ok(());
        }
        let new = effects.memory.allocate_page()?;
        match self.punch(page, effects) {
            Ok(frame) => {
                self.map_hole(page, new, permissions, effects);
                effects.ledger.done.frames_copied += 1;
                effects.memory.release(frame);
                Ok(())
            }
            Err(error) => {
                effects.memory.free(new, 0);
                Err(error)
            }
        }
    }

    /// Makes the hole `page` be translated by the 2MB mapping again. The caller holds the
    /// reference to the in-place frame; if the hole was allocated, the reference to its frame,
    /// which is returned, is now the caller's. The last patch leaves an ordinary 2MB page.
    pub(crate) fn patch(&mut self, page: u64, effects: &mut Effects<'_>) -> Option<Frame> {
        let number = region_of(page);
        let index = index_of(page);
        let perforated = self.perforated_mut(number);
        let filter = perforated.holes.filter();
        assert!(perforated.holes.remove(index), "not a hole");
        let filter_changed = perforated.holes.filter() != filter;
        let entry = std::mem::take(&mut perforated.entries[index]);
        perforated.allocated -= u32::from(entry.is_present());
        let (block, permissions) = (perforated.block, perforated.permissions);
        if entry.is_present() {
            self.usage.holes_allocated -= 1;
            self.tell_unmapped(page, 1, effects);
        } else {
            self.usage.holes_unallocated -= 1;
        }
        if entry.frame() == block.add(index as u64) {
            effects.memory.forget_owner(entry.frame());
        }
        self.tell_mapped((page, 1), block.add(index as u64), permissions, effects);
        effects.ledger.done.subpages_patched += 1;
        let space = self.id;
        effects.format(PerforatedOperation::Patch { space, page: VirtualPage::new(page) });
        self.shootdown_subpage(page, block, filter_changed, effects);
        self.make_ordinary_if_whole(number, effects);
        entry.is_present().then(|| entry.frame())
    }

    fn make_perforated(&mut self, number: u64, effects: &mut Effects<'_>) -> Result<(), OsError> {
        let region = self.regions.get(&number).expect("mapped region");
        let Mapping::Large(large) = region.mapping else { return Ok(()) };
        let node = self.allocate_leaf_node(effects)?;
        self.add_leaf_node(number, node, HOLE_BRANCH, effects);
        let region = self.regions.get_mut(&number).expect("mapped region");
        let perforated = Perforated::new(large, HoleSet::EMPTY, node);
        region.mapping = Mapping::Perforated(Box::new(perforated));
        self.usage.large_pages -= 1;
        self.usage.perforated_pages += 1;
        effects.memory.add_perforated(large.block, self.id, first_page(number));
        Ok(())
    }

    fn make_ordinary_if_whole(&mut self, number: u64, effects: &mut Effects<'_>) {
        let region = self.regions.get_mut(&number).expect("mapped region");
        let Mapping::Perforated(perforated) = &region.mapping else { return };
        if !perforated.holes.is_empty() {
            return;
        }
        let (block, node) = (perforated.block, perforated.node);
        let permissions = perforated.permissions;
        region.mapping = Mapping::Large(Large { block, permissions });
        self.usage.perforated_pages -= 1;
        self.usage.large_pages += 1;
        effects.memory.remove_perforated(block, self.id, first_page(number));
        self.remove_leaf_node(number, node, HOLE_BRANCH, effects);
    }

    /// After a punch or patch (P-5). The paper names the 4KB translation and the bitmap entry.
    /// It leaves open that a TLB entry of the 2MB page also caches the filter: when that changes,
    /// an old entry would take a new hole for translated, so the entry has to go as well.
    fn shootdown_subpage(
        &self,
        page: u64,
        block: Frame,
        filter_changed: bool,
        effects: &mut Effects<'_>,
    ) {
        let space = self.id;
        self.shootdown_page(page, effects);
        effects.shootdown(Shootdown::Bitmap { space, page: VirtualPage::new(page) });
        if filter_changed {
            self.shootdown_large(page, PageSize::Size2M, effects);
        }
        // The bitmap is the union over all who map the block (P-2), so theirs changed as well.
        let index = page % REGION_PAGES;
        for place in 0..effects.memory.perforated_users(block).len() {
            let (user, first) = effects.memory.perforated_users(block)[place];
            if user != space || first != first_page(region_of(page)) {
                effects.shootdown(Shootdown::Bitmap { space: user, page: first.add(index) });
            }
        }
    }

    pub(super) fn perforated_mut(&mut self, number: u64) -> &mut Perforated {
        match &mut self.regions.get_mut(&number).expect("mapped region").mapping {
            Mapping::Perforated(perforated) => perforated,
            _ => unreachable!("region {number:#x} is not perforated"),
        }
    }

    /// The perforated page of a region.
    pub(crate) fn perforated(&self, number: u64) -> Option<&Perforated> {
        match &self.regions.get(&number)?.mapping {
            Mapping::Perforated(perforated) => Some(perforated),
            _ => None,
        }
    }
}

/// These holes left the union of a block that others still map as a perforated page.
fn shootdown_sharers(block: Frame, holes: &HoleSet, effects: &mut Effects<'_>) {
    for place in 0..effects.memory.perforated_users(block).len() {
        let (space, first) = effects.memory.perforated_users(block)[place];
        for start in (0..HoleSet::SUBPAGES).step_by(BITMAP_ENTRY_SUBPAGES) {
            if (start..start + BITMAP_ENTRY_SUBPAGES).any(|index| holes.contains(index)) {
                let page = first.add(start as u64);
                effects.shootdown(Shootdown::Bitmap { space, page });
            }
        }
    }
}

impl Perforated {
    /// Gives up all references this page holds.
    pub(crate) fn release(&self, effects: &mut Effects<'_>) {
        let kept = complement(&self.holes).union(&self.reserved);
        effects.memory.release_block(self.block, &kept);
        for index in self.holes.iter() {
            if self.entries[index].is_present() {
                effects.memory.release(self.entries[index].frame());
            }
        }
    }
}
