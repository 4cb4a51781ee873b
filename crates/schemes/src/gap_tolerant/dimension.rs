//! Hardware half: page directories whose 16-byte entries map a superpage to selected B-blocks of a
//! memory slice, in addition to entries of level-1 nodes (G §3).

use std::any::TypeId;

use perforate_mmu::radix::Radix;
use perforate_mmu::{
    Capability, CapabilityKind, CapabilityMut, Dimension, Mark, Parked, PerCoreHardware, Reach,
    TableMemory, TlbGeometry, WalkFault, WalkRequest, Walker, allow,
};
use perforate_types::{
    FormatOperation, Frame, GapTolerance, PageSize, Permissions, PhysicalAddress, SLICE_BLOCKS,
    SUPERPAGE_BLOCKS, SpaceId, TableOperation, VirtualPage,
};

use super::entry::{GapTolerantEntry, LoadedEntry};
use super::layout;
use super::native::NativeTlb;
use crate::gap_tolerant::SuperpageOperation;

/// Page tables with 4KB pages and gap-tolerant superpages, but no 2MB pages (G Table 3). Each
/// address space has one mode: the size of B-blocks (64ths of a slice), and single or paired
/// entries. Its control register GTPTCR holds the mode.
pub struct GapTolerantRadix {
    /// Mode (B-block size, single or paired entries) of address spaces for which the operating
    /// system has not written the control register GTPTCR.
    mode: GapTolerance,
    /// Mode of each address space, by number; `None` if the operating system has not written its
    /// register GTPTCR.
    modes: Vec<Option<GapTolerance>>,
    pub(super) radix: Radix,
    /// Hardware state of the running core; the state of the other cores is in `parked`.
    pub(super) own: CoreState,
    parked: Parked<CoreState>,
    /// Number of entries filled into the TLBs of gap-tolerant entries of all cores.
    pub(super) native_fills: u64,
}

/// State of the gap-tolerant hardware that exists once per core.
#[derive(Clone, Default)]
pub(super) struct CoreState {
    /// Gap-tolerant entries that the walk cache of level-2 entries holds, by its slots. An element
    /// is valid while the walk cache holds its key in that slot.
    pub(super) cached: Vec<CachedEntry>,
    /// TLB of gap-tolerant entries, if the hardware has one.
    pub(super) native: Option<NativeTlb>,
}

/// Gap-tolerant entry that a slot of the walk cache holds, with the key of the slot: address space
/// and index of the entry.
#[derive(Clone, Copy, Default)]
pub(super) struct CachedEntry {
    space: SpaceId,
    /// Index of the gap-tolerant entry in its address space: first page ÷ pages of an entry.
    number: u64,
    pub(super) loaded: LoadedEntry,
}

/// Decodes the value of the control register GTPTCR that the operating system has written: size of
/// B-blocks (64ths of a slice), single or paired entries.
fn mode_of(control: u64) -> GapTolerance {
    let mode = GapTolerance::from_control(control).expect("the register has a mode of G Table 3");
    mode.expect("address spaces here have gap-tolerant entries")
}

/// A gap-tolerant entry as it translates one of its 4KB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superpage {
    /// Address of the gap-tolerant entry in the memory that holds the page tables.
    pub entry: PhysicalAddress,
    /// First frame of the slice that contains the page.
    pub slice: Frame,
    /// Selection bitmap of the gap-tolerant entry: one bit per B-block of the slice.
    pub selection: u64,
    /// Index of the page's B-block (64th of the slice), 0 to 63.
    pub block: u32,
    /// Frame that the page is mapped to.
    pub frame: Frame,
}

impl GapTolerantRadix {
    /// Creates tables without address spaces. `mode` applies to address spaces for which the
    /// operating system does not write the control register GTPTCR.
    pub fn new(mode: GapTolerance) -> Self {
        let find_entry = move |memory: &TableMemory, control: Option<u64>, node, page| {
            layout::table_entry(memory, control.map_or(mode, mode_of), node, page)
        };
        Self {
            mode,
            modes: Vec::new(),
            radix: Radix::with_directories(Box::new(find_entry)),
            own: CoreState::default(),
            parked: Parked::default(),
            native_fills: 0,
        }
    }

