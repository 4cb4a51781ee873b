//! One address space: what it may touch, what is mapped where, and the table nodes for it.
//!
//! The operations here are primitive: each keeps mappings, nodes and reference counts in step and
//! says what changed. What to do when is the kernel's business.

mod area;
mod check;
mod demotion;
mod frames;
mod huge;
mod large;
mod number_map;
mod numbers;
mod pages;
mod perforated;
mod promote;
mod reclaimed;
mod region;
mod reservation;
mod segment;
mod superpage;
mod tables;
mod truth;
mod vacate;

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::ops::Range;

use perforate_types::{
    Frame, GapTolerance, HoleSet, PageSize, PageTableEntry, Permissions, Shootdown, SpaceId,
    TableOperation, Truth, Update, VirtualPage,
};

use crate::kernel::Ledger;
use crate::memory::{Fragment, PhysicalMemory};
use crate::{OsError, TableFormat};
pub(crate) use area::{Area, Areas, Attributes, LargePageAdvice, SharedObject};
pub(crate) use frames::{FrameVisitor, visit_run};
use number_map::NumberMap;
pub(crate) use numbers::{
    ALL_PAGES, GIGABYTE_PAGES, GIGABYTE_REGIONS, REGION_PAGES, first_of, first_of_gigabyte,
    first_page, gigabyte_of, index_of, is_canonical, page_at, pages_of, pages_of_gigabyte,
    region_of, regions_of, subpages_of,
};
use reclaimed::Reclaimed;
pub(crate) use region::{Entries, Large, Mapping, Pages, Perforated, Region};
pub(crate) use segment::Segment;
pub(crate) use superpage::Superpage;
use tables::Tables;

/// What an operation acts on besides its address space.
pub(crate) struct Effects<'a> {
    /// Frames.
    pub memory: &'a mut PhysicalMemory,
    /// What changed, in order.
    pub updates: &'a mut Vec<Update>,
    /// Account of the work.
    pub ledger: &'a mut Ledger,
}

impl Effects<'_> {
    /// Says what is mapped where from now on.
    pub(crate) fn truth(&mut self, truth: Truth) {
        self.updates.push(Update::Truth(truth));
    }

    /// Writes page tables.
    pub(crate) fn table(&mut self, operation: TableOperation) {
        self.ledger.table(&operation);
        self.updates.push(Update::Table(operation));
    }

    /// Writes what a mechanism has besides or instead of ordinary tables. The mechanism counts the
    /// work itself.
    pub(crate) fn format(&mut self, operation: impl Into<Update>) {
        self.updates.push(operation.into());
    }

    pub(crate) fn shootdown(&mut self, shootdown: Shootdown) {
        self.ledger.shootdown(shootdown);
        self.updates.push(Update::Shootdown(shootdown));
    }
}

/// What is mapped, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
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
    /// Pages of gap-tolerant superpages.
    pub superpage_pages: u64,
    /// Pages that a segment translates and no table entry.
    pub segment_pages: u64,
}

impl Usage {
    /// Pages translated by a segment, a gap-tolerant entry or one of 2MB or more.
    pub(crate) fn large_mapped_pages(&self) -> u64 {
        self.segment_pages
            + self.superpage_pages
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
pub(crate) struct AddressSpace {
    id: SpaceId,
    /// What may be touched.
    pub areas: Areas,
    /// End of the heap, in pages, once there is one.
    pub heap_end: Option<u64>,
    /// Pages touched by a fault, by address ÷ 2MB.
    pub touched: NumberMap<HoleSet>,
    /// 2MB regions in which sub-pages were punched since somebody looked.
    pub punched: Vec<u64>,
    tables: Tables,
    /// By address ÷ 2MB.
    regions: NumberMap<Region>,
    /// 1GB pages by address ÷ 1GB.
    huge: BTreeMap<u64, Large>,
    /// Mode of gap-tolerant entries, where the page tables have them.
    gap_tolerance: Option<GapTolerance>,
    /// Gap-tolerant entries by their first page.
    superpages: BTreeMap<u64, Superpage>,
    /// Where superpages were tried while fragmentation is injected, by first page.
    pub tried_superpages: BTreeSet<u64>,
    usage: Usage,
    reclaimed: Reclaimed,
    segment: Option<Box<Segment>>,
}

/// The present translation of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    /// By a 4KB page.
    Page(Frame, Permissions),
    /// By an ordinary 2MB page.
    Large(Frame, Permissions),
    /// By a 1GB page.
    Huge(Frame, Permissions),
    /// By a gap-tolerant entry.
    Superpage(Frame, Permissions),
    /// By a perforated page, in place.
    InPlace(Frame, Permissions),
    /// By an allocated hole.
    Hole(Frame, Permissions),
    /// A hole that is not allocated.
    EmptyHole,
}

impl Present {
    /// The frame it is translated to.
    pub(crate) fn frame(self) -> Option<Frame> {
        match self {
            Self::Page(frame, _)
            | Self::Large(frame, _)
            | Self::Huge(frame, _)
            | Self::Superpage(frame, _)
            | Self::InPlace(frame, _)
            | Self::Hole(frame, _) => Some(frame),
            Self::EmptyHole => None,
        }
    }

