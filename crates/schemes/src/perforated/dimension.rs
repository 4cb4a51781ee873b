//! Hardware half: 2MB mappings with 4KB holes. The page-directory entry has a hole filter, shadow
//! entries lead to the holes, and each physical block has a bitmap (P §IV).

use std::any::TypeId;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use perforate_mmu::radix::{Radix, entry_in};
use perforate_mmu::{
    BitmapLoading, Capability, CapabilityKind, CapabilityMut, Dimension, Mark, Reach, ShadowReads,
    TableMemory, WalkFault, WalkRequest, Walker, allow,
};
use perforate_types::{
    FormatOperation, Frame, HoleSet, PageSize, PageTableEntry, Permissions, PhysicalAddress,
    SpaceId, TableOperation, VirtualPage,
};

use crate::perforated::{HOLE_BRANCH, PerforatedOperation};

/// Number of 4KB sub-pages per bit of a 2MB page's hole filter.
pub(super) const REGION: usize = 64;

/// Holes of one 2MB page in one address space.
#[derive(Clone, Copy, Default)]
struct OwnHoles {
    holes: HoleSet,
    allocated: HoleSet,
}

/// State of a perforated page in the page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerforatedPage {
    /// Address space of the perforated page.
    pub space: SpaceId,
    /// First 4KB page of the perforated 2MB page.
    pub page: VirtualPage,
    /// Hole filter in the page-directory entry, one bit for each 256KB region.
    pub filter: u8,
    /// Sub-pages that are holes in this address space.
    pub holes: HoleSet,
    /// Holes that are mapped to a frame of their own.
    pub allocated: HoleSet,
}

/// Page tables with perforated pages.
///
/// The bitmap belongs to the physical block and is the union of the holes of every address space
/// that maps it. The filter belongs to the page-directory entry of one address space. So an address
/// space may find a bitmap bit for a sub-page that only another one has punched. The hole node
/// therefore maps *all* sub-pages of every region for which the hardware reads the bitmap (with the
/// filter: where its bit is set; without: all regions). Allocated holes of this address space map
/// to their frames, unallocated holes map nothing, and all other sub-pages map in place.
pub struct PerforatedRadix {
    pub(super) radix: Radix,
    bitmaps: PhysicalAddress,
    pub(super) loading: BitmapLoading,
    shadow_reads: ShadowReads,
    pages: BTreeMap<(SpaceId, VirtualPage), OwnHoles>,
    sharers: HashMap<Frame, Vec<(SpaceId, VirtualPage)>>,
}

impl PerforatedRadix {
    /// Creates tables whose hole bitmaps start at physical address `bitmaps`, for hardware that
    /// loads bitmap entries according to `loading`.
    pub fn new(bitmaps: PhysicalAddress, loading: BitmapLoading) -> Self {
        let (pages, sharers) = (BTreeMap::new(), HashMap::new());
        let shadow_reads = ShadowReads::WhenNeeded;
        Self { radix: Radix::new(), bitmaps, loading, shadow_reads, pages, sharers }
    }

    /// Returns the tables with five levels if `five_levels` is true, else with four.
    #[must_use]
    pub fn with_five_levels(self, five_levels: bool) -> Self {
        Self { radix: self.radix.with_five_levels(five_levels), ..self }
    }

    /// Selects the point of a walk at which the hardware reads a perforated page's shadow entry,
    /// which points to the entries of its holes.
    pub fn with_shadow_reads(self, shadow_reads: ShadowReads) -> Self {
        Self { shadow_reads, ..self }
    }

    /// Regions of 256KB of a page with this filter for which the hardware reads the bitmap, one bit
    /// each.
    pub(super) fn regions_needing_bitmap(&self, filter: u8) -> u8 {
        match (self.loading, filter) {
            (BitmapLoading::Filtered, _) | (_, 0) => filter,
            _ => 0xff,
        }
    }

    fn large_entry(&self, space: SpaceId, page: VirtualPage) -> (PhysicalAddress, PageTableEntry) {
        let address = self.radix.existing_entry(space, page, 2);
        let entry = self.radix.memory().entry(address);
        assert!(entry.is_present() && entry.is_large(), "{page:?} is not inside a 2MB page");
        (address, entry)
    }

    /// Address of the shadow entry of a page's 2MB region, 4KB after the page-directory entry (P
    /// §IV.B).
    fn shadow_address(&self, space: SpaceId, page: VirtualPage) -> PhysicalAddress {
        self.radix.existing_entry(space, page, 2).add(PageSize::Size4K.bytes())
    }

