//! Shared setup of the tests: an MMU with one address space, and short names for changes.

use perforate_mmu::{Dimension, Mmu, MmuConfig, PageFault, TlbGeometry, WalkCacheConfig};
use perforate_schemes::gap_tolerant::GapTolerantRadix;
use perforate_schemes::gap_tolerant::SuperpageOperation;
use perforate_types::{
    AccessKind, Action, Frame, GapTolerance, Level, PageSize, Permissions, PhysicalAddress,
    Purpose, Shootdown, SpaceId, Steps, TableOperation, Update, VirtualAddress, VirtualPage,
};

pub const SPACE: SpaceId = SpaceId(1);
pub const RW: Permissions = Permissions::READ_WRITE;
/// First page that the tests map: 1GB.
pub const START: u64 = 1 << 18;
/// Frames of the nodes of levels 4, 3 and 2. The last node has up to four frames.
pub const ROOT: u64 = 0x10;
pub const LEVEL3: u64 = 0x11;
pub const DIRECTORY: u64 = 0x14;

/// A selection of 32 B-blocks: bits 1, 3, 5 … of the low half, and the even bits of the high half.
pub const SELECTION: u64 = 0x5555_5555_aaaa_aaaa;

pub fn page(index: u64) -> VirtualPage {
    VirtualPage::new(START + index)
}

pub fn table(level: Level, index: u64, frame: u64) -> Update {
    let frame = Frame::new(frame);
    let page = if level > 2 { VirtualPage::new(0) } else { page(index) };
    TableOperation::AddNode { space: SPACE, level, page, frame, branch: 0 }.into()
}

pub fn map(index: u64, frame: u64) -> Update {
    let (page, frame, size) = (page(index), Frame::new(frame), PageSize::Size4K);
    TableOperation::Map { space: SPACE, page, size, frame, permissions: RW }.into()
}

/// Maps an entry with two slices.
pub fn pair(mode: GapTolerance, index: u64, slices: [u64; 2], selection: u64) -> Update {
    let [slice, second] = slices.map(Frame::new);
    let (page, permissions) = (page(index), RW);
    SuperpageOperation::Map { space: SPACE, page, mode, slice, second, selection, permissions }
        .into()
}

/// Maps an entry with one slice.
pub fn superpage(mode: GapTolerance, index: u64, slice: u64, selection: u64) -> Update {
    pair(mode, index, [slice, slice], selection)
}

pub fn unmap_superpage(mode: GapTolerance, index: u64) -> Update {
    SuperpageOperation::Unmap { space: SPACE, page: page(index), mode }.into()
}

pub fn gone(mode: GapTolerance, index: u64) -> Update {
    Shootdown::Superpage { space: SPACE, page: page(index), mode }.into()
}

pub fn config(level2_entries: usize) -> MmuConfig {
    let geometry = |entries| TlbGeometry { entries, ways: 4 };
    let mut config = MmuConfig::plain(geometry(16), geometry(64));
    config.tlb.l1_data_2m = Some(geometry(16));
    config.walk_cache = WalkCacheConfig::fully_associative(
        level2_entries.min(2),
        level2_entries.min(4),
        level2_entries,
    );
    config
}

/// Nodes of levels 4 to 2, without mappings.
pub fn nodes() -> [Update; 3] {
    [table(4, 0, ROOT), table(3, 0, LEVEL3), table(2, 0, DIRECTORY)]
}

/// Tables after these changes.
pub fn tables(mode: GapTolerance, changes: &[Update]) -> GapTolerantRadix {
    let mut tables = GapTolerantRadix::new(mode);
    nodes().iter().chain(changes).for_each(|change| apply(&mut tables, change));
    tables
}

/// Applies an operation to tables.
pub fn apply(tables: &mut GapTolerantRadix, operation: &Update) {
    tables.apply(operation.operation().expect("an operation on tables"));
}

/// An MMU after these changes, with this many level-2 entries in the walk cache.
pub fn unit(mode: GapTolerance, level2_entries: usize, changes: &[Update]) -> Mmu {
    let dimension = Box::new(tables(mode, changes));
    let mut mmu = Mmu::new(&config(level2_entries), dimension).unwrap();
    mmu.switch(SPACE);
    mmu
}

/// Outcome of one access: frame or fault, reads of the walk with their purposes, and number of
/// B-block selections.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub frame: Result<u64, PageFault>,
    pub reads: Vec<(Purpose, u64)>,
    pub selections: usize,
}

pub fn access(mmu: &mut Mmu, kind: AccessKind, page: VirtualPage) -> Outcome {
    let (mut steps, address) = (Steps::new(), page.address().add(0x123));
    let found = mmu.translate(kind, address, &mut steps);
    let reads = steps.as_slice().iter().filter_map(|step| match step.action {
        Action::Read { address } => Some((step.purpose, address.value())),
        _ => None,
    });
    let reads = reads.collect();
    let selections = steps.as_slice().iter().filter(|step| step.action == Action::Select).count();
    let frame = found.map(|found| {
        assert_eq!(found.physical.value() & 0xfff, 0x123);
        found.physical.page().number()
    });
    Outcome { frame, reads, selections }
}

pub fn load(mmu: &mut Mmu, index: u64) -> Outcome {
    access(mmu, AccessKind::Read, page(index))
}

/// Reads of a walk to the level-2 entry `offset` bytes into the page directory.
pub fn walk_to(offset: u64) -> Vec<(Purpose, u64)> {
    vec![
        (Purpose::Level4, ROOT << 12),
        (Purpose::Level3, (LEVEL3 << 12) + 8),
        (Purpose::Level2, (DIRECTORY << 12) + offset),
    ]
}

pub fn word(dimension: &dyn Dimension, offset: u64) -> u64 {
    dimension.memory().word(PhysicalAddress::new((DIRECTORY << 12) + offset))
}

pub fn address(value: u64) -> VirtualAddress {
    VirtualAddress::new(value)
}
