//! One address space: its areas, its mappings, and their page-table nodes.
//!
//! The operations of this module are primitive: each keeps mappings, nodes and reference counts
//! consistent and reports its changes. The kernel decides which operation to use when.

mod area;
mod check;
mod entries;
mod extent;
mod extents;
mod folios;
mod frames;
mod holes;
mod huge;
mod large;
mod number_map;
mod numbers;
mod overlay;
mod pages;
mod reclaimed;
mod region;
mod report;
mod tables;
mod vacate;

use std::collections::BTreeMap;
use std::iter::successors;
use std::ops::{Deref, DerefMut, Range};

use perforate_types::{
    Frame, HoleSet, PageSize, PageTableEntry, Permissions, Shootdown, SpaceId, TableOperation,
    Truth, Update, VirtualPage,
};

use crate::kernel::{FirstTouch, Ledger, Work};
use crate::memory::{Fragment, PhysicalMemory};
use crate::{OsError, TableFormat};
pub use area::LargePageAdvice;
pub use area::{Area, Attributes};
pub(crate) use area::{Areas, SharedObject, effective};
pub use entries::Entries;
pub use extent::{Extent, Mechanism, Part, Present, SharedBlock};
pub use extents::{allowed, covers};
pub use frames::{FrameVisitor, visit_entries, visit_run};
pub use holes::{Holed, HoledPages};
pub(crate) use huge::{Huge, HugePages};
pub use large::Large;
use number_map::NumberMap;
pub use numbers::{
    ALL_PAGES, REGION_PAGES, first_of, first_page, index_of, page_at, pages_of, region_of,
    regions_of, subpages_of,
};
pub(crate) use numbers::{
    GIGABYTE_PAGES, GIGABYTE_REGIONS, first_of_gigabyte, gigabyte_of, is_canonical,
    pages_of_gigabyte,
};
pub use overlay::{Departure, Overlay, OverlayMechanism};
use reclaimed::Reclaimed;
pub(crate) use region::{Mapping, Pages, Region};
use tables::Tables;

/// Mutable access to an address space, together with the physical memory, updates and work counts that
/// change with it. It dereferences to the address space.
pub struct SpaceMut<'a> {
    /// The address space, for code that borrows another field at the same time.
    pub space: &'a mut AddressSpace,
    /// Physical memory of the machine.
    pub memory: &'a mut PhysicalMemory,
    /// Updates (mapping changes, table writes and shootdowns), in order, that the kernel will send to the
    /// hardware.
    pub(crate) updates: &'a mut Vec<Update>,
    /// Counts of the kernel's work, to which changes of the address space are added.
    pub(crate) ledger: &'a mut Ledger,
}

impl Deref for SpaceMut<'_> {
    type Target = AddressSpace;

    fn deref(&self) -> &AddressSpace {
        self.space
    }
}

impl DerefMut for SpaceMut<'_> {
    fn deref_mut(&mut self) -> &mut AddressSpace {
        self.space
    }
}

impl SpaceMut<'_> {
    /// Returns access to another address space, with the same memory, updates and work counts.
    pub fn other<'a>(&'a mut self, space: &'a mut AddressSpace) -> SpaceMut<'a> {
        let Self { memory, updates, ledger, .. } = self;
        SpaceMut { space, memory, updates, ledger }
    }

    /// Reports to the simulator a change of the intended mapping of pages, whatever the table format.
    pub(crate) fn truth(&mut self, truth: Truth) {
        self.updates.push(Update::Truth(truth));
    }

    /// Reports an operation on ordinary page tables to the hardware, and counts its work.
    pub fn table(&mut self, operation: TableOperation) {
        self.ledger.table(&operation);
        self.updates.push(Update::Table(operation));
    }

    /// Reports a write of a table in a mechanism's own format. The mechanism counts the work itself.
    pub fn format(&mut self, operation: impl Into<Update>) {
        self.updates.push(operation.into());
    }

    /// Allocates a frame for a table that is private to a mechanism, such as a range table.
    ///
    /// # Errors
    /// If memory is out.
    pub fn allocate_table(&mut self) -> Result<Frame, OsError> {
        self.memory.allocate_nodes(0)
    }

    /// Frees a frame from [`Self::allocate_table`].
    pub fn free_table(&mut self, frame: Frame) {
        self.memory.free(frame, 0);
    }

    /// Counts of the kernel's work, in which a mechanism counts operations other than table writes.
    pub fn work(&mut self) -> &mut Work {
        &mut self.ledger.done
    }

    /// Counts an added translation that fills a hole of a 2MB page.
    pub fn subpage_mapped(&mut self) {
        self.ledger.done.pages_mapped += 1;
        self.ledger.subpages_mapped += 1;
    }

    /// Counts the frames that are cleared for memory mapped for the first time, and records the kind of the
    /// mapping.
    pub fn bring_in(&mut self, what: FirstTouch) {
        self.ledger.bring_in(what);
    }

    /// Records the kind of a new mapping to frames that other pages already map, so that nothing is cleared.
    pub fn join(&mut self, what: FirstTouch) {
        self.ledger.join(what);
    }

    /// Counts `frames` frames as migrated: copied to other frames, to which their pages are mapped now.
    pub fn migrated(&mut self, frames: u64) {
        self.ledger.migrated(frames);
    }

    /// Reports a shootdown (invalidation of cached translations) to the hardware, and counts it.
    pub fn shootdown(&mut self, shootdown: Shootdown) {
        self.ledger.shootdown(shootdown);
        self.updates.push(Update::Shootdown(shootdown));
    }
}