    /// Address of the 64-byte hole bitmap of `block`: base + block address ÷ 4096 ÷ 8.
    pub(super) fn bitmap_line(&self, block: Frame) -> PhysicalAddress {
        self.bitmaps.add(block.number() / 8)
    }

    /// Holes of the 2MB page around `page` in this address space; `None` if it is not perforated.
    fn own_holes(&self, space: SpaceId, page: VirtualPage) -> Option<&OwnHoles> {
        self.pages.get(&(space, page.align_down(PageSize::Size2M)))
    }

    fn hole_node(&self, space: SpaceId, page: VirtualPage) -> Frame {
        let entry = self.radix.memory().entry(self.shadow_address(space, page));
        assert!(entry.is_present(), "{page:?} has no node for holes");
        entry.frame()
    }

    /// Rewrites word `region` of the hole bitmap of `block` as the union of the holes of all its
    /// sharers.
    fn write_bitmap(&mut self, block: Frame, region: usize) {
        let word = self.sharers.get(&block).into_iter().flatten().fold(0, |word, sharer| {
            word | self.pages.get(sharer).map_or(0, |own| own.holes.words()[region])
        });
        let address = self.bitmap_line(block).add(region as u64 * 8);
        self.radix.memory_mut().set_word(address, word);
    }

    /// Maps all sub-pages of `region` in place in the level-1 node for holes, except for holes of
    /// this address space.
    fn map_in_place(&mut self, space: SpaceId, page: VirtualPage, region: usize) {
        let first = page.align_down(PageSize::Size2M);
        let (_, entry) = self.large_entry(space, first);
        let block = entry.leaf_frame(PageSize::Size2M);
        let node = self.hole_node(space, first);
        let holes = self.pages[&(space, first)].holes;
        for index in region * REGION..(region + 1) * REGION {
            if !holes.contains(index) {
                let in_place = PageTableEntry::leaf(
                    block.add(index as u64),
                    PageSize::Size4K,
                    entry.permissions(),
                );
                let address = entry_in(node, 1, first.add(index as u64));
                self.radix.memory_mut().set_entry(address, in_place);
            }
        }
    }

    /// Address and value of a sub-page's entry in the hole node, the level-1 node that a perforated
    /// page's shadow entry points to.
    fn hole_entry(&self, space: SpaceId, page: VirtualPage) -> (PhysicalAddress, PageTableEntry) {
        let address = entry_in(self.hole_node(space, page), 1, page);
        (address, self.radix.memory().entry(address))
    }

    /// [`allow::DIRTY`] if an in-place sub-page was written through its entry in the level-1 node
    /// for holes; otherwise 0. Walks reach such an entry if another sharer of the block has a hole
    /// there.
    fn dirty_in_place(&self, space: SpaceId, page: VirtualPage) -> u8 {
        let (_, entry) = self.hole_entry(space, page);
        if entry.is_present() && entry.is_dirty() { allow::DIRTY } else { 0 }
    }

    fn set_hole_entry(&mut self, space: SpaceId, page: VirtualPage, entry: PageTableEntry) {
        let address = entry_in(self.hole_node(space, page), 1, page);
        self.radix.memory_mut().set_entry(address, entry);
    }

    /// Writes the hole filter of the 2MB page `page`. If the filter adds regions, completes their
    /// entries in the level-1 node for holes.
    fn write_filter(&mut self, space: SpaceId, page: VirtualPage, filter: u8) {
        let (address, entry) = self.large_entry(space, page);
        self.radix.memory_mut().set_entry(address, entry.with_filter(filter));
        let added =
            self.regions_needing_bitmap(filter) & !self.regions_needing_bitmap(entry.filter());
        for region in (0..8).filter(|region| added >> region & 1 != 0) {
            self.map_in_place(space, page, region);
        }
    }

    fn own(&mut self, space: SpaceId, page: VirtualPage) -> &mut OwnHoles {
        self.pages
            .get_mut(&(space, page.align_down(PageSize::Size2M)))
            .unwrap_or_else(|| panic!("{page:?} is not inside a perforated page"))
    }

