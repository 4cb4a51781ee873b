//! The x86-64 page table of four or five levels. Table operations write it and walks read it.
//!
//! Other formats contain a [`Radix`] and handle only their differences: nodes with another layout
//! ([`Radix::with_directories`]), or entries that lead to other structures. Their walks consist of
//! [`Radix::start_walk`], [`Radix::read`], [`Radix::descend`] and [`Radix::mark_entry`], and of the
//! [`Walker`]'s `locate`, `read` and `fill`.

mod walk;

use std::any::TypeId;

use perforate_types::{
    CONTIGUOUS_PAGES, Contiguity, FormatOperation, Frame, Level, PageSize, PageTableEntry,
    Permissions, PhysicalAddress, SpaceId, TableOperation, VirtualPage,
};

use crate::capability::{Capability, CapabilityKind, CapabilityMut, Runs};
use crate::coalescing::{Run, RunRequest};
pub use crate::walk::Directory;
use crate::{Dimension, Mark, Reach, TableMemory, WalkFault, WalkRequest, Walker, allow};
pub use walk::{Descent, Start};

/// Function that finds the entry in a level-2 node that points to the level-1 node of a page. The
/// arguments are the simulated memory, the address space's control register if set, the level-2
/// node, and the page. `None` if an entry of another kind is in this place.
pub type FindEntry =
    Box<dyn Fn(&TableMemory, Option<u64>, Frame, VirtualPage) -> Option<PhysicalAddress> + Send>;

/// Ordinary x86-64 page tables with 4KB, 2MB and 1GB leaves.
#[derive(Default)]
pub struct Radix {
    memory: TableMemory,
    roots: Vec<Option<Frame>>,
    /// Value of GTPTCR by address space; `None` if not set (G §3.7).
    controls: Vec<Option<u64>>,
    /// Function that finds entries in level-2 nodes with another layout; `None` for the x86-64
    /// layout.
    directories: Option<FindEntry>,
    /// Address space, 2MB region and frame of the level-1 node that was found last, because
    /// consecutive mappings use the same node. Adding or removing a node clears it.
    latest: Option<(SpaceId, u64, Frame)>,
    /// True for tables of five levels (57-bit addresses; CR4.LA57), false for those of four.
    has_five_levels: bool,
}

/// Size of the page that a leaf of `level` maps.
const fn leaf_size(level: Level) -> PageSize {
    match level {
        1 => PageSize::Size4K,
        2 => PageSize::Size2M,
        _ => PageSize::Size1G,
    }
}

/// Returns the address of the entry for `page` in a node of `level` with the x86-64 layout. `node`
/// is the frame of the node.
pub const fn entry_in(node: Frame, level: Level, page: VirtualPage) -> PhysicalAddress {
    let index = page.number() >> (9 * (level as u32 - 1)) & 511;
    node.address().add(index * 8)
}

impl Radix {
    /// Creates page tables without address spaces. An address space begins with the node of level
    /// 4.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates tables whose level-2 nodes have another layout and also hold entries of another
    /// format. The [`Radix`] does not interpret those entries: it handles only level-1 nodes and
    /// their pages.
    pub fn with_directories(find_entry: FindEntry) -> Self {
        Self { directories: Some(find_entry), ..Self::default() }
    }

    /// Returns the tables with five levels if `five_levels` is true, else with four. An address
    /// space begins with the node of the highest level.
    #[must_use]
    pub fn with_five_levels(self, five_levels: bool) -> Self {
        Self { has_five_levels: five_levels, ..self }
    }

    /// Level of the root node.
    #[inline]
    pub fn root_level(&self) -> Level {
        4 + Level::from(self.has_five_levels)
    }

    /// Returns the address of the entry of `level` for `page` in `node`; `None` if an entry of
    /// another kind is in this place.
    fn entry_of(
        &self,
        (space, node): (SpaceId, Frame),
        level: Level,
        page: VirtualPage,
    ) -> Option<PhysicalAddress> {
        match &self.directories {
            Some(find_entry) if level == 2 => {
                find_entry(&self.memory, self.control(space), node, page)
            }
            _ => Some(entry_in(node, level, page)),
        }
    }