crate::fieldwise! {
    /// Number of mapped pages of each size and kind, in one address space or in all.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Usage {
        /// Number of mapped 4KB pages, without holes.
        pub pages: u64,
        /// Number of mapped 2MB pages without holes.
        pub large_pages: u64,
        /// Number of mapped 1GB pages.
        pub huge_pages: u64,
        /// Number of mapped perforated pages.
        pub perforated_pages: u64,
        /// Number of holes of perforated pages that have a frame.
        pub holes_allocated: u64,
        /// Number of holes of perforated pages without a frame.
        pub holes_unallocated: u64,
        /// Number of unallocated holes whose in-place frames are reserved.
        pub reserved: u64,
        /// Number of level-1 page-table nodes, including nodes for the entries of holes.
        pub leaf_nodes: u64,
        /// Number of 4KB pages in mappings whose level-2 entries have another size than 2MB, such as
        /// gap-tolerant superpages.
        pub wide_pages: u64,
        /// Number of 4KB pages that only an overlay (a direct segment) translates, without a page-table
        /// entry.
        pub overlay_pages: u64,
    }
}

impl Usage {
    /// Number of 4KB pages that a larger mapping translates: a direct segment, a superpage, or an entry of
    /// 2MB or more (holes excluded).
    pub(crate) fn large_mapped_pages(&self) -> u64 {
        self.overlay_pages
            + self.wide_pages
            + (self.large_pages + self.perforated_pages) * REGION_PAGES
            + self.huge_pages * GIGABYTE_PAGES
            - self.holes_allocated
            - self.holes_unallocated
    }

    /// Number of 4KB pages with a translation.
    pub(crate) fn mapped_pages(&self) -> u64 {
        self.large_mapped_pages() + self.pages + self.holes_allocated
    }
}

/// A 2MB region of an address space: space and region number.
pub(crate) type RegionPlace = (SpaceId, u64);

/// One address space with its memory areas, mappings and page-table nodes.
pub struct AddressSpace {
    id: SpaceId,
    /// Memory areas (VMAs): address ranges that the process may touch.
    pub(crate) areas: Areas,
    /// First page after the heap; `None` before the first brk.
    pub(crate) heap_end: Option<u64>,
    /// Pages touched by a fault or populated, by 2MB region number.
    pub(crate) touched: NumberMap<HoleSet>,
    /// Numbers of the 2MB regions in which sub-pages were punched since the last check for demotion.
    pub(crate) punched: Vec<u64>,
    tables: Tables,
    /// Mapped 2MB regions, by address ÷ 2MB.
    regions: NumberMap<Region>,
    /// Extents (mappings in one piece) of other sizes than 2MB, such as 1GB pages, by first page.
    wide: BTreeMap<u64, Box<dyn Extent>>,
    /// Implementation of 2MB pages with holes. If `None`, a 2MB page is split when a part of it changes.
    pub(crate) holes: Option<&'static dyn HoledPages>,
    usage: Usage,
    reclaimed: Reclaimed,
    /// State of the overlay (a direct segment or ranges) that translates pages in parallel with the page
    /// tables, if there is one.
    overlay: Option<Box<dyn Overlay>>,
}

impl AddressSpace {
    /// Creates an address space without memory areas and mappings.
    pub(crate) fn new(
        id: SpaceId,
        format: TableFormat,
        holes: Option<&'static dyn HoledPages>,
    ) -> Self {
        Self {
            id,
            areas: Areas::default(),
            heap_end: None,
            touched: NumberMap::default(),
            punched: Vec::new(),
            tables: Tables::new(format),
            regions: NumberMap::default(),
            wide: BTreeMap::new(),
            holes,
            usage: Usage::default(),
            reclaimed: Reclaimed::default(),
            overlay: None,
        }
    }

    /// Number of the address space.
    pub fn id(&self) -> SpaceId {
        self.id
    }

