//! One address space: what it may touch, what is mapped where, and the table nodes for it.
//!
//! The operations here are primitive: each keeps mappings, nodes and reference counts in step and
//! says what changed. What to do when is the kernel's business.

mod area;
mod check;
mod entries;
mod extent;
mod extents;
mod frames;
mod holes;
mod huge;
mod large;
mod number_map;
mod numbers;
mod overlay;
mod pages;
mod promote;
mod reclaimed;
mod region;
mod tables;
mod truth;
mod vacate;

use std::collections::BTreeMap;
use std::iter::successors;
use std::ops::Range;

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
pub use extent::{Detacher, Extent, Mechanism, Part, Present, SharedBlock};
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

/// The state that an operation acts on besides its address space.
pub struct Effects<'a> {
    /// Frames.
    pub memory: &'a mut PhysicalMemory,
    /// Changes and shootdowns, in order.
    pub(crate) updates: &'a mut Vec<Update>,
    /// Account of the work.
    pub(crate) ledger: &'a mut Ledger,
}

impl Effects<'_> {
    /// Says what is mapped where from now on.
    pub(crate) fn truth(&mut self, truth: Truth) {
        self.updates.push(Update::Truth(truth));
    }

    /// Writes page tables.
    pub fn table(&mut self, operation: TableOperation) {
        self.ledger.table(&operation);
        self.updates.push(Update::Table(operation));
    }

    /// Writes what a mechanism has besides or instead of ordinary tables. The mechanism counts the
    /// work itself.
    pub fn format(&mut self, operation: impl Into<Update>) {
        self.updates.push(operation.into());
    }

    /// A frame for a table of a mechanism's own.
    ///
    /// # Errors
    /// If memory is out.
    pub fn allocate_table(&mut self) -> Result<Frame, OsError> {
        self.memory.allocate_nodes(0)
    }

    /// Gives back what [`Self::allocate_table`] gave.
    pub fn free_table(&mut self, frame: Frame) {
        self.memory.free(frame, 0);
    }

    /// The account of the work, for what a mechanism does besides writing tables.
    pub fn work(&mut self) -> &mut Work {
        &mut self.ledger.done
    }

    /// A translation of a single sub-page of a larger page was added.
    pub fn subpage_mapped(&mut self) {
        self.ledger.done.pages_mapped += 1;
        self.ledger.subpages_mapped += 1;
    }

    /// New memory was mapped where there was none.
    pub fn bring_in(&mut self, what: FirstTouch) {
        self.ledger.bring_in(what);
    }

    /// Memory that was there already was mapped at a touch: nothing is cleared.
    pub fn join(&mut self, what: FirstTouch) {
        self.ledger.join(what);
    }

    /// The contents of so many frames moved to others under the same pages.
    pub fn migrated(&mut self, frames: u64) {
        self.ledger.migrated(frames);
    }

    /// Says which cached translations died.
    pub fn shootdown(&mut self, shootdown: Shootdown) {
        self.ledger.shootdown(shootdown);
        self.updates.push(Update::Shootdown(shootdown));
    }
}

/// Numbers of pages mapped, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// 4KB pages.
    pub pages: u64,
    /// Ordinary 2MB pages.
    pub large_pages: u64,
    /// 1GB pages.
    pub huge_pages: u64,
    /// Perforated pages.
    pub perforated_pages: u64,
    /// Holes that are mapped.
    pub holes_allocated: u64,
    /// Holes that are not.
    pub holes_unallocated: u64,
    /// Those of them whose in-place frames are reserved.
    pub reserved: u64,
    /// Frames of level-1 nodes of both kinds.
    pub leaf_nodes: u64,
    /// Pages of other extents that level-2 entries map, such as gap-tolerant superpages.
    pub wide_pages: u64,
    /// Pages that an overlay translates and no table entry.
    pub overlay_pages: u64,
}

impl Usage {
    /// Pages translated by an overlay or an extent.
    pub(crate) fn large_mapped_pages(&self) -> u64 {
        self.overlay_pages
            + self.wide_pages
            + (self.large_pages + self.perforated_pages) * REGION_PAGES
            + self.huge_pages * GIGABYTE_PAGES
            - self.holes_allocated
            - self.holes_unallocated
    }

    /// Pages with a translation.
    pub(crate) fn mapped_pages(&self) -> u64 {
        self.large_mapped_pages() + self.pages + self.holes_allocated
    }
}

/// A 2MB region of an address space.
pub(crate) type RegionPlace = (SpaceId, u64);