    /// What the translation allows.
    pub(crate) fn permissions(self) -> Permissions {
        match self {
            Self::Page(_, permissions)
            | Self::Large(_, permissions)
            | Self::Huge(_, permissions)
            | Self::Superpage(_, permissions)
            | Self::InPlace(_, permissions)
            | Self::Hole(_, permissions) => permissions,
            Self::EmptyHole => Permissions { write: false, execute: false, user: false },
        }
    }
}

impl AddressSpace {
    /// An empty address space.
    pub(crate) fn new(id: SpaceId, format: TableFormat) -> Self {
        Self {
            id,
            areas: Areas::default(),
            heap_end: None,
            touched: NumberMap::default(),
            punched: Vec::new(),
            tables: Tables::new(id, format),
            regions: NumberMap::default(),
            huge: BTreeMap::new(),
            gap_tolerance: format.gap_tolerance,
            superpages: BTreeMap::new(),
            tried_superpages: BTreeSet::new(),
            usage: Usage::default(),
            reclaimed: Reclaimed::default(),
            segment: None,
        }
    }

    /// What is mapped, in numbers.
    pub(crate) fn usage(&self) -> Usage {
        Usage { segment_pages: self.segment_only_pages(), ..self.usage }
    }

    /// Pages of areas that have no frame yet, at most.
    pub(crate) fn untouched_pages(&self) -> u64 {
        let present = self.usage().mapped_pages() + self.segment_idle_pages();
        self.areas.pages().saturating_sub(present)
    }

    /// Frames of all table nodes.
    pub(crate) fn table_frames(&self) -> u64 {
        self.tables.frames() + self.usage.leaf_nodes
    }

    /// How page tables translate `page`; `None` where nothing is mapped.
    pub(crate) fn find(&self, page: u64) -> Option<Present> {
        self.look_up(page).0
    }