    /// Format of the address space's page tables.
    pub fn tables(&self) -> TableFormat {
        self.tables.format()
    }

    /// Memory areas in ascending order, clipped to `pages`.
    pub fn areas_within(&self, pages: Range<u64>) -> impl DoubleEndedIterator<Item = Area> + '_ {
        self.areas.parts(pages)
    }

    /// Counts of the address space's mapped pages, for mechanisms that map kinds of pages of their own.
    pub fn usage_mut(&mut self) -> &mut Usage {
        &mut self.usage
    }

    /// Records that a sub-page of 2MB region `number` became a hole, so that demotion checks the region.
    pub fn note_punched(&mut self, number: u64) {
        self.punched.push(number);
    }

    /// Number of mapped pages of each size and kind in the address space.
    pub(crate) fn usage(&self) -> Usage {
        Usage { overlay_pages: self.overlay_pages(), ..self.usage }
    }

    /// Upper bound of the number of pages in memory areas that have no frame yet.
    pub(crate) fn untouched_pages(&self) -> u64 {
        let present = self.usage().mapped_pages() + self.idle_pages();
        self.areas.pages().saturating_sub(present)
    }

    /// Number of frames of all page-table nodes, including private tables of an overlay (such as ranges).
    pub(crate) fn table_frames(&self) -> u64 {
        let of_overlay = self.overlay().map_or(0, Overlay::table_frames);
        self.tables.frames() + self.usage.leaf_nodes + of_overlay
    }

    /// Translation of `page` by page tables; `None` if it is not mapped.
    pub fn find(&self, page: u64) -> Option<Present> {
        self.look_up(page).0
    }

    /// Frame to which page tables or an overlay (a direct segment) translate `page`.
    pub(crate) fn frame_of(&self, page: u64) -> Option<Frame> {
        self.find(page).and_then(Present::frame).or_else(|| self.overlay_frame(page))
    }

    /// Translation of `page` by page tables, and true if any 4KB or 2MB entry maps a part of its
    /// 2MB region.
    pub(crate) fn look_up(&self, page: u64) -> (Option<Present>, bool) {
        if let Some(region) = self.regions.get(&region_of(page)) {
            let index = index_of(page);
            let present = match &region.mapping {
                Mapping::Pages(pages) => {
                    let entry = pages.entries[index];
                    let present = Present::Page(entry.frame(), entry.permissions());
                    entry.is_present().then_some(present)
                }
                Mapping::Extent(extent) => Some(extent.find(index as u64)),
                Mapping::Changing => None,
            };
            return (present, true);
        }
        (self.find_wide(page), false)
    }

    /// Record of how 4KB or 2MB entries map the 2MB region `number`; `None` if they do not.
    pub(crate) fn region(&self, number: u64) -> Option<&Region> {
        self.regions.get(&number)
    }

    /// Numbers of the mapped 2MB regions that overlap `pages`.
    pub(crate) fn regions_within(&self, pages: &Range<u64>) -> Vec<u64> {
        self.regions.range(regions_of(pages)).map(|(number, _)| number).collect()
    }

    /// First 2MB region from `number` on that is mapped by entries smaller than 1GB.
    pub fn next_region(&self, number: u64) -> Option<u64> {
        let region = self.regions.range(number..u64::MAX).next().map(|(number, _)| number);
        let Some(first) = self.first_wide_from(first_of(number)) else { return region };
        region.into_iter().chain([region_of(first)]).min()
    }

    /// True if entries of 4KB or 2MB map any part of the 2MB region.
    pub fn is_region_mapped(&self, number: u64) -> bool {
        self.region(number).is_some()
    }

    /// Page ranges that 4KB and 2MB entries map in `pages`, in ascending order: a range for each 4KB page,
    /// and all pages of each 2MB page, even those outside `pages`.
    pub fn mapped_within(&self, pages: &Range<u64>) -> Vec<Range<u64>> {
        let mut mapped = Vec::new();
        for number in self.regions_within(pages) {
            let region = self.region(number).expect("mapped region");
            if region.mapping.extent().is_some() {
                mapped.push(pages_of(number));
                continue;
            }
            let entries = region.mapping.entries(number).map(|(page, _)| page.number());
            mapped.extend(entries.filter(|page| pages.contains(page)).map(|page| page..page + 1));
        }
        mapped
    }

    /// Pages in `pages` that separate 4KB entries translate, and their frames.
    pub fn own_entries(&self, pages: &Range<u64>) -> Vec<(VirtualPage, Frame)> {
        let mut found = Vec::new();
        for number in self.regions_within(pages) {
            let entries = self.region(number).expect("mapped region").mapping.entries(number);
            let inside = entries.filter(|(page, _)| pages.contains(&page.number()));
            found.extend(inside.map(|(page, entry)| (page, entry.frame())));
        }
        found
    }

    /// Numbers of the 2MB regions that overlap `pages` and that entries smaller than 1GB map
    /// ([`Self::next_region`]).
    pub(crate) fn mapped_regions(&self, pages: &Range<u64>) -> Vec<u64> {
        let regions = regions_of(pages);
        let first = self.next_region(regions.start);
        successors(first, |&number| self.next_region(number + 1))
            .take_while(|number| regions.contains(number))
            .collect()
    }

    /// Records the 2MB block with generated holes that a fragmented region got at its first touch.
    pub(crate) fn set_fragment(&mut self, number: u64, fragment: Fragment) {
        self.regions.get_mut(&number).expect("mapped region").fragment = Some(fragment);
    }

    /// 2MB blocks with generated holes that fragmented regions of the address space got.
    pub(crate) fn fragments(&self) -> impl Iterator<Item = Fragment> + '_ {
        self.regions.values().filter_map(|region| region.fragment)
    }
}

