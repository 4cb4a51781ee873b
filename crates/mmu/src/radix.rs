//! The x86-64 four-level page table: written by operations on tables, read by walks.

use perforate_types::{
    AccessKind, FormatOperation, Frame, GapTolerance, Level, PageSize, PageTableEntry, Permissions,
    PhysicalAddress, Purpose, SpaceId, TableOperation, VirtualPage,
};

use crate::dimension::{Dimension, Reach, WalkFault, WalkRequest, allow};
use crate::gap_tolerant::table_entry;
use crate::walk_cache::{Directory, WalkStart};
use crate::{Node, Run, RunRequest, TableMemory, Walker};

/// Level of the root node.
const ROOT: Level = 4;

/// Ordinary page tables with 4KB, 2MB and 1GB leaves.
#[derive(Default)]
pub struct Radix {
    memory: TableMemory,
    roots: Vec<Option<Frame>>,
    /// How level-2 nodes are laid out where they may hold gap-tolerant entries.
    directories: Option<GapTolerance>,
    /// The level-1 node found last, by space and 2MB region, while no node has come or gone: pages
    /// are mapped in runs.
    latest: Option<(SpaceId, u64, Frame)>,
}

/// Level whose entries map pages of `size`.
const fn leaf_level(size: PageSize) -> Level {
    match size {
        PageSize::Size4K => 1,
        PageSize::Size2M => 2,
        PageSize::Size1G => 3,
    }
}

/// Size of the page that a leaf of `level` maps.
const fn leaf_size(level: Level) -> PageSize {
    match level {
        1 => PageSize::Size4K,
        2 => PageSize::Size2M,
        _ => PageSize::Size1G,
    }
}

/// What a read of an entry of `level` is for.
const fn purpose(level: Level) -> Purpose {
    match level {
        4 => Purpose::Level4,
        3 => Purpose::Level3,
        2 => Purpose::Level2,
        _ => Purpose::Level1,
    }
}

/// Address of the entry for `page` in the node of `level` at `node`.
pub(crate) const fn entry_in(node: Frame, level: Level, page: VirtualPage) -> PhysicalAddress {
    let index = page.number() >> (9 * (level as u32 - 1)) & 511;
    node.address().add(index * 8)
}

impl Radix {
    /// No address spaces yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tables whose level-2 nodes have places for gap-tolerant entries, to which it is blind: it
    /// writes, finds and walks what lies beneath level-1 nodes.
    pub(crate) fn with_directories(mode: GapTolerance) -> Self {
        Self { directories: Some(mode), ..Self::default() }
    }

    /// Where the entry of `level` for `page` lies in `node`; `None` where a gap-tolerant entry
    /// takes its place.
    fn entry_of(&self, node: Frame, level: Level, page: VirtualPage) -> Option<PhysicalAddress> {
        match self.directories {
            Some(mode) if level == 2 => table_entry(&self.memory, mode, node, page),
            _ => Some(entry_in(node, level, page)),
        }
    }

    pub(crate) fn memory_mut(&mut self) -> &mut TableMemory {
        &mut self.memory
    }

    fn root(&self, space: SpaceId) -> Option<Frame> {
        *self.roots.get(usize::from(space.0))?
    }

    /// Where the entry of `level` for `page` lies, found by descending through the tables.
    pub(crate) fn entry_address(
        &self,
        space: SpaceId,
        page: VirtualPage,
        level: Level,
    ) -> Option<PhysicalAddress> {
        let mut node = self.root(space)?;
        for above in (level + 1..=ROOT).rev() {
            let entry = self.memory.entry(self.entry_of(node, above, page)?);
            if !entry.is_present() || entry.is_large() {
                return None;
            }
            node = entry.frame();
        }
        self.entry_of(node, level, page)
    }

    /// Like [`Self::entry_address`], where the node must exist.
    pub(crate) fn existing_entry(
        &self,
        space: SpaceId,
        page: VirtualPage,
        level: Level,
    ) -> PhysicalAddress {
        self.entry_address(space, page, level)
            .unwrap_or_else(|| panic!("{space:?} has no level-{level} node for {page:?}"))
    }