    /// Returns the tables with five levels if `five_levels` is true, else with four.
    #[must_use]
    pub fn with_five_levels(self, five_levels: bool) -> Self {
        Self { radix: self.radix.with_five_levels(five_levels), ..self }
    }

    /// Like [`Self::new`], with a TLB of gap-tolerant entries, of this geometry, that is looked up
    /// in parallel with the second-level TLB.
    pub fn with_native_tlb(mode: GapTolerance, geometry: TlbGeometry) -> Self {
        let native = Some(NativeTlb::new(geometry));
        Self { own: CoreState { native, ..CoreState::default() }, ..Self::new(mode) }
    }

    /// Size of a page-directory node in frames.
    pub(super) fn directory_frames(&self, space: SpaceId) -> u64 {
        1 << self.mode(space).directory_order()
    }

    /// Address of the gap-tolerant entry for `page`, present or not; `None` if no page directory
    /// covers `page`.
    fn place(&self, space: SpaceId, page: VirtualPage) -> Option<PhysicalAddress> {
        let above = self.radix.entry_address(space, page, 3)?;
        let entry = self.radix.memory().entry(above);
        let offset = layout::superpage_offset(self.mode(space), page);
        let is_node = entry.is_present() && !entry.is_large();
        is_node.then(|| entry.frame().address().add(offset))
    }

    /// Address and value of the gap-tolerant entry that maps `page`; `None` if the entry is not
    /// present.
    fn superpage(
        &self,
        space: SpaceId,
        page: VirtualPage,
    ) -> Option<(PhysicalAddress, GapTolerantEntry)> {
        let address = self.place(space, page)?;
        let entry = GapTolerantEntry::read(self.radix.memory(), address);
        entry.is_superpage().then_some((address, entry))
    }

    fn existing_superpage(
        &self,
        space: SpaceId,
        page: VirtualPage,
        mode: GapTolerance,
    ) -> (PhysicalAddress, GapTolerantEntry) {
        self.assert_fits((space, page), mode);
        self.superpage(space, page)
            .unwrap_or_else(|| panic!("{space:?} has no superpage at {page:?}"))
    }

    fn assert_fits(&self, (space, page): (SpaceId, VirtualPage), mode: GapTolerance) {
        assert_eq!(mode, self.mode(space), "the tables are of another mode");
        assert!(page.number().is_multiple_of(mode.entry_pages()), "{page:?} is no entry's first");
    }

    fn map_superpage(&mut self, space: SpaceId, page: VirtualPage, entry: GapTolerantEntry) {
        for region in (0..self.mode(space).entry_pages()).step_by(PageSize::Size2M.pages() as usize)
        {
            let table = self.radix.entry_address(space, page.add(region), 2);
            let taken = table.is_some_and(|place| self.radix.memory().entry(place).is_present());
            assert!(!taken, "{page:?} has a level-1 node");
        }
        let address = self.place(space, page).expect("the space has a page directory there");
        let before = GapTolerantEntry::read(self.radix.memory(), address);
        assert_eq!(before, GapTolerantEntry::default(), "{page:?} is mapped already");
        entry.write(self.radix.memory_mut(), address);
    }

    fn protect_superpage(
        &mut self,
        (address, entry): (PhysicalAddress, GapTolerantEntry),
        permissions: Permissions,
    ) {
        let first = entry.first.with_permissions(permissions);
        GapTolerantEntry { first, ..entry }.write(self.radix.memory_mut(), address);
    }

