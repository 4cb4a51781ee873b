//! Operations on perforated pages: 2MB pages with holes (P §IV).

use std::any::Any;
use std::ops::Range;

use perforate_types::{
    Frame, HOLE_BRANCH, HoleSet, PageSize, PageTableEntry, PerforatedOperation, Permissions,
    Shootdown, TableOperation, VirtualPage,
};

use super::extent::{Detacher, Extent, Mechanism, Part, Present, SharedBlock};
use super::frames::visit_entries;
use super::region::no_entries;
use super::{
    AddressSpace, Attributes, Effects, Entries, FrameVisitor, Large, Mapping, REGION_PAGES, Region,
    Usage, allowed, first_page, index_of, leaf, page_at, region_of, subpages_of,
};
use crate::memory::{PhysicalMemory, Recount, complement, expect};
use crate::{FrameClass, OsError};

/// Sub-pages that one bitmap entry of a TLB covers (P §IV.C: 32 bits).
const BITMAP_ENTRY_SUBPAGES: usize = 32;

/// A 2MB page with holes. Every sub-page that is no hole holds a reference to its frame of the
/// block, every allocated hole one to the frame it is mapped to.
pub(crate) struct Perforated {
    /// First frame of the block.
    pub block: Frame,
    /// Permissions of the sub-pages that are not holes.
    pub permissions: Permissions,
    /// This address space's own holes.
    pub holes: HoleSet,
    /// Frame of the level-1 node behind the shadow entry.
    pub node: Frame,
    /// Unallocated holes whose in-place frames are kept for this page (P §VI: reservation).
    pub reserved: HoleSet,
    /// Number of holes that are mapped.
    pub allocated: u32,
    /// Entries of the holes.
    pub entries: Entries,
}

impl Perforated {
    /// `large` except for `holes`, of which none is allocated; `node` is for them.
    pub(super) fn new(large: Large, holes: HoleSet, node: Frame) -> Self {
        Self {
            block: large.block,
            permissions: large.permissions,
            holes,
            node,
            reserved: HoleSet::EMPTY,
            allocated: 0,
            entries: no_entries(),
        }
    }

    /// The in-place frame of a sub-page.
    pub(crate) fn in_place(&self, index: usize) -> Frame {
        self.block.add(index as u64)
    }

    /// The sub-pages that are mapped, in place or not.
    fn mapped(&self) -> HoleSet {
        complement(&self.holes).union(&self.allocated_holes().map(|(index, _)| index).collect())
    }

    fn allocated_holes(&self) -> impl Iterator<Item = (usize, PageTableEntry)> + '_ {
        let holes = self.holes.iter().map(|index| (index, self.entries[index]));
        holes.filter(|(_, entry)| entry.is_present())
    }
}

