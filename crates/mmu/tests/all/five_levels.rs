//! Page tables of five levels (57-bit addresses), worked out by hand.

use perforate_mmu::{Host, Mmu, MmuConfig, Nested, Radix, TlbGeometry, WalkCacheConfig};
use perforate_types::{
    AccessKind, Action, Frame, PageSize, Permissions, Purpose, SpaceId, Step, Steps,
    TableOperation, VirtualPage,
};

const SPACE: SpaceId = SpaceId(1);
const MACHINE: SpaceId = SpaceId(2);
/// A page whose indices in the tables are 3, 4, 5, 6 and 7, from level 5 on.
const PAGE: VirtualPage = VirtualPage::new(3 << 36 | 4 << 27 | 5 << 18 | 6 << 9 | 7);
const RW: Permissions = Permissions::READ_WRITE;
const SIZE: PageSize = PageSize::Size4K;

fn config(walk_cache: WalkCacheConfig) -> MmuConfig {
    let small = TlbGeometry { entries: 4, ways: 4 };
    MmuConfig { walk_cache, ..MmuConfig::plain(small, small) }
}

/// Adds the tables of all levels for a page, in frames `frame` and 1 to 4 above it, root first.
fn add_nodes(apply: &mut dyn FnMut(TableOperation), space: SpaceId, page: VirtualPage, frame: u64) {
    for (level, frame) in (1..=5).rev().zip(frame..) {
        let shift = 9 * u32::from(level);
        let first = if level == 5 { 0 } else { page.number() >> shift << shift };
        let (page, frame) = (VirtualPage::new(first), Frame::new(frame));
        apply(TableOperation::AddNode { space, level, page, frame, branch: 0 });
    }
}

fn map(space: SpaceId, page: VirtualPage, frame: u64) -> TableOperation {
    let frame = Frame::new(frame);
    TableOperation::Map { space, page, size: SIZE, frame, permissions: RW }
}

fn tables() -> Box<Radix> {
    Box::new(Radix::new().with_five_levels(true))
}

/// A walk reads entry 3 of the root at 0x10, then entries 4 to 7 of the tables at 0x11 to 0x14.
#[test]
fn a_walk_reads_five_entries() {
    let mut mmu = Mmu::new(&config(WalkCacheConfig::NONE), tables()).unwrap();
    mmu.switch(SPACE);
    add_nodes(&mut |operation| mmu.apply(&operation.into()), SPACE, PAGE, 0x10);
    mmu.apply(&map(SPACE, PAGE, 0x777).into());
    let mut steps = Steps::new();
    let found = mmu.translate(AccessKind::Read, PAGE.address(), &mut steps).unwrap();
    assert_eq!(found.physical.page(), Frame::new(0x777));
    let address = |step: &Step| match step.action {
        Action::Read { address } => Some(address),
        _ => None,
    };
    let reads: Vec<_> = steps.as_slice().iter().filter_map(address).collect();
    let expected = (0..5).map(|level| Frame::new(0x10 + level).address().add((3 + level) * 8));
    assert_eq!(reads, expected.collect::<Vec<_>>());
    let of_level = |purpose: Purpose| steps.reads()[purpose as usize];
    assert_eq!([of_level(Purpose::Level5), of_level(Purpose::Level4)], [1, 1]);
    assert_eq!(mmu.counters().references.iter().sum::<u64>(), 5);
}

/// An entry of level 4 is cached, so the next walk does not begin at the root.
#[test]
fn a_walk_cache_leaves_out_the_levels_above_it() {
    let caches = WalkCacheConfig::fully_associative(4, 0, 0);
    let mut mmu = Mmu::new(&config(caches), tables()).unwrap();
    mmu.switch(SPACE);
    add_nodes(&mut |operation| mmu.apply(&operation.into()), SPACE, PAGE, 0x10);
    for index in 0..8 {
        mmu.apply(&map(SPACE, PAGE.add(index), 0x777 + index).into());
    }
    let mut reads = |index| {
        let mut steps = Steps::new();
        mmu.translate(AccessKind::Read, PAGE.add(index).address(), &mut steps).unwrap();
        steps.reads().iter().sum::<u8>()
    };
    assert_eq!([reads(0), reads(1)], [5, 3]);
}

/// Six walks of the host, for the guest's five tables and its page, and the guest's five entries.
#[test]
fn a_nested_walk_of_five_by_five_levels_reads_35_entries() {
    let config = config(WalkCacheConfig::NONE);
    let mut config = config;
    config.virtualization.nested_tlb = Some(TlbGeometry { entries: 0, ways: 1 });
    let host = Host::new(&config, tables(), MACHINE);
    let mut mmu = Mmu::new(&config, Box::new(Nested::new(tables(), host))).unwrap();
    mmu.switch(SPACE);
    add_nodes(
        &mut |operation| mmu.apply_host(&operation.into()),
        MACHINE,
        VirtualPage::new(0),
        0x900,
    );
    for guest in 0x10..0x16 {
        mmu.apply_host(&map(MACHINE, VirtualPage::new(guest), 0x4000 + guest).into());
    }
    add_nodes(&mut |operation| mmu.apply(&operation.into()), SPACE, PAGE, 0x10);
    mmu.apply(&map(SPACE, PAGE, 0x15).into());
    let mut steps = Steps::new();
    let found = mmu.translate(AccessKind::Read, PAGE.address(), &mut steps).unwrap();
    assert_eq!(found.physical.page(), Frame::new(0x4015));
    assert_eq!(steps.reads().iter().map(|&reads| u32::from(reads)).sum::<u32>(), 35);
    assert_eq!(steps.reads()[Purpose::HostLevel5 as usize], 6);
}