impl SpaceMut<'_> {
    /// Allocates a frame for a level-1 node. As this can fail, callers do it before they change any mapping.
    ///
    /// # Errors
    /// If memory is out.
    pub fn allocate_node(&mut self) -> Result<Frame, OsError> {
        let frame = self.memory.allocate_nodes(0)?;
        self.usage.leaf_nodes += 1;
        Ok(frame)
    }

    /// Frees a frame from [`Self::allocate_node`].
    pub fn give_back_node(&mut self, node: Frame) {
        self.memory.free(node, 0);
        self.usage.leaf_nodes -= 1;
    }

    /// Creates a level-1 node (of 4KB entries) for 2MB region `number`, where nothing is mapped, and the
    /// nodes above it. For `branch` see [`Self::add_node`]. Returns the frame of the level-1 node.
    ///
    /// # Errors
    /// If memory for tables runs out.
    pub fn open_node(&mut self, number: u64, branch: u8) -> Result<Frame, OsError> {
        let page = first_of(number);
        self.extend_tables(page, 2)?;
        let node = self.allocate_node();
        match node {
            Ok(frame) => {
                self.add_node(number, frame, branch);
                self.tables.attach_region(page);
            }
            Err(_) => self.prune(page),
        }
        node
    }

    /// Reports a new level-1 node to the hardware. `branch` tells the nodes of one 2MB region apart: 0 for
    /// the entries of 4KB pages; other values depend on the table format (such as the entries of holes).
    pub fn add_node(&mut self, number: u64, frame: Frame, branch: u8) {
        let page = first_page(number);
        self.table(TableOperation::AddNode { space: self.id, level: 1, page, frame, branch });
    }

    /// Reports the removal of an empty level-1 node to the hardware, and frees the node's frame.
    pub fn remove_node(&mut self, number: u64, frame: Frame, branch: u8) {
        let page = first_page(number);
        self.table(TableOperation::RemoveNode { space: self.id, level: 1, page, branch });
        self.memory.free(frame, 0);
        self.usage.leaf_nodes -= 1;
    }

    /// Removes a 2MB region without any translation: an empty level-1 node, or a 2MB page all of whose
    /// sub-pages are unallocated holes.
    pub(crate) fn close_if_empty(&mut self, number: u64) {
        self.close_pages_if_empty(number);
        let extent = self.regions.get(&number).and_then(|region| region.mapping.extent());
        if extent.is_some_and(Extent::maps_nothing) {
            let first = first_of(number);
            self.mechanism(first).unmap(self, first).release(self.memory);
        }
    }

    /// Removes the record of a 2MB region without mappings, and table nodes above it that became empty.
    pub fn close_region(&mut self, number: u64) {
        let region = self.regions.remove(&number).expect("mapped region");
        if let Some(fragment) = region.fragment {
            self.memory.park(fragment);
        }
        let page = first_of(number);
        self.tables.detach_region(page);
        self.prune(page);
    }

    /// Reports a shootdown of all cached 4KB translations of a page.
    pub fn shootdown_page(&mut self, page: u64) {
        self.shootdown(Shootdown::Page { space: self.id, page: VirtualPage::new(page) });
    }

    /// Reports a shootdown of all cached entries of this size around a page.
    pub fn shootdown_large(&mut self, page: u64, size: PageSize) {
        self.shootdown(Shootdown::Large { space: self.id, page: VirtualPage::new(page), size });
    }
}

/// Value of `branch` for level-1 nodes of ordinary 4KB pages (not of holes).
const PAGES: u8 = 0;

/// The page-table entry of a 4KB page.
pub fn leaf(frame: Frame, permissions: Permissions) -> PageTableEntry {
    PageTableEntry::leaf(frame, PageSize::Size4K, permissions)
}