impl Extent for Perforated {
    fn mechanism(&self) -> &'static dyn Mechanism {
        &PerforatedPages
    }

    fn pages(&self) -> u64 {
        REGION_PAGES
    }

    fn permissions(&self) -> Permissions {
        self.permissions
    }

    fn find(&self, offset: u64) -> Present {
        let index = offset as usize;
        if !self.holes.contains(index) {
            return Present::InPlace(self.in_place(index), self.permissions);
        }
        let entry = self.entries[index];
        if entry.is_present() {
            Present::Detached(entry.frame(), entry.permissions())
        } else {
            Present::Vacant
        }
    }

    fn entries(&self) -> &[PageTableEntry] {
        &self.entries[..]
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn is_shared(&self, memory: &PhysicalMemory) -> bool {
        memory.any_shared(self.block, &complement(&self.holes))
    }

    fn offset_of(&self, frame: Frame) -> Option<u64> {
        let offset = frame.number().checked_sub(self.block.number())?;
        (offset < REGION_PAGES && !self.holes.contains(offset as usize)).then_some(offset)
    }

    fn share(&self, memory: &mut PhysicalMemory) {
        memory.share_block(self.block, &complement(&self.holes));
    }

    fn release(&self, memory: &mut PhysicalMemory) {
        let kept = complement(&self.holes).union(&self.reserved);
        memory.release_block(self.block, &kept);
        for (_, entry) in self.allocated_holes() {
            memory.release(entry.frame());
        }
    }

    fn with_permissions(&self, permissions: Permissions) -> Box<dyn Extent> {
        let large = Large { block: self.block, permissions };
        Box::new(Self::new(large, self.holes, self.node))
    }

    fn shared_block(&self, _region: u64, wanted: &HoleSet) -> Option<SharedBlock> {
        let frame_of = |index: usize| {
            let entry = self.entries[index];
            entry.is_present().then(|| entry.frame())
        };
        // Holes that differ in permissions only are this address space's alone (P Fig. 1).
        let is_moved = |&index: &usize| frame_of(index) != Some(self.in_place(index));
        let holes: HoleSet = self.holes.iter().filter(is_moved).collect();
        let moved = holes.iter().filter(|&index| wanted.contains(index));
        let moved = moved.filter_map(|index| Some((index, frame_of(index)?))).collect();
        let holes = holes.union(&complement(wanted));
        (holes != HoleSet::FULL).then_some(SharedBlock { block: self.block, holes, moved })
    }

    fn visit_frames(&self, visitor: &mut dyn FrameVisitor) {
        visitor.frames(self.block, &complement(&self.holes), FrameClass::Perforated);
        visitor.frames(self.block, &self.reserved, FrameClass::Reserved);
        visit_entries(&self.entries[..], visitor);
    }

    fn forget_owners(&self, memory: &mut PhysicalMemory) {
        memory.forget_owners(self.block, &complement(&self.holes));
    }

    fn check(
        &self,
        first: VirtualPage,
        space: &AddressSpace,
        usage: &mut Usage,
        recount: &mut Recount,
    ) -> Result<(), String> {
        expect("allocated holes", self.allocated as usize, self.allocated_holes().count())?;
        recount.hold(self.node)?;
        recount.map_in_place(self.block, &complement(&self.holes));
        for index in self.reserved.iter() {
            if !self.holes.contains(index) || self.entries[index].is_present() {
                return Err(format!("reserved sub-page {index} is no unallocated hole"));
            }
            recount.hold(self.in_place(index))?;
        }
        let is_stray =
            |index: usize| self.entries[index].is_present() && !self.holes.contains(index);
        if self.holes.is_empty() || (0..HoleSet::SUBPAGES).any(is_stray) {
            return Err("a perforated page without holes, or an entry that is no hole's".into());
        }
        usage.perforated_pages += 1;
        usage.leaf_nodes += 1;
        usage.holes_allocated += u64::from(self.allocated);
        usage.holes_unallocated += self.holes.count() as u64 - u64::from(self.allocated);
        usage.reserved += self.reserved.count() as u64;
        recount.perforated.entry(self.block.number()).or_default().push((space.id, first));
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Acts on perforated pages, and on ordinary 2MB pages of which a page is to be detached: it is
/// punched out as a hole (P §VI).
pub(crate) struct PerforatedPages;

impl Mechanism for PerforatedPages {
    fn map(
        &self,
        space: &mut AddressSpace,
        first: u64,
        extent: Box<dyn Extent>,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let page = extent.into_any().downcast::<Perforated>().expect("a perforated page");
        let large = Large { block: page.block, permissions: page.permissions };
        space.perforate(region_of(first), large, page.holes, effects)
    }

    fn unmap(
        &self,
        space: &mut AddressSpace,
        first: u64,
        effects: &mut Effects<'_>,
    ) -> Box<dyn Extent> {
        Box::new(space.unmap_perforated(region_of(first), effects))
    }

    fn protect(
        &self,
        space: &mut AddressSpace,
        first: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        space.protect_perforated(region_of(first), permissions, effects);
    }

    fn break_up(
        &self,
        space: &mut AddressSpace,
        first: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        space.demote(region_of(first), effects)?;
        effects.ledger.done.large_pages_split += 1;
        Ok(())
    }

    fn drop_subpages(
        &self,
        space: &mut AddressSpace,
        first: u64,
        subpages: &HoleSet,
        effects: &mut Effects<'_>,
    ) -> Result<Part, OsError> {
        let number = region_of(first);
        space.release_reserved(number, subpages, effects);
        for index in subpages.iter() {
            let page = page_at(number, index);
            let frame = match space.find(page) {
                Some(Present::InPlace(..)) => space.punch(page, effects)?,
                Some(Present::Detached(..)) => space.unmap_hole(page, effects),
                _ => continue,
            };
            effects.memory.release(frame);
        }
        Ok(Part::Done)
    }

    fn protect_part(
        &self,
        space: &mut AddressSpace,
        first: u64,
        pages: &Range<u64>,
        attributes: &Attributes,
        effects: &mut Effects<'_>,
    ) -> Result<Part, OsError> {
        let number = region_of(first);
        let subpages = subpages_of(pages, number);
        if subpages == HoleSet::FULL {
            let shared = space.extent(first).is_shared(effects.memory);
            space.protect_perforated(number, allowed(attributes, shared), effects);
        }
        space.protect_perforated_part(number, &subpages, attributes, effects)?;
        Ok(Part::Done)
    }

    fn copy_to(
        &self,
        space: &mut AddressSpace,
        first: u64,
        child: &mut AddressSpace,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        space.copy_perforated(region_of(first), child, effects)
    }

    fn moves_as_one(&self, _space: &AddressSpace, _first: u64, target: u64) -> bool {
        target.is_multiple_of(REGION_PAGES)
    }

    fn move_to(
        &self,
        space: &mut AddressSpace,
        first: u64,
        target: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        space.move_perforated(region_of(first), region_of(target), effects)
    }

    fn detacher(&self, _space: &AddressSpace) -> Option<&'static dyn Detacher> {
        Some(&Self)
    }
}

impl Detacher for PerforatedPages {
    fn detach(
        &self,
        space: &mut AddressSpace,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Result<Frame, OsError> {
        space.punch(page, effects)
    }

    fn attach(
        &self,
        space: &mut AddressSpace,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Option<Frame> {
        space.patch(page, effects)
    }

    fn place_of(&self, space: &AddressSpace, page: u64) -> Frame {
        space.perforated(region_of(page)).expect("perforated page").in_place(index_of(page))
    }

    fn fill(
        &self,
        space: &mut AddressSpace,
        page: u64,
        frame: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) {
        space.map_hole(page, frame, permissions, effects);
    }

    fn fill_in_place(
        &self,
        space: &mut AddressSpace,
        page: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> bool {
        space.fill_in_place(page, permissions, effects)
    }

    fn vacate(&self, space: &mut AddressSpace, page: u64, effects: &mut Effects<'_>) -> Frame {
        space.unmap_hole(page, effects)
    }

    fn refill(
        &self,
        space: &mut AddressSpace,
        page: u64,
        frame: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Frame {
        space.remap_hole(page, frame, permissions, effects)
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
        let mapping = Mapping::Extent(Box::new(Perforated::new(large, holes, node)));
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
        // The caller gets the content of the record and closes or refills it.
        let taken = std::mem::replace(&mut region.mapping, Mapping::Changing);
        let Mapping::Extent(extent) = taken else { unreachable!("region {number:#x} has pages") };
        let perforated = extent.into_any().downcast::<Perforated>().expect("perforated page");
        let block = perforated.block;
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
        let Some(&mut large) = self.region_extent_mut::<Large>(number) else { return Ok(()) };
        let node = self.allocate_leaf_node(effects)?;
        self.add_leaf_node(number, node, HOLE_BRANCH, effects);
        let region = self.regions.get_mut(&number).expect("mapped region");
        let perforated = Perforated::new(large, HoleSet::EMPTY, node);
        region.mapping = Mapping::Extent(Box::new(perforated));
        self.usage.large_pages -= 1;
        self.usage.perforated_pages += 1;
        effects.memory.add_perforated(large.block, self.id, first_page(number));
        Ok(())
    }

    fn make_ordinary_if_whole(&mut self, number: u64, effects: &mut Effects<'_>) {
        let perforated = self.perforated_mut(number);
        if !perforated.holes.is_empty() {
            return;
        }
        let (block, node) = (perforated.block, perforated.node);
        let permissions = perforated.permissions;
        let region = self.regions.get_mut(&number).expect("mapped region");
        region.mapping = Mapping::Extent(Box::new(Large { block, permissions }));
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
        self.region_extent_mut(number).expect("a perforated page")
    }

    /// The perforated page of a region.
    pub(crate) fn perforated(&self, number: u64) -> Option<&Perforated> {
        self.regions.get(&number)?.mapping.extent()?.as_any().downcast_ref()
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
            let is_hole = matches!(present, Present::Detached(..));
            let belongs = permissions == mapping_permissions;
            let is_at_home = is_hole && frame == block.add(index as u64);
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
        let extent = self.regions.get(&number).and_then(|region| region.mapping.extent());
        let extent = extent.expect("a 2MB page").as_any();
        match extent.downcast_ref::<Large>() {
            Some(large) => (large.block, large.permissions),
            None => {
                let perforated = extent.downcast_ref::<Perforated>().expect("a 2MB page");
                (perforated.block, perforated.permissions)
            }
        }
    }

    /// fork: the child has the same holes.
    fn copy_perforated(
        &mut self,
        number: u64,
        child: &mut Self,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let perforated = self.perforated(number).expect("perforated page");
        let (block, holes) = (perforated.block, perforated.holes);
        let in_place = complement(&holes);
        // All sub-pages in place are of one area; without any, the permissions do not matter.
        let page = page_at(number, in_place.iter().next().unwrap_or(0));
        let permissions = self.shared_permissions(page, perforated.permissions);
        let allocated: Vec<_> = perforated.allocated_holes().collect();
        child.perforate(number, Large { block, permissions }, holes, effects)?;
        effects.memory.share_block(block, &in_place);
        self.protect_perforated(number, permissions, effects);
        for (index, entry) in allocated {
            let page = page_at(number, index);
            let permissions = self.shared_permissions(page, entry.permissions());
            child.map_hole(page, entry.frame(), permissions, effects);
            effects.memory.share(entry.frame());
            if permissions != entry.permissions() {
                self.remap_hole(page, entry.frame(), permissions, effects);
            }
        }
        Ok(())
    }

    /// mremap: the holes move along.
    fn move_perforated(
        &mut self,
        number: u64,
        target: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let old = self.unmap_perforated(number, effects);
        let large = Large { block: old.block, permissions: old.permissions };
        if let Err(error) = self.perforate(target, large, old.holes, effects) {
            old.release(effects.memory);
            return Err(error);
        }
        self.keep_reserved(target, old.reserved);
        for (index, entry) in old.allocated_holes() {
            let page = page_at(target, index);
            self.map_hole(page, entry.frame(), entry.permissions(), effects);
        }
        Ok(())
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