    /// Simulated memory of the tables, mutable, for entries that [`TableOperation`]s do not write.
    pub fn memory_mut(&mut self) -> &mut TableMemory {
        &mut self.memory
    }

    /// Value of the register GTPTCR in an address space; `None` if not set (G §3.7).
    pub fn control(&self, space: SpaceId) -> Option<u64> {
        *self.controls.get(usize::from(space.0))?
    }

    fn set_control(&mut self, space: SpaceId, control: u64) {
        assert!(self.root(space).is_none(), "{space:?} has tables already");
        let index = usize::from(space.0);
        if self.controls.len() <= index {
            self.controls.resize(index + 1, None);
        }
        self.controls[index] = Some(control);
    }

    fn root(&self, space: SpaceId) -> Option<Frame> {
        *self.roots.get(usize::from(space.0))?
    }

    /// Address of the entry of `level` for `page`, found by descending the tables in software.
    /// `None` if there is no node of that level.
    pub fn entry_address(
        &self,
        space: SpaceId,
        page: VirtualPage,
        level: Level,
    ) -> Option<PhysicalAddress> {
        let mut node = self.root(space)?;
        for above in (level + 1..=self.root_level()).rev() {
            let entry = self.memory.entry(self.entry_of((space, node), above, page)?);
            if !entry.is_present() || entry.is_large() {
                return None;
            }
            node = entry.frame();
        }
        self.entry_of((space, node), level, page)
    }

    /// Like [`Self::entry_address`], for a node that must exist.
    ///
    /// # Panics
    /// If the node does not exist.
    pub fn existing_entry(
        &self,
        space: SpaceId,
        page: VirtualPage,
        level: Level,
    ) -> PhysicalAddress {
        self.entry_address(space, page, level)
            .unwrap_or_else(|| panic!("{space:?} has no level-{level} node for {page:?}"))
    }

    /// Address of the level-1 entry for `page`. The level-1 node must exist.
    fn existing_page_entry(&mut self, space: SpaceId, page: VirtualPage) -> PhysicalAddress {
        let region = page.number() / PageSize::Size2M.pages();
        if let Some((latest_space, latest_region, node)) = self.latest
            && (latest_space, latest_region) == (space, region)
        {
            return entry_in(node, 1, page);
        }
        let address = self.existing_entry(space, page, 1);
        self.latest = Some((space, region, address.page()));
        address
    }

    fn existing_leaf(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        size: PageSize,
    ) -> PhysicalAddress {
        match size {
            PageSize::Size4K => self.existing_page_entry(space, page),
            _ => self.existing_entry(space, page, size.leaf_level()),
        }
    }

    fn add_table(&mut self, space: SpaceId, level: Level, page: VirtualPage, frame: Frame) {
        self.latest = None;
        self.memory.clear_frame(frame);
        if level == self.root_level() {
            let index = usize::from(space.0);
            if self.roots.len() <= index {
                self.roots.resize(index + 1, None);
            }
            assert!(self.roots[index].is_none(), "{space:?} has a root already");
            self.roots[index] = Some(frame);
            return;
        }
        let address = self.existing_entry(space, page, level + 1);
        assert!(!self.memory.entry(address).is_present(), "level-{level} node of {page:?} exists");
        self.memory.set_entry(address, PageTableEntry::table(frame));
    }

    fn remove_table(&mut self, space: SpaceId, level: Level, page: VirtualPage) {
        self.latest = None;
        if level == self.root_level() {
            let root = self.roots[usize::from(space.0)].take().expect("the space has a root");
            self.memory.clear_frame(root);
            return;
        }
        let address = self.existing_entry(space, page, level + 1);
        let node = self.memory.entry(address).frame();
        self.memory.set_entry(address, PageTableEntry::ABSENT);
        self.memory.clear_frame(node);
    }