    /// Applies an operation to the parts of the tables that ordinary pages also use.
    fn write_table(&mut self, operation: &TableOperation) {
        match *operation {
            TableOperation::AddNode { space, page, frame, branch: HOLE_BRANCH, .. } => {
                self.add_hole_table(space, page, frame);
            }
            TableOperation::RemoveNode { space, page, branch: HOLE_BRANCH, .. } => {
                self.remove_hole_table(space, page);
            }
            TableOperation::AddNode { level: 2, frame, .. } => {
                // The page directory is an order-1 pair: the node and its shadow node.
                self.radix.memory_mut().clear_frame(frame.add(1));
                self.radix.write(operation);
            }
            TableOperation::Unmap { space, page, size: PageSize::Size2M } => {
                let block = self.large_entry(space, page).1.leaf_frame(PageSize::Size2M);
                self.radix.write(operation);
                if self.pages.contains_key(&(space, page)) {
                    self.forget(space, page, block);
                }
            }
            TableOperation::Protect { space, page, size: PageSize::Size2M, .. } => {
                self.radix.write(operation);
                self.protect_large(space, page);
            }
            _ => self.radix.write(operation),
        }
    }

    /// Applies an operation to a perforated page of the tables.
    fn write_perforated(&mut self, operation: &PerforatedOperation) {
        match *operation {
            PerforatedOperation::Perforate { space, page, block, permissions, holes } => {
                self.perforate(space, page, block, permissions, holes);
            }
            PerforatedOperation::Punch { space, page } => self.punch(space, page),
            PerforatedOperation::Patch { space, page } => self.patch(space, page),
            PerforatedOperation::MapHole { space, page, frame, permissions } => {
                let index = page.index_in(PageSize::Size2M);
                let own = self.own(space, page);
                assert!(own.holes.contains(index), "{page:?} is not a hole");
                assert!(own.allocated.insert(index), "{page:?} is an allocated hole already");
                let entry = PageTableEntry::leaf(frame, PageSize::Size4K, permissions);
                self.set_hole_entry(space, page, entry);
            }
            PerforatedOperation::UnmapHole { space, page } => {
                let index = page.index_in(PageSize::Size2M);
                let own = self.own(space, page);
                assert!(own.allocated.remove(index), "{page:?} is not an allocated hole");
                self.set_hole_entry(space, page, PageTableEntry::ABSENT);
            }
        }
    }

    fn perforate(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        block: Frame,
        permissions: Permissions,
        holes: HoleSet,
    ) {
        assert!(!holes.is_empty(), "a perforated page needs a hole");
        let size = PageSize::Size2M;
        self.radix.write(&TableOperation::Map { space, page, size, frame: block, permissions });
        self.pages.insert((space, page), OwnHoles { holes, allocated: HoleSet::EMPTY });
        self.sharers.entry(block).or_default().push((space, page));
        self.write_filter(space, page, holes.filter());
        (0..8).for_each(|region| self.write_bitmap(block, region));
    }

    fn punch(&mut self, space: SpaceId, page: VirtualPage) {
        let first = page.align_down(PageSize::Size2M);
        let index = page.index_in(PageSize::Size2M);
        let block = self.large_entry(space, first).1.leaf_frame(PageSize::Size2M);
        if let Entry::Vacant(place) = self.pages.entry((space, first)) {
            place.insert(OwnHoles::default());
            self.sharers.entry(block).or_default().push((space, first));
        }
        let own = self.own(space, page);
        assert!(own.holes.insert(index), "{page:?} is a hole already");
        let filter = own.holes.filter();
        self.set_hole_entry(space, page, PageTableEntry::ABSENT);
        self.write_filter(space, first, filter);
        self.write_bitmap(block, index / REGION);
    }

    fn patch(&mut self, space: SpaceId, page: VirtualPage) {
        let first = page.align_down(PageSize::Size2M);
        let index = page.index_in(PageSize::Size2M);
        let (_, large) = self.large_entry(space, first);
        let block = large.leaf_frame(PageSize::Size2M);
        let own = self.own(space, page);
        assert!(own.holes.remove(index), "{page:?} is not a hole");
        own.allocated.remove(index);
        let holes = own.holes;
        // A cached filter or bitmap entry may still mark this sub-page as a hole, so its entry in
        // the hole node must translate in place from now on.
        let in_place =
            PageTableEntry::leaf(block.add(index as u64), PageSize::Size4K, large.permissions());
        self.set_hole_entry(space, page, in_place);
        self.write_filter(space, first, holes.filter());
        if holes.is_empty() {
            self.forget(space, first, block);
        } else {
            self.write_bitmap(block, index / REGION);
        }
    }

