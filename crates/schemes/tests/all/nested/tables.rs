//! Hand-made tables of a guest over those of a host.
//!
//! A guest address space maps one 2MB (or 1GB) region at 1GB. Its root is in guest frame 0x10,
//! level 3 in 0x11, level 2 in 0x12 with its shadow in 0x13, and the level-1 node of pages or holes
//! in 0x14. The bitmap of guest frame *n* is at guest address 0x80_0000 + *n* ÷ 8. The tables of
//! space *n* + 1 are 0x10 higher. Hole *n* of the guest has guest frame 0x2000 + *n*.
//!
//! The host has its root in frame 0x50, then 0x51, and 0x52 with its shadow in 0x53. With 4KB
//! pages, it maps the guest's tables to frames 0x400 higher (node 0x54), the guest's bitmaps to
//! frames 0x7000 higher (node 0x55), and the frames of the guest's holes to frames 0x4000 higher
//! (node 0x57). The block of the guest's data is at 0x3000, mapped as each test requests (node
//! 0x56); hole *n* of this block is at 0x9000 + *n*. The host's bitmaps are at 0x100_0000.

use perforate_mmu::{
    BitmapLoading, Case, Dimension, Host, L2Part, Mmu, MmuConfig, Nested, PageFault, Radix,
    RegisteredRun, TlbGeometry, WalkCacheConfig,
};
use perforate_schemes::perforated::PerforatedRadix;
use perforate_schemes::perforated::{HOLE_BRANCH, PerforatedOperation};
use perforate_schemes::segment::{EscapeFilterConfig, Segmented};
use perforate_types::{
    AccessKind, Action, Frame, PageSize, Permissions, PhysicalAddress, Purpose, SpaceId, Steps,
    TableOperation, Unit, Update, VirtualPage,
};

pub const GUEST: SpaceId = SpaceId(1);
/// Address space of the virtual machine in its host.
pub const MACHINE: SpaceId = SpaceId(0);
/// First page of the guest's region.
pub const FIRST: u64 = 1 << 18;
/// Guest frame of the region's data; 1GB pages start at [`DATA_1G`].
pub const DATA: u64 = 0x1000;
pub const DATA_1G: u64 = 0x4_0000;
/// Machine frame of the data's block.
pub const BLOCK: u64 = 0x3000;
pub const BLOCK_1G: u64 = 0x8_0000;

/// Mapping of the data's region in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging<'a> {
    Pages4K,
    Page2M,
    Page1G,
    /// A perforated page with these holes, all allocated.
    Perforated(&'a [u64]),
    Unmapped,
}

use Paging::{Page1G, Page2M, Pages4K, Perforated};

/// Large TLBs, no walk caches; guest-physical addresses are not cached.
pub fn config() -> MmuConfig {
    let mut config = MmuConfig::plain(
        TlbGeometry { entries: 64, ways: 4 },
        TlbGeometry { entries: 1536, ways: 12 },
    );
    config.tlb.l1_data_2m = Some(TlbGeometry { entries: 32, ways: 4 });
    config.tlb.l2_1g = L2Part::Own(TlbGeometry { entries: 16, ways: 4 });
    config.virtualization.nested_tlb = Some(TlbGeometry { entries: 0, ways: 1 });
    config.virtualization.host_walk_cache = Some(WalkCacheConfig::NONE);
    config
}

fn page(number: u64) -> VirtualPage {
    VirtualPage::new(number)
}

pub fn table(space: SpaceId, level: u8, first: u64, frame: u64, branch: u8) -> Update {
    let (page, frame) = (page(first), Frame::new(frame));
    TableOperation::AddNode { space, level, page, frame, branch }.into()
}

pub fn map(space: SpaceId, first: u64, size: PageSize, frame: u64) -> Update {
    let (page, frame) = (page(first), Frame::new(frame));
    TableOperation::Map { space, page, size, frame, permissions: Permissions::ALL }.into()
}