/// One address space.
pub struct AddressSpace {
    id: SpaceId,
    /// The ranges that may be touched.
    pub(crate) areas: Areas,
    /// End of the heap, in pages, once there is one.
    pub(crate) heap_end: Option<u64>,
    /// Pages touched by a fault, by address ÷ 2MB.
    pub(crate) touched: NumberMap<HoleSet>,
    /// 2MB regions in which sub-pages were punched since somebody looked.
    pub(crate) punched: Vec<u64>,
    tables: Tables,
    /// By address ÷ 2MB.
    regions: NumberMap<Region>,
    /// Extents of other sizes than 2MB, by first page.
    wide: BTreeMap<u64, Box<dyn Extent>>,
    /// The mechanism for 2MB pages of which a page is detached; without one they are split.
    holes: Option<&'static dyn HoledPages>,
    usage: Usage,
    reclaimed: Reclaimed,
    /// The mechanism that translates pages beside the page tables.
    overlay: Option<Box<dyn Overlay>>,
}

impl AddressSpace {
    /// An empty address space.
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
            tables: Tables::new(id, format),
            regions: NumberMap::default(),
            wide: BTreeMap::new(),
            holes,
            usage: Usage::default(),
            reclaimed: Reclaimed::default(),
            overlay: None,
        }
    }

    /// Its number.
    pub fn id(&self) -> SpaceId {
        self.id
    }

    /// The format of its page tables.
    pub fn tables(&self) -> TableFormat {
        self.tables.format()
    }

    /// The ranges that may be touched, in order, cut to `pages`.
    pub fn areas_within(&self, pages: Range<u64>) -> impl DoubleEndedIterator<Item = Area> + '_ {
        self.areas.parts(pages)
    }

    /// Numbers of pages mapped, by kind, for a mechanism that keeps its own.
    pub fn usage_mut(&mut self) -> &mut Usage {
        &mut self.usage
    }

    /// Notes that a sub-page was punched out of the 2MB page of a region: it may have too many holes
    /// now.
    pub fn note_punched(&mut self, number: u64) {
        self.punched.push(number);
    }

    /// Numbers of pages mapped, by kind.
    pub(crate) fn usage(&self) -> Usage {
        Usage { overlay_pages: self.overlay_pages(), ..self.usage }
    }

    /// Pages of areas that have no frame yet, at most.
    pub(crate) fn untouched_pages(&self) -> u64 {
        let present = self.usage().mapped_pages() + self.idle_pages();
        self.areas.pages().saturating_sub(present)
    }

    /// Frames of all table nodes.
    pub(crate) fn table_frames(&self) -> u64 {
        let of_overlay = self.overlay().map_or(0, Overlay::table_frames);
        self.tables.frames() + self.usage.leaf_nodes + of_overlay
    }

    /// How page tables translate `page`; `None` where nothing is mapped.
    pub fn find(&self, page: u64) -> Option<Present> {
        self.look_up(page).0
    }

    /// The frame that `page` is translated to, by page tables or the overlay, if it is.
    pub(crate) fn frame_of(&self, page: u64) -> Option<Frame> {
        self.find(page).and_then(Present::frame).or_else(|| self.overlay_frame(page))
    }

    /// How `page` is translated, and whether anything of its 2MB region is mapped by entries of
    /// 4KB or 2MB.
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

    /// The mapping of 2MB region `number`.
    pub(crate) fn region(&self, number: u64) -> Option<&Region> {
        self.regions.get(&number)
    }

    /// Numbers of the mapped 2MB regions that touch `pages`.
    pub(crate) fn regions_within(&self, pages: &Range<u64>) -> Vec<u64> {
        self.regions.range(regions_of(pages)).map(|(number, _)| number).collect()
    }

    /// Number of the first 2MB region from `number` on in which anything is mapped by entries
    /// of less than 1GB.
    pub fn next_region(&self, number: u64) -> Option<u64> {
        let region = self.regions.range(number..u64::MAX).next().map(|(number, _)| number);
        let Some(first) = self.first_wide_from(first_of(number)) else { return region };
        region.into_iter().chain([region_of(first)]).min()
    }

    /// Whether anything is mapped in a 2MB region by entries of less than 1GB.
    pub fn is_region_mapped(&self, number: u64) -> bool {
        self.region(number).is_some()
    }

    /// What page tables map of `pages`, in order: single pages, and extents of 2MB whole.
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

    /// The pages of `pages` that 4KB entries translate, and their frames.
    pub fn own_entries(&self, pages: &Range<u64>) -> Vec<(VirtualPage, Frame)> {
        let mut found = Vec::new();
        for number in self.regions_within(pages) {
            let entries = self.region(number).expect("mapped region").mapping.entries(number);
            let inside = entries.filter(|(page, _)| pages.contains(&page.number()));
            found.extend(inside.map(|(page, entry)| (page, entry.frame())));
        }
        found
    }

    /// Numbers of the 2MB regions that touch `pages` in which [`Self::next_region`] finds anything.
    pub(crate) fn mapped_regions(&self, pages: &Range<u64>) -> Vec<u64> {
        let regions = regions_of(pages);
        let first = self.next_region(regions.start);
        successors(first, |&number| self.next_region(number + 1))
            .take_while(|number| regions.contains(number))
            .collect()
    }

    /// Remembers that a region's first touch took a fragmented block.
    pub(crate) fn set_fragment(&mut self, number: u64, fragment: Fragment) {
        self.regions.get_mut(&number).expect("mapped region").fragment = Some(fragment);
    }

    /// The fragmented blocks of its regions.
    pub(crate) fn fragments(&self) -> impl Iterator<Item = Fragment> + '_ {
        self.regions.values().filter_map(|region| region.fragment)
    }

    /// A frame for a level-1 node, taken before anything else changes.
    ///
    /// # Errors
    /// If memory is out.
    pub fn allocate_node(&mut self, effects: &mut Effects<'_>) -> Result<Frame, OsError> {
        let frame = effects.memory.allocate_nodes(0)?;
        self.usage.leaf_nodes += 1;
        Ok(frame)
    }

    /// Gives back what [`Self::allocate_node`] gave.
    pub fn give_back_node(&mut self, node: Frame, effects: &mut Effects<'_>) {
        effects.memory.free(node, 0);
        self.usage.leaf_nodes -= 1;
    }

    /// A level-1 node where nothing is mapped, and the nodes above it.
    ///
    /// # Errors
    /// If memory for tables runs out.
    pub fn open_node(
        &mut self,
        number: u64,
        branch: u8,
        effects: &mut Effects<'_>,
    ) -> Result<Frame, OsError> {
        let page = first_of(number);
        self.tables.extend(page, 2, effects)?;
        let node = self.allocate_node(effects);
        match node {
            Ok(frame) => {
                self.add_node(number, frame, branch, effects);
                self.tables.attach_region(page);
            }
            Err(_) => self.tables.prune(page, effects),
        }
        node
    }

    /// Says that a level-1 node is there. `branch`: 0 for that of 4KB pages, others by format.
    pub fn add_node(&self, number: u64, frame: Frame, branch: u8, effects: &mut Effects<'_>) {
        let page = first_page(number);
        effects.table(TableOperation::AddNode { space: self.id, level: 1, page, frame, branch });
    }

    /// Removes a level-1 node that holds nothing any more.
    pub fn remove_node(
        &mut self,
        number: u64,
        frame: Frame,
        branch: u8,
        effects: &mut Effects<'_>,
    ) {
        let page = first_page(number);
        effects.table(TableOperation::RemoveNode { space: self.id, level: 1, page, branch });
        effects.memory.free(frame, 0);
        self.usage.leaf_nodes -= 1;
    }

    /// Unmaps what is left of a region that translates nothing any more: a level-1 node without
    /// entries, or a 2MB page of unallocated holes.
    pub(crate) fn close_if_empty(&mut self, number: u64, effects: &mut Effects<'_>) {
        self.close_pages_if_empty(number, effects);
        let extent = self.regions.get(&number).and_then(|region| region.mapping.extent());
        if extent.is_some_and(Extent::maps_nothing) {
            let first = first_of(number);
            self.mechanism(first).unmap(self, first, effects).release(effects.memory);
        }
    }

    /// Drops the record of a region that maps nothing any more, and nodes above it.
    pub fn close_region(&mut self, number: u64, effects: &mut Effects<'_>) {
        let region = self.regions.remove(&number).expect("mapped region");
        if let Some(fragment) = region.fragment {
            effects.memory.park(fragment);
        }
        let page = first_of(number);
        self.tables.detach_region(page);
        self.tables.prune(page, effects);
    }

    /// Every cached 4KB translation of a page dies.
    pub fn shootdown_page(&self, page: u64, effects: &mut Effects<'_>) {
        effects.shootdown(Shootdown::Page { space: self.id, page: VirtualPage::new(page) });
    }

    /// Every cached entry of this size around a page dies.
    pub fn shootdown_large(&self, page: u64, size: PageSize, effects: &mut Effects<'_>) {
        effects.shootdown(Shootdown::Large { space: self.id, page: VirtualPage::new(page), size });
    }
}

/// Branch of the level-1 nodes of 4KB pages.
const PAGES: u8 = 0;

/// The entry of a 4KB page.
pub fn leaf(frame: Frame, permissions: Permissions) -> PageTableEntry {
    PageTableEntry::leaf(frame, PageSize::Size4K, permissions)
}