    /// Removes a page from the list of its block's sharers, and the page's holes from the block's
    /// bitmap.
    fn forget(&mut self, space: SpaceId, page: VirtualPage, block: Frame) {
        self.pages.remove(&(space, page));
        let sharers = self.sharers.get_mut(&block).expect("the block has sharers");
        sharers.retain(|sharer| *sharer != (space, page));
        if sharers.is_empty() {
            self.sharers.remove(&block);
        }
        (0..8).for_each(|region| self.write_bitmap(block, region));
    }

    fn add_hole_table(&mut self, space: SpaceId, page: VirtualPage, frame: Frame) {
        self.radix.memory_mut().clear_frame(frame);
        let shadow = self.shadow_address(space, page);
        assert!(!self.radix.memory().entry(shadow).is_present(), "{page:?} has a hole node");
        self.radix.memory_mut().set_entry(shadow, PageTableEntry::table(frame));
    }

    fn remove_hole_table(&mut self, space: SpaceId, page: VirtualPage) {
        let node = self.hole_node(space, page);
        let shadow = self.shadow_address(space, page);
        self.radix.memory_mut().set_entry(shadow, PageTableEntry::ABSENT);
        self.radix.memory_mut().clear_frame(node);
    }

    /// Describes all perforated pages in ascending order of address space and page, for reports and
    /// tests.
    pub fn perforated_pages(&self) -> Vec<PerforatedPage> {
        let picture = |(&(space, page), own): (&(SpaceId, VirtualPage), &OwnHoles)| {
            let filter = self.large_entry(space, page).1.filter();
            PerforatedPage { space, page, filter, holes: own.holes, allocated: own.allocated }
        };
        self.pages.iter().map(picture).collect()
    }

    fn protect_large(&mut self, space: SpaceId, page: VirtualPage) {
        if self.pages.contains_key(&(space, page)) {
            let regions = self.regions_needing_bitmap(self.large_entry(space, page).1.filter());
            for region in (0..8).filter(|region| regions >> region & 1 != 0) {
                self.map_in_place(space, page, region);
            }
        }
    }
}

impl Dimension for PerforatedRadix {
    fn apply(&mut self, operation: &dyn FormatOperation) {
        if let Some(operation) = operation.downcast_ref() {
            return self.write_perforated(operation);
        }
        match operation.downcast_ref() {
            Some(operation) => self.write_table(operation),
            None => panic!("page tables with perforated pages cannot hold {operation:?}"),
        }
    }

    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault> {
        if self.shadow_reads == ShadowReads::WithDirectoryEntry && !walker.is_guest() {
            return self.walk_with_shadow_reads(&request, walker);
        }
        self.radix.walk(request, walker)
    }

    /// Returns the mapping around a page, without hardware effects. In a page with holes it covers
    /// 4KB: a hole of this address space or an in-place sub-page.
    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let Some(own) = self.own_holes(space, page) else {
            return self.radix.look_at(space, page);
        };
        if !own.holes.contains(page.index_in(PageSize::Size2M)) {
            let reach = self.radix.look_at(space, page)?;
            let allows = reach.allows | self.dirty_in_place(space, page);
            return Some(Reach::of_page(reach.frame_of(page), allows));
        }
        let (_, entry) = self.hole_entry(space, page);
        let allows = allow::of_leaf(entry.permissions(), entry.is_dirty());
        entry.is_present().then(|| Reach::of_page(entry.frame(), allows))
    }

    fn mark(&mut self, space: SpaceId, page: VirtualPage, mark: Mark) {
        let own = self.own_holes(space, page);
        if own.is_none_or(|own| !own.holes.contains(page.index_in(PageSize::Size2M))) {
            return self.radix.mark(space, page, mark);
        }
        let (address, entry) = self.hole_entry(space, page);
        self.radix.mark_entry(address, entry, mark == Mark::Dirty);
    }

    fn memory(&self) -> &TableMemory {
        self.radix.memory()
    }

    fn capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        match wanted {
            CapabilityKind::Holes => Some(Capability::Holes(self)),
            CapabilityKind::Runs => self.radix.capability(wanted),
            CapabilityKind::Part(part) if part == TypeId::of::<Self>() => {
                Some(Capability::Part(self))
            }
            _ => None,
        }
    }

    fn capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        match wanted {
            CapabilityKind::Holes => Some(CapabilityMut::Holes(self)),
            CapabilityKind::Part(part) if part == TypeId::of::<Self>() => {
                Some(CapabilityMut::Part(self))
            }
            _ => None,
        }
    }
}