    /// Carries out an operation on the tables.
    ///
    /// # Panics
    /// If the operation does not fit the tables, which is a bug of the operating-system model.
    pub fn write(&mut self, operation: &TableOperation) {
        match *operation {
            TableOperation::SetControl { space, control } => self.set_control(space, control),
            TableOperation::AddNode { space, level, page, frame, branch } => {
                assert_eq!(branch, 0, "ordinary page tables have one node for {page:?}");
                self.add_table(space, level, page, frame);
            }
            TableOperation::RemoveNode { space, level, page, .. } => {
                self.remove_table(space, level, page);
            }
            TableOperation::Map { space, page, size, frame, permissions } => {
                assert!(page.is_aligned(size), "{page:?} is not aligned to {size:?}");
                let address = self.existing_leaf(space, page, size);
                let leaf = PageTableEntry::leaf(frame, size, permissions);
                let before = self.memory.replace_entry(address, leaf);
                assert!(!before.is_present(), "{page:?} is mapped already");
            }
            TableOperation::Unmap { space, page, size } => {
                let address = self.existing_leaf(space, page, size);
                let before = self.memory.replace_entry(address, PageTableEntry::ABSENT);
                assert!(before.is_present(), "{page:?} is not mapped");
            }
            TableOperation::Protect { space, page, size, permissions } => {
                self.set_permissions(space, page, size, permissions);
            }
            TableOperation::Join { space, page, contiguity } => {
                self.join(space, page, contiguity);
            }
        }
    }

    /// An entry with the accessed and dirty bits that any of the 16 entries from `first` on has.
    fn block_marks(&self, first: PhysicalAddress) -> PageTableEntry {
        let all = (0..CONTIGUOUS_PAGES).map(|index| self.memory.entry(first.add(index * 8)));
        all.fold(PageTableEntry::ABSENT, PageTableEntry::with_marks_of)
    }

    /// Rewrites the entries of 16 pages as contiguous ones, or as entries of single pages. All get
    /// the accessed and dirty bits that any of them has, because the hardware sets these bits in
    /// any entry of a contiguous block (as Linux does, in contpte_convert).
    fn join(&mut self, space: SpaceId, first: VirtualPage, contiguity: Option<Contiguity>) {
        let own = |page: VirtualPage, entry: PageTableEntry| {
            assert!(entry.is_present(), "{page:?} is joined but not mapped");
            entry.without_contiguity(page)
        };
        let address = self.existing_page_entry(space, first);
        let head = own(first, self.memory.entry(address));
        let in_block = |number: u64| number.is_multiple_of(CONTIGUOUS_PAGES);
        assert!(in_block(first.number()) && in_block(head.frame().number()), "{first:?}: {head:?}");
        let marks = self.block_marks(address);
        for index in 0..CONTIGUOUS_PAGES {
            let (page, address) = (first.add(index), address.add(index * 8));
            let entry = own(page, self.memory.entry(address));
            let is_next = entry.frame() == head.frame().add(index)
                && entry.permissions() == head.permissions();
            assert!(is_next, "{page:?} does not continue {head:?}: {entry:?}");
            let joined = contiguity.map_or(entry, |contiguity| entry.with_contiguity(contiguity));
            self.memory.set_entry(address, joined.with_marks_of(marks));
        }
    }

    /// Level and address of the leaf entry that covers `page`; `None` if the page is not mapped.
    fn leaf(&self, space: SpaceId, page: VirtualPage) -> Option<(Level, PhysicalAddress)> {
        (1..=3).find_map(|level| {
            let address = self.entry_address(space, page, level)?;
            let entry = self.memory.entry(address);
            let is_leaf = entry.is_present() && (level == 1 || entry.is_large());
            is_leaf.then_some((level, address))
        })
    }

    fn set_permissions(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        size: PageSize,
        permissions: Permissions,
    ) {
        let address = self.existing_leaf(space, page, size);
        let entry = self.memory.entry(address);
        assert!(entry.is_present(), "{page:?} is protected but not mapped");
        self.memory.set_entry(address, entry.with_permissions(permissions));
    }

