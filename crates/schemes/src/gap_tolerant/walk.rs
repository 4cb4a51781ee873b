//! The page walk through directories with gap-tolerant entries (G §3.5, §3.7).

use perforate_mmu::radix::{Descent, Directory, Start};
use perforate_mmu::{Dimension, Mark, Node, Reach, WalkFault, WalkRequest, Walker};
use perforate_types::{
    AccessKind, Action, Frame, GT_PDE_BYTES, PageSize, PageTableEntry, PhysicalAddress, Purpose,
};

use super::GapTolerantRadix;
use super::entry::{GapTolerantEntry, LoadedEntry};
use super::layout::{superpage_offset, table_offset};

/// Result of the levels above the page directory: the 4KB page of the directory node that contains
/// the entry to read, or a 1GB leaf.
enum Above {
    Directory(Node),
    /// Mapping of a 1GB page, whose leaf entry ends the walk.
    Leaf(Reach),
}

/// Entry in the aligned 16 bytes that a walk reads from a page directory.
enum Found {
    Superpage(PhysicalAddress, GapTolerantEntry),
    /// Pointer to a level-1 node: its address and value.
    Table(PhysicalAddress, PageTableEntry),
}

impl GapTolerantRadix {
    /// Walks the tables of one address space. A hit of the walk cache on a gap-tolerant entry ends
    /// the walk without a memory reference; otherwise the walk starts at the deepest cached node.
    pub(super) fn walk_tables(
        &mut self,
        request: &WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        if let Some(reach) = self.translate_by_native_tlb(request, walker) {
            return Ok(reach);
        }
        let (level, node) = match self.radix.start_walk_or_leaf(request, walker)? {
            Start::Leaf(slot) => return Ok(self.translate_by_cached_entry(request, slot, walker)),
            Start::Node(level, node) => (level, node),
        };
        if level == 1 {
            return Ok(self.radix.descend(request, (1, node), 1, walker)?.reach());
        }
        let directory = match self.directory(request, (level, node), walker)? {
            Above::Directory(node) => node,
            Above::Leaf(reach) => return Ok(reach),
        };
        match self.read_directory(request, directory, walker)? {
            Found::Superpage(address, entry) => {
                Ok(self.translate_by_read_entry(request, (address, entry), walker))
            }
            Found::Table(address, entry) => {
                self.radix.mark_entry(address, entry, false);
                let node = walker.locate(entry.frame())?;
                walker.fill(request, 2, Directory::Ordinary, node);
                Ok(self.radix.descend(request, (1, node), 1, walker)?.reach())
            }
        }
    }

    /// Translates with a gap-tolerant entry of the walk cache, without a memory reference.
    fn translate_by_cached_entry(
        &mut self,
        request: &WalkRequest,
        slot: u32,
        walker: &mut Walker<'_>,
    ) -> Reach {
        let mut loaded = self.own.cached[slot as usize].loaded;
        self.mark_dirty_if_store(request, &mut loaded);
        self.record_walked_entry(loaded);
        walker.note(Purpose::Page, Action::Select);
        self.reach_of((request.space, request.page), &loaded)
    }