    /// Applies an operation to a gap-tolerant entry of the page tables.
    fn write_superpage(&mut self, operation: &SuperpageOperation) {
        match *operation {
            SuperpageOperation::Map {
                space,
                page,
                mode,
                slice,
                second,
                selection,
                permissions,
            } => {
                self.assert_fits((space, page), mode);
                assert!(mode.is_paired() || slice == second, "a single entry has one slice");
                let entry = GapTolerantEntry::new(mode, [slice, second], selection, permissions);
                let is_whole = slice == second && entry.is_self_paired(mode);
                let wanted = if is_whole { SLICE_BLOCKS } else { SUPERPAGE_BLOCKS };
                assert_eq!(selection.count_ones(), wanted, "B-blocks of {selection:#x}");
                self.map_superpage(space, page, entry);
            }
            SuperpageOperation::Unmap { space, page, mode } => {
                let (address, _) = self.existing_superpage(space, page, mode);
                GapTolerantEntry::default().write(self.radix.memory_mut(), address);
            }
            SuperpageOperation::Protect { space, page, mode, permissions } => {
                let found = self.existing_superpage(space, page, mode);
                self.protect_superpage(found, permissions);
            }
        }
    }

    fn add_directory(&mut self, operation: &TableOperation, space: SpaceId, frame: Frame) {
        let frames = self.directory_frames(space);
        assert!(frame.number().is_multiple_of(frames), "{frame:?} is no place for a directory");
        (1..frames).for_each(|index| self.radix.memory_mut().clear_frame(frame.add(index)));
        self.radix.write(operation);
    }

    fn remove_directory(&mut self, operation: &TableOperation, space: SpaceId, page: VirtualPage) {
        let entry = self.radix.memory().entry(self.radix.existing_entry(space, page, 3));
        self.radix.write(operation);
        for index in 1..self.directory_frames(space) {
            self.radix.memory_mut().clear_frame(entry.frame().add(index));
        }
    }

    /// Mode of an address space's page directories: size of B-blocks (64ths of a slice), single or
    /// paired entries.
    #[inline]
    pub fn mode(&self, space: SpaceId) -> GapTolerance {
        self.modes.get(usize::from(space.0)).copied().flatten().unwrap_or(self.mode)
    }

    /// Writes the control register GTPTCR of an address space, which selects its mode. The address
    /// space must not have tables yet.
    fn set_control(&mut self, operation: &TableOperation, space: SpaceId, control: u64) {
        let index = usize::from(space.0);
        if self.modes.len() <= index {
            self.modes.resize(index + 1, None);
        }
        self.modes[index] = Some(mode_of(control));
        self.radix.write(operation);
    }

    /// Describes the gap-tolerant entry that translates a 4KB page, for reports and tests; `None`
    /// if no such entry does.
    pub fn look_at_superpage(&self, space: SpaceId, page: VirtualPage) -> Option<Superpage> {
        let (address, entry) = self.superpage(space, page)?;
        let selected = LoadedEntry::new(entry).select(self.mode(space), page);
        Some(Superpage {
            entry: address,
            slice: selected.slice,
            selection: entry.selection,
            block: selected.block,
            frame: selected.frame,
        })
    }

    /// Returns the mapping of one page by a loaded gap-tolerant entry. It covers 4KB only, because
    /// TLBs hold 4KB entries (G §3.7).
    pub(super) fn reach_of(
        &self,
        (space, page): (SpaceId, VirtualPage),
        loaded: &LoadedEntry,
    ) -> Reach {
        let first = loaded.entry.first;
        let allows = allow::of_leaf(first.permissions(), first.is_dirty());
        Reach::of_page(loaded.select(self.mode(space), page).frame, allows)
    }

    /// Index of the gap-tolerant entry that covers `page` in its address space.
    pub(super) fn number(&self, space: SpaceId, page: VirtualPage) -> u64 {
        page.number() / self.mode(space).entry_pages()
    }

    /// Keeps a copy of a gap-tolerant entry whose key the walk cache has just filled into `slot`.
    pub(super) fn store_cached(&mut self, slot: u32, request: &WalkRequest, loaded: LoadedEntry) {
        let slot = slot as usize;
        if self.own.cached.len() <= slot {
            self.own.cached.resize_with(slot + 1, CachedEntry::default);
        }
        let number = self.number(request.space, request.page);
        self.own.cached[slot] = CachedEntry { space: request.space, number, loaded };
    }