    /// The frame that `page` is translated to, by page tables or the segment, if it is.
    pub(crate) fn frame_of(&self, page: u64) -> Option<Frame> {
        self.find(page).and_then(Present::frame).or_else(|| self.segment_frame(page))
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
                Mapping::Large(large) => {
                    Some(Present::Large(large.block.add(index as u64), large.permissions))
                }
                Mapping::Perforated(perforated) => Some(perforated.find(index)),
            };
            return (present, true);
        }
        (self.find_superpage(page).or_else(|| self.find_huge(page)), false)
    }

    fn find_huge(&self, page: u64) -> Option<Present> {
        if self.huge.is_empty() {
            return None;
        }
        let huge = self.huge.get(&gigabyte_of(page))?;
        let index = page & (GIGABYTE_PAGES - 1);
        Some(Present::Huge(huge.block.add(index), huge.permissions))
    }

    /// The mapping of 2MB region `number`.
    pub(crate) fn region(&self, number: u64) -> Option<&Region> {
        self.regions.get(&number)
    }

    /// The 2MB region that translates sub-page `index` of `block` in place.
    pub(crate) fn in_place_region(&self, block: Frame, index: usize) -> Option<u64> {
        let translates = |region: &Region| match &region.mapping {
            Mapping::Large(large) => large.block == block,
            Mapping::Perforated(page) => page.block == block && !page.holes.contains(index),
            Mapping::Pages(_) => false,
        };
        self.regions.iter().find(|(_, region)| translates(region)).map(|(number, _)| number)
    }

    /// Numbers of the mapped 2MB regions that touch `pages`.
    pub(crate) fn regions_within(&self, pages: &Range<u64>) -> Vec<u64> {
        self.regions.range(regions_of(pages)).map(|(number, _)| number).collect()
    }

    /// Number of the first 2MB region from `number` on in which anything is mapped by 4KB or 2MB
    /// entries or by superpages.
    pub(crate) fn next_region(&self, number: u64) -> Option<u64> {
        let region = self.regions.range(number..u64::MAX).next().map(|(number, _)| number);
        if self.superpages.is_empty() {
            return region;
        }
        // One that begins before the region may reach into it.
        let from = first_of(number);
        let superpage = self.superpages.range(self.superpage_start(from)..).next();
        let superpage = superpage.map(|(&page, _)| region_of(page.max(from)));
        region.into_iter().chain(superpage).min()
    }

    /// Numbers of the 2MB regions that touch `pages` in which [`Self::next_region`] finds anything.
    pub(crate) fn mapped_regions(&self, pages: &Range<u64>) -> Vec<u64> {
        let regions = regions_of(pages);
        let first = self.next_region(regions.start);
        successors(first, |&number| self.next_region(number + 1))
            .take_while(|number| regions.contains(number))
            .collect()
    }

    /// Numbers of the 1GB pages that touch `pages`.
    pub(crate) fn huge_within(&self, pages: &Range<u64>) -> Vec<u64> {
        let last = pages.end.div_ceil(GIGABYTE_PAGES);
        self.huge.range(gigabyte_of(pages.start)..last).map(|(&number, _)| number).collect()
    }

    /// Remembers that a region's first touch took a fragmented block.
    pub(crate) fn set_fragment(&mut self, number: u64, fragment: Fragment) {
        self.regions.get_mut(&number).expect("mapped region").fragment = Some(fragment);
    }

    /// The fragmented blocks of its regions.
    pub(crate) fn fragments(&self) -> impl Iterator<Item = Fragment> + '_ {
        self.regions.values().filter_map(|region| region.fragment)
    }

    /// Whether nothing is mapped in the 1GB around `page`, and nothing of it is in swap.
    pub(crate) fn is_gigabyte_empty(&self, page: u64) -> bool {
        let pages = pages_of_gigabyte(gigabyte_of(page));
        !self.tables.has_directory(page)
            && !self.huge.contains_key(&gigabyte_of(page))
            && !self.any_swapped(pages)
    }

    /// A frame for a level-1 node, taken before anything else changes.
    fn allocate_leaf_node(&mut self, effects: &mut Effects<'_>) -> Result<Frame, OsError> {
        let frame = effects.memory.allocate_nodes(0)?;
        self.usage.leaf_nodes += 1;
        Ok(frame)
    }

    /// A level-1 node where nothing is mapped, and the nodes above it.
    fn open_leaf_node(
        &mut self,
        number: u64,
        branch: u8,
        effects: &mut Effects<'_>,
    ) -> Result<Frame, OsError> {
        let page = first_of(number);
        self.tables.extend(page, 2, effects)?;
        let node = self.allocate_leaf_node(effects);
        match node {
            Ok(frame) => {
                self.add_leaf_node(number, frame, branch, effects);
                self.tables.attach_region(page);
            }
            Err(_) => self.tables.prune(page, effects),
        }
        node
    }

    fn add_leaf_node(&self, number: u64, frame: Frame, branch: u8, effects: &mut Effects<'_>) {
        let page = first_page(number);
        effects.table(TableOperation::AddNode { space: self.id, level: 1, page, frame, branch });
    }

    fn remove_leaf_node(
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
        let empty = self.perforated(number).is_some_and(|perforated| {
            perforated.holes == HoleSet::FULL && perforated.allocated == 0
        });
        if empty {
            self.unmap_perforated(number, effects).release(effects);
        }
    }

    /// Drops the record of a region that maps nothing any more, and nodes above it.
    fn close_region(&mut self, number: u64, effects: &mut Effects<'_>) {
        let region = self.regions.remove(&number).expect("mapped region");
        if let Some(fragment) = region.fragment {
            effects.memory.park(fragment);
        }
        let page = first_of(number);
        self.tables.detach_region(page);
        self.tables.prune(page, effects);
    }

    fn shootdown_page(&self, page: u64, effects: &mut Effects<'_>) {
        effects.shootdown(Shootdown::Page { space: self.id, page: VirtualPage::new(page) });
    }

    fn shootdown_large(&self, page: u64, size: PageSize, effects: &mut Effects<'_>) {
        effects.shootdown(Shootdown::Large { space: self.id, page: VirtualPage::new(page), size });
    }
}

/// Branch of the level-1 nodes of 4KB pages.
const PAGES: u8 = 0;

fn leaf(frame: Frame, permissions: Permissions) -> PageTableEntry {
    PageTableEntry::leaf(frame, PageSize::Size4K, permissions)
}