    /// Looks up the TLB of gap-tolerant entries at the start of a walk of a guest's or host's
    /// tables under virtualization. Natively it returns `None`, because the TLB pipeline has looked
    /// up this TLB before the walk.
    fn translate_by_native_tlb(
        &mut self,
        request: &WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Option<Reach> {
        let place = self.entry_place(request.space, request.page);
        let native = self.own.native.as_mut()?;
        native.set_walked(None);
        let (slot, mut loaded) = native.look_up(place)?;
        self.mark_dirty_if_store(request, &mut loaded);
        let unit = walker.unit_beside();
        walker.note(Purpose::Page, Action::Hit { unit, slot });
        walker.note(Purpose::Page, Action::Select);
        Some(self.reach_of((request.space, request.page), &loaded))
    }

    /// For a permitted store to a clean superpage, sets the dirty bit in `loaded`, in the entry in
    /// memory, and in all cached copies.
    fn mark_dirty_if_store(&mut self, request: &WalkRequest, loaded: &mut LoadedEntry) {
        let first = loaded.entry.first;
        if is_permitted_store(request, first) && !first.is_dirty() {
            loaded.mark_dirty();
            self.mark(request.space, request.page, Mark::Dirty);
        }
    }

    fn record_walked_entry(&mut self, loaded: LoadedEntry) {
        if let Some(native) = &mut self.own.native {
            native.set_walked(Some(loaded));
        }
    }

    /// Puts the gap-tolerant entry that was just read from memory into the walk cache, and
    /// translates the request by this entry.
    fn translate_by_read_entry(
        &mut self,
        request: &WalkRequest,
        (address, entry): (PhysicalAddress, GapTolerantEntry),
        walker: &mut Walker<'_>,
    ) -> Reach {
        let first =
            self.radix.mark_entry(address, entry.first, is_permitted_store(request, entry.first));
        let loaded = LoadedEntry::new(GapTolerantEntry { first, ..entry });
        if let Some(slot) = walker.fill_leaf(request) {
            self.store_cached(slot, request, loaded);
        }
        self.record_walked_entry(loaded);
        walker.note(Purpose::Level2, Action::Select);
        self.reach_of((request.space, request.page), &loaded)
    }

    /// Locates the page of the page-directory node that contains the 16 bytes for the request, from
    /// `node` at `level`. The pages of a guest's node may be scattered in host memory, so the walk
    /// cache stores the located page.
    fn directory(
        &mut self,
        request: &WalkRequest,
        (level, mut node): (u8, Node),
        walker: &mut Walker<'_>,
    ) -> Result<Above, WalkFault> {
        let mode = self.mode(request.space);
        let index = superpage_offset(mode, request.page) / PageSize::Size4K.bytes();
        if level == 2 {
            let frames = self.directory_frames(request.space);
            let first = node.frame.number() / frames * frames;
            let wanted = Frame::new(first).add(index);
            let located = if wanted == node.frame { node } else { walker.locate(wanted)? };
            return Ok(Above::Directory(located));
        }
        if level >= 4 {
            node = match self.radix.descend(request, (level, node), 4, walker)? {
                Descent::Node(node) => node,
                Descent::Leaf(..) => unreachable!("there are no leaves in level 4"),
            };
        }
        let place = (3, request.page);
        let (address, entry) = self.radix.read(node, place, Purpose::Level3, walker)?;
        if entry.is_large() {
            let marked = self.radix.mark_entry(address, entry, is_permitted_store(request, entry));
            return Ok(Above::Leaf(Descent::Leaf(3, marked).reach()));
        }
        self.radix.mark_entry(address, entry, false);
        let node = walker.locate(entry.frame().add(index))?;
        walker.fill(request, 3, Directory::Ordinary, node);
        Ok(Above::Directory(node))
    }

    /// Reads the aligned 16 bytes of the page directory for the request. If these are padding after
    /// the pointer to a level-1 node, also reads the 16 bytes that contain the pointer.
    fn read_directory(
        &mut self,
        request: &WalkRequest,
        node: Node,
        walker: &mut Walker<'_>,
    ) -> Result<Found, WalkFault> {
        let mode = self.mode(request.space);
        let offset = superpage_offset(mode, request.page) % PageSize::Size4K.bytes();
        let table = table_offset(mode, request.page) % PageSize::Size4K.bytes();
        walker.read(Purpose::Level2, node.located.address().add(offset));
        let address = node.frame.address().add(offset);
        let entry = GapTolerantEntry::read(self.radix.memory(), address);
        if entry.is_superpage() {
            return Ok(Found::Superpage(address, entry));
        }
        let first = table / GT_PDE_BYTES * GT_PDE_BYTES;
        if first != offset {
            walker.record_padding_read();
            walker.read(Purpose::Level2, node.located.address().add(first));
        }
        let address = node.frame.address().add(table);
        let entry = self.radix.memory().entry(address);
        let is_table = entry.is_present() && !entry.is_large();
        if is_table { Ok(Found::Table(address, entry)) } else { Err(WalkFault::NotMapped) }
    }
}

/// True if the request is a store that the entry allows.
fn is_permitted_store(request: &WalkRequest, entry: PageTableEntry) -> bool {
    request.write && entry.permissions().allow(AccessKind::Write)
}