    /// Sets the dirty bit of a gap-tolerant entry in memory, in the walk cache, and in the TLB of
    /// gap-tolerant entries.
    fn mark_dirty(
        &mut self,
        (space, page): (SpaceId, VirtualPage),
        (address, entry): (PhysicalAddress, GapTolerantEntry),
    ) {
        self.radix.mark_entry(address, entry.first, true);
        let number = self.number(space, page);
        let copies = self.own.cached.iter_mut();
        copies
            .filter(|cached| (cached.space, cached.number) == (space, number))
            .for_each(|cached| cached.loaded.mark_dirty());
        let place = self.entry_place(space, page);
        if let Some(native) = &mut self.own.native {
            native.mark_dirty(place);
        }
    }
}

impl PerCoreHardware for GapTolerantRadix {
    fn set_cores(&mut self, cores: usize) {
        self.parked.set_cores(&self.own, cores);
    }

    fn run_on(&mut self, core: usize) {
        self.parked.run_on(&mut self.own, core);
    }
}

impl Dimension for GapTolerantRadix {
    fn apply(&mut self, operation: &dyn FormatOperation) {
        if let Some(operation) = operation.downcast_ref() {
            return self.write_superpage(operation);
        }
        match operation.downcast_ref() {
            Some(table @ TableOperation::SetControl { space, control }) => {
                self.set_control(table, *space, *control);
            }
            Some(table @ TableOperation::AddNode { level: 2, space, frame, .. }) => {
                self.add_directory(table, *space, *frame);
            }
            Some(table @ TableOperation::RemoveNode { space, level: 2, page, .. }) => {
                self.remove_directory(table, *space, *page);
            }
            Some(TableOperation::Map { size: PageSize::Size2M, .. }) | None => {
                panic!("gap-tolerant page tables cannot hold {operation:?}")
            }
            Some(table) => self.radix.write(table),
        }
    }

    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault> {
        self.walk_tables(&request, walker)
    }

    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let Some((_, entry)) = self.superpage(space, page) else {
            return self.radix.look_at(space, page);
        };
        Some(self.reach_of((space, page), &LoadedEntry::new(entry)))
    }

    fn mark(&mut self, space: SpaceId, page: VirtualPage, mark: Mark) {
        match (self.superpage(space, page), mark) {
            (Some(found), Mark::Dirty) => self.mark_dirty((space, page), found),
            (Some((address, entry)), Mark::Accessed) => {
                // Marks the entries of levels 4 and 3.
                self.radix.mark(space, page, mark);
                self.radix.mark_entry(address, entry.first, false);
            }
            (None, _) => self.radix.mark(space, page, mark),
        }
    }

    fn memory(&self) -> &TableMemory {
        self.radix.memory()
    }

    fn capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        match wanted {
            CapabilityKind::SidebandTlb if self.own.native.is_some() => {
                Some(Capability::SidebandTlb(self))
            }
            CapabilityKind::CachedLeaves => Some(Capability::CachedLeaves(self.mode.entry_pages())),
            CapabilityKind::PerCoreHardware => Some(Capability::PerCoreHardware(self)),
            CapabilityKind::Part(part) if part == TypeId::of::<Self>() => {
                Some(Capability::Part(self))
            }
            _ => None,
        }
    }

    fn capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        match wanted {
            CapabilityKind::SidebandTlb if self.own.native.is_some() => {
                Some(CapabilityMut::SidebandTlb(self))
            }
            CapabilityKind::PerCoreHardware => Some(CapabilityMut::PerCoreHardware(self)),
            CapabilityKind::Part(part) if part == TypeId::of::<Self>() => {
                Some(CapabilityMut::Part(self))
            }
            _ => None,
        }
    }
}