    /// Sets the accessed bit of the entry at `address`, and the dirty bit if `write`. Returns the
    /// new entry.
    #[inline]
    pub fn mark_entry(
        &mut self,
        address: PhysicalAddress,
        entry: PageTableEntry,
        write: bool,
    ) -> PageTableEntry {
        let marked = entry.with_accessed(write);
        if marked != entry {
            self.memory.set_entry(address, marked);
        }
        marked
    }

    fn mark_accessed(&mut self, space: SpaceId, page: VirtualPage) {
        for level in (1..=self.root_level()).rev() {
            let Some(address) = self.entry_address(space, page, level) else { return };
            let entry = self.memory.entry(address);
            if entry.is_present() {
                self.mark_entry(address, entry, false);
            }
        }
    }
}

impl Dimension for Radix {
    fn apply(&mut self, operation: &dyn FormatOperation) {
        match operation.downcast_ref() {
            Some(operation) => self.write(operation),
            None => panic!("ordinary page tables cannot hold {operation:?}"),
        }
    }

    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault> {
        // Compiled once for each, so that a walk leaves out what only the others need.
        match (walker.is_guest(), walker.is_host) {
            (true, _) => self.walk_by(&request, walker),
            (_, true) => self.walk_by(&request, &mut walker.without_host(true)),
            (_, false) => self.walk_by(&request, &mut walker.without_host(false)),
        }
    }

    /// The dirty bit of a contiguous entry may be in any of the 16 entries, as a store sets it in
    /// one of them only.
    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let (level, address) = self.leaf(space, page)?;
        let entry = self.memory.entry(address);
        if level > 1 {
            return Some(Descent::Leaf(level, entry).reach());
        }
        let mut reach = Descent::Leaf(level, entry.of_page(page)).reach();
        if entry.is_contiguous() {
            let first = page.number() / CONTIGUOUS_PAGES * CONTIGUOUS_PAGES;
            if self.block_marks(entry_in(address.page(), 1, VirtualPage::new(first))).is_dirty() {
                reach.allows |= allow::DIRTY;
            }
        }
        Some(reach)
    }

    fn mark(&mut self, space: SpaceId, page: VirtualPage, mark: Mark) {
        match mark {
            Mark::Accessed => self.mark_accessed(space, page),
            Mark::Dirty => {
                if let Some((_, address)) = self.leaf(space, page) {
                    let entry = self.memory.entry(address);
                    self.mark_entry(address, entry, true);
                }
            }
        }
    }

    fn memory(&self) -> &TableMemory {
        &self.memory
    }

    fn capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        match wanted {
            CapabilityKind::Runs => Some(Capability::Runs(self)),
            CapabilityKind::Part(part) if part == TypeId::of::<Self>() => {
                Some(Capability::Part(self))
            }
            _ => None,
        }
    }

    fn capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        match wanted {
            CapabilityKind::Part(part) if part == TypeId::of::<Self>() => {
                Some(CapabilityMut::Part(self))
            }
            _ => None,
        }
    }
}

/// Searches for runs within one level-1 node, which contains the whole window, so each page costs
/// one read of the simulated memory.
impl Runs for Radix {
    fn run_around(&self, request: &RunRequest) -> Run {
        let entry = self.entry_address(request.space, request.page, 1);
        let node = entry.map(PhysicalAddress::page);
        request.longest(|page| {
            let entry = self.memory.entry(entry_in(node?, 1, page)).of_page(page);
            let allows = allow::of_leaf(entry.permissions(), entry.is_dirty());
            entry.is_present().then(|| Reach::of_page(entry.frame(), allows))
        })
    }

    fn is_contiguous(&self, space: SpaceId, page: VirtualPage) -> bool {
        self.leaf(space, page).is_some_and(|(level, address)| {
            let entry = self.memory.entry(address);
            if level == 1 { entry.is_contiguous() } else { entry.filter() == 0 }
        })
    }
}