    /// Where the entry of a 4KB page lies, whose node must exist.
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
            _ => self.existing_entry(space, page, leaf_level(size)),
        }
    }

    fn add_table(&mut self, space: SpaceId, level: Level, page: VirtualPage, frame: Frame) {
        self.latest = None;
        self.memory.clear_frame(frame);
        if level == ROOT {
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
        if level == ROOT {
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
    pub(crate) fn write(&mut self, operation: &TableOperation) {
        match *operation {
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
        }
    }

    /// Level and place of the leaf that covers `page`.
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

    /// Sets the accessed bit (and the dirty bit for a write) of `entry`, which is at `address`.
    #[inline]
    pub(crate) fn mark(
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

    /// Finds where a walk starts: a walk-cache hit, or the root.
    #[inline(always)]
    pub(crate) fn start_walk(
        &self,
        request: &WalkRequest,
        directory: Directory,
        walker: &mut Walker<'_>,
    ) -> Result<(Level, Node), WalkFault> {
        let found = walker.caches.look_up(request.space, request.page, directory);
        self.start_at(request, found, walker)
    }

    /// Where a walk starts, given what the walk caches have.
    #[inline(always)]
    pub(crate) fn start_at(
        &self,
        request: &WalkRequest,
        found: Option<WalkStart>,
        walker: &mut Walker<'_>,
    ) -> Result<(Level, Node), WalkFault> {
        if let Some(start) = found {
            walker.looked_up(Some(start.slot));
            walker.located_before(start.node);
            return Ok((start.level, start.node));
        }
        walker.looked_up(None);
        let root = self.root(request.space).ok_or(WalkFault::NotMapped)?;
        Ok((ROOT, walker.locate(root)?))
    }

    /// Reads the entry of `level` for `page` in `node` as the walker does; also tells where the
    /// dimension itself has it.
    #[inline]
    pub(crate) fn read(
        &mut self,
        node: Node,
        (level, page): (Level, VirtualPage),
        purpose: Purpose,
        walker: &mut Walker<'_>,
    ) -> Result<(PhysicalAddress, PageTableEntry), WalkFault> {
        walker.read(purpose, entry_in(node.located, level, page));
        let address = entry_in(node.frame, level, page);
        let entry = self.memory.entry(address);
        if entry.is_present() { Ok((address, entry)) } else { Err(WalkFault::NotMapped) }
    }

    /// Walks down from `node` of `level` until a leaf, or until the node of level `until` − 1
    /// is known.
    #[inline(always)]
    pub(crate) fn descend(
        &mut self,
        request: &WalkRequest,
        (mut level, mut node): (Level, Node),
        until: Level,
        walker: &mut Walker<'_>,
    ) -> Result<Descent, WalkFault> {
        while level >= until {
            let (address, entry) =
                self.read(node, (level, request.page), purpose(level), walker)?;
            if level == 1 || entry.is_large() {
                let has_holes = level == 2 && entry.filter() != 0;
                let dirtied =
                    request.write && entry.permissions().allow(AccessKind::Write) && !has_holes;
                return Ok(Descent::Leaf(level, self.mark(address, entry, dirtied)));
            }
            self.mark(address, entry, false);
            node = walker.locate(entry.frame())?;
            fill(request, level, Directory::Ordinary, node, walker);
            level -= 1;
        }
        Ok(Descent::Node(node))
    }
}

/// Where a descent ended.
pub(crate) enum Descent {
    /// At a leaf of this level.
    Leaf(Level, PageTableEntry),
    /// At this node, whose entries were not read.
    Node(Node),
}

impl Descent {
    /// The leaf's reach.
    ///
    /// # Panics
    /// If the descent ended at a node.
    pub(crate) fn reach(&self) -> Reach {
        let Self::Leaf(level, entry) = self else { panic!("the walk ended above the leaf") };
        let size = leaf_size(*level);
        Reach {
            size,
            frame: entry.leaf_frame(size),
            allows: allow::of_leaf(entry.permissions(), entry.is_dirty()),
            filter: if size == PageSize::Size2M { entry.filter() } else { 0 },
        }
    }
}

/// Fills a walk cache with a non-leaf entry just read.
pub(crate) fn fill(
    request: &WalkRequest,
    level: Level,
    directory: Directory,
    node: Node,
    walker: &mut Walker<'_>,
) {
    if let Some(slot) = walker.caches.fill(request.space, request.page, level, directory, node) {
        walker.filled(purpose(level), slot);
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
        let start = self.start_walk(&request, Directory::Ordinary, walker)?;
        Ok(self.descend(&request, start, 1, walker)?.reach())
    }

    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<(Frame, u8)> {
        let (level, address) = self.leaf(space, page)?;
        let (size, entry) = (leaf_size(level), self.memory.entry(address));
        let frame = entry.leaf_frame(size).add(page.index_in(size) as u64);
        Some((frame, allow::of_leaf(entry.permissions(), entry.is_dirty())))
    }

    fn look_at_leaf(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let (level, address) = self.leaf(space, page)?;
        Some(Descent::Leaf(level, self.memory.entry(address)).reach())
    }

    /// A window lies in one node.
    fn run_around(&self, request: &RunRequest) -> Run {
        let entry = self.entry_address(request.space, request.page, 1);
        let node = entry.map(PhysicalAddress::page);
        request.longest(|page| {
            let entry = self.memory.entry(entry_in(node?, 1, page));
            let allows = allow::of_leaf(entry.permissions(), entry.is_dirty());
            entry.is_present().then(|| (entry.frame(), allows))
        })
    }

    fn mark_accessed(&mut self, space: SpaceId, page: VirtualPage) {
        for level in (1..=ROOT).rev() {
            let Some(address) = self.entry_address(space, page, level) else { return };
            let entry = self.memory.entry(address);
            if entry.is_present() {
                self.mark(address, entry, false);
            }
        }
    }

    fn mark_dirty(&mut self, space: SpaceId, page: VirtualPage) {
        if let Some((_, address)) = self.leaf(space, page) {
            let entry = self.memory.entry(address);
            self.mark(address, entry, true);
        }
    }

    fn memory(&self) -> &TableMemory {
        &self.memory
    }
}