pub fn map_hole(space: SpaceId, number: u64, frame: u64) -> Update {
    let (page, frame) = (page(number), Frame::new(frame));
    PerforatedOperation::MapHole { space, page, frame, permissions: Permissions::ALL }.into()
}

/// Maps a region at `first` to `block`, with level-1 node `node` if needed. Frames of holes start
/// at `holes_at`.
fn region(
    space: SpaceId,
    (first, block, paging): (u64, u64, Paging<'_>),
    (node, holes_at): (u64, u64),
) -> Vec<Update> {
    let mut changes = Vec::new();
    match paging {
        Pages4K => {
            changes.push(table(space, 1, first, node, 0));
            changes.extend(
                (0..512).map(|index| map(space, first + index, PageSize::Size4K, block + index)),
            );
        }
        Page2M => changes.push(map(space, first, PageSize::Size2M, block)),
        Page1G => changes.push(map(space, first, PageSize::Size1G, block)),
        Perforated(holes) => {
            changes.push(table(space, 1, first, node, HOLE_BRANCH));
            let perforate = PerforatedOperation::Perforate {
                space,
                page: page(first),
                block: Frame::new(block),
                permissions: Permissions::ALL,
                holes: holes.iter().map(|&hole| hole as usize).collect(),
            };
            changes.push(perforate.into());
            changes
                .extend(holes.iter().map(|&hole| map_hole(space, first + hole, holes_at + hole)));
        }
        Paging::Unmapped => {}
    }
    changes
}

/// Tables and mappings of a guest address space whose data are at guest frame `data`.
pub fn guest_changes(space: SpaceId, paging: Paging<'_>, data: u64) -> Vec<Update> {
    let tables = 0x10 * u64::from(space.0);
    let mut changes = vec![table(space, 4, 0, tables, 0), table(space, 3, 0, tables + 1, 0)];
    if paging != Page1G {
        changes.push(table(space, 2, FIRST, tables + 2, 0));
    }
    changes.extend(region(space, (FIRST, data, paging), (tables + 4, 0x2000)));
    changes
}

/// Tables and mappings of the host.
pub fn host_changes(paging: Paging<'_>, data: u64) -> Vec<Update> {
    let space = MACHINE;
    let mut changes = vec![
        table(space, 4, 0, 0x50, 0),
        table(space, 3, 0, 0x51, 0),
        table(space, 2, 0, 0x52, 0),
        table(space, 1, 0, 0x54, 0),
        table(space, 1, 0x800, 0x55, 0),
        table(space, 1, 0x2000, 0x57, 0),
    ];
    let small = |frames: std::ops::Range<u64>, above: u64| {
        frames.map(move |frame| map(space, frame, PageSize::Size4K, frame + above))
    };
    changes.extend(small(0..0x40, 0x400));
    changes.extend(small(0x800..0x810, 0x7000));
    changes.extend(small(0x2000..0x2200, 0x4000));
    if data == DATA_1G && paging != Page1G {
        changes.push(table(space, 2, DATA_1G, 0x5a, 0));
    }
    let block = if paging == Page1G { BLOCK_1G } else { BLOCK };
    changes.extend(region(space, (data, block, paging), (0x56, 0x9000)));
    changes
}

fn tables(paging: Paging<'_>, bitmaps: u64) -> Box<dyn Dimension> {
    match paging {
        Perforated(_) => {
            let bitmaps = PhysicalAddress::new(bitmaps);
            Box::new(PerforatedRadix::new(bitmaps, BitmapLoading::Filtered))
        }
        _ => Box::new(Radix::new()),
    }
}

/// A guest over a host, each optionally with direct segments. A register may hold the location of
/// some of the guest's memory.
pub fn pair_with_segments(
    config: &MmuConfig,
    (guest, host): (Paging<'_>, Paging<'_>),
    (guest_segments, host_segments): (bool, bool),
    data: u64,
    registered: Option<RegisteredRun>,
) -> Mmu {
    let with = |segments: bool, paging: Box<dyn Dimension>| -> Box<dyn Dimension> {
        if segments {
            Box::new(Segmented::new(paging, EscapeFilterConfig::default()))
        } else {
            paging
        }
    };
    let host_tables = with(host_segments, tables(host, 0x100_0000));
    let machine = Host::new(config, host_tables, MACHINE);
    let guest_tables = with(guest_segments, tables(guest, 0x80_0000));
    let dimension = Nested::new(guest_tables, machine);
    let mut mmu = Mmu::new(config, Box::new(dimension)).unwrap();
    mmu.switch(GUEST);
    guest_changes(GUEST, guest, data).into_iter().for_each(|change| apply(&mut mmu, change));
    host_changes(host, data).into_iter().for_each(|change| apply_host(&mut mmu, change));
    if let Some(run) = registered {
        mmu.set_register(run);
    }
    mmu
}

pub fn pair_at(config: &MmuConfig, guest: Paging<'_>, host: Paging<'_>, data: u64) -> Mmu {
    pair_with_segments(config, (guest, host), (false, false), data, None)
}

pub fn pair(guest: Paging<'_>, host: Paging<'_>) -> Mmu {
    pair_at(&config(), guest, host, DATA)
}

pub fn apply(mmu: &mut Mmu, change: impl Into<Update>) {
    mmu.apply(&change.into());
}

pub fn apply_host(mmu: &mut Mmu, change: impl Into<Update>) {
    mmu.apply_host(&change.into());
}

/// Physical frame, case, and true if a walk found the page.
pub type Outcome = Result<(u64, Case, bool), PageFault>;

/// Accesses sub-page `index` of the region.
pub fn access(mmu: &mut Mmu, kind: AccessKind, index: u64) -> (Outcome, Steps) {
    let mut steps = Steps::new();
    let result = mmu.translate(kind, page(FIRST + index).address(), &mut steps);
    let outcome = result.map(|found| (found.physical.page().number(), found.case, found.walked));
    (outcome, steps)
}

/// Frame that a load finds.
pub fn load(mmu: &mut Mmu, index: u64) -> Result<u64, PageFault> {
    access(mmu, AccessKind::Read, index).0.map(|(frame, ..)| frame)
}

pub fn store(mmu: &mut Mmu, index: u64) -> Result<u64, PageFault> {
    access(mmu, AccessKind::Write, index).0.map(|(frame, ..)| frame)
}

/// Look-ups and reads as short words, without fills and misses of walk caches.
pub fn story(steps: &Steps) -> Vec<String> {
    let unit_name = |unit: Unit| match unit {
        Unit::L2Tlb => "l2",
        Unit::NestedTlb => "nested tlb",
        Unit::WalkCache => "walk cache",
        Unit::HostWalkCache => "host walk cache",
        Unit::L1DataTlb | Unit::L1InstructionTlb => "l1",
        Unit::SidebandTlb | Unit::HostSidebandTlb => "unit",
    };
    let what = |purpose: Purpose| match purpose {
        Purpose::Page | Purpose::Hole => "",
        Purpose::HostPage => "host ",
        Purpose::Bitmap => "bitmap ",
        Purpose::HostBitmap => "host bitmap ",
        _ => "?",
    };
    let word = |purpose: Purpose, action: Action| match action {
        Action::Miss { unit: Unit::WalkCache | Unit::HostWalkCache } => String::new(),
        Action::Hit { unit: unit @ (Unit::WalkCache | Unit::HostWalkCache), .. } => {
            format!("{} hit", unit_name(unit))
        }
        Action::Hit { unit, .. } => format!("{}{} hit", what(purpose), unit_name(unit)),
        Action::Miss { unit } => format!("{}{} miss", what(purpose), unit_name(unit)),
        Action::Read { address } => format!("{purpose:?} {address:x}"),
        Action::Check => format!("{}check", what(purpose)),
        Action::Select => "selected".into(),
        Action::Fill { .. } => String::new(),
    };
    let words = steps.as_slice().iter().map(|step| word(step.purpose, step.action));
    words.filter(|word| !word.is_empty()).collect()
}
