//! Every change by hand, and random changes against a plain map of 4KB pages.

use std::collections::BTreeMap;

use perforate_oracle::{Oracle, Reason};
use perforate_types::{
    AccessKind, Frame, HoleSet, MappingChange, PageSize, Permissions, PhysicalAddress, SpaceId,
    VirtualAddress, VirtualPage,
};
use proptest::prelude::*;

const SPACE: SpaceId = SpaceId(3);
const RW: Permissions = Permissions::READ_WRITE;

fn page(number: u64) -> VirtualPage {
    VirtualPage::new(number)
}

fn map(first: u64, size: PageSize, frame: u64) -> MappingChange {
    let (page, frame) = (page(first), Frame::new(frame));
    MappingChange::Map { space: SPACE, page, size, frame, permissions: RW }
}

fn perforate(first: u64, block: u64, holes: &[usize]) -> MappingChange {
    MappingChange::Perforate {
        space: SPACE,
        page: page(first),
        block: Frame::new(block),
        permissions: RW,
        holes: holes.iter().copied().collect(),
    }
}

fn map_hole(number: u64, frame: u64, permissions: Permissions) -> MappingChange {
    let (page, frame) = (page(number), Frame::new(frame));
    MappingChange::MapHole { space: SPACE, page, frame, permissions }
}

fn unmap(first: u64, size: PageSize) -> MappingChange {
    MappingChange::Unmap { space: SPACE, page: page(first), size }
}

fn punch(number: u64) -> MappingChange {
    MappingChange::Punch { space: SPACE, page: page(number) }
}

fn patch(number: u64) -> MappingChange {
    MappingChange::Patch { space: SPACE, page: page(number) }
}

fn unmap_hole(number: u64) -> MappingChange {
    MappingChange::UnmapHole { space: SPACE, page: page(number) }
}

fn oracle(changes: &[MappingChange]) -> Oracle {
    let mut oracle = Oracle::new();
    for change in changes {
        oracle.apply(change).expect("consistent");
    }
    oracle
}

fn frame_of(oracle: &Oracle, number: u64) -> Option<u64> {
    oracle.translate(SPACE, page(number)).map(|(frame, _)| frame.number())
}

#[test]
fn pages_of_all_sizes_are_linear_inside_and_absent_outside() {
    let oracle = oracle(&[
        map(7, PageSize::Size4K, 99),
        map(512, PageSize::Size2M, 1024),
        map(1 << 18, PageSize::Size1G, 3 << 18),
    ]);
    assert_eq!(frame_of(&oracle, 6), None);
    assert_eq!(frame_of(&oracle, 7), Some(99));
    assert_eq!(frame_of(&oracle, 8), None);
    assert_eq!(frame_of(&oracle, 511), None);
    assert_eq!(frame_of(&oracle, 512), Some(1024));
    assert_eq!(frame_of(&oracle, 1023), Some(1535));
    assert_eq!(frame_of(&oracle, 1024), None);
    assert_eq!(frame_of(&oracle, (2 << 18) - 1), Some((4 << 18) - 1));
    assert_eq!(oracle.translate(SpaceId(0), page(7)), None, "spaces are apart");
    assert_eq!(oracle.mappings(SPACE).count(), 1 + 512 + (1 << 18));
}

#[test]
fn holes_override_and_patches_restore() {
    let mut oracle = oracle(&[perforate(512, 1024, &[1, 5]), map_hole(513, 77, Permissions::READ)]);
    assert_eq!(frame_of(&oracle, 512), Some(1024));
    assert_eq!(oracle.translate(SPACE, page(513)), Some((Frame::new(77), Permissions::READ)));
    assert_eq!(frame_of(&oracle, 517), None);
    for (change, number, expected) in [
        (unmap_hole(513), 513, None),
        (patch(513), 513, Some(1025)),
        (punch(514), 514, None),
        (map_hole(514, 5, RW), 514, Some(5)),
        (patch(514), 514, Some(1026)),
        (patch(517), 517, Some(1029)),
        (unmap(512, PageSize::Size2M), 512, None),
    ] {
        oracle.apply(&change).expect("consistent");
        assert_eq!(frame_of(&oracle, number), expected, "{change:?}");
    }
    assert_eq!(oracle.holes(SPACE).count(), 0);
}

#[test]
fn protect_changes_the_page_and_not_its_holes() {
    let mut oracle = oracle(&[perforate(512, 1024, &[1]), map_hole(513, 77, RW)]);
    let (first, permissions) = (page(512), Permissions::READ);
    let size = PageSize::Size2M;
    oracle.apply(&MappingChange::Protect { space: SPACE, page: first, size, permissions }).unwrap();
    assert_eq!(oracle.translate(SPACE, page(512)), Some((Frame::new(1024), Permissions::READ)));
    assert_eq!(oracle.translate(SPACE, page(513)), Some((Frame::new(77), RW)));
}

#[test]
fn contradictions_are_refused_and_change_nothing() {
    let base = [perforate(512, 1024, &[1]), map(2048, PageSize::Size4K, 9), map_hole(513, 4, RW)];
    for (change, reason) in [
        (map(513, PageSize::Size4K, 1), Reason::Mapped),
        (map(2048, PageSize::Size2M, 512), Reason::Mapped),
        (map(1, PageSize::Size2M, 512), Reason::PageUnaligned(PageSize::Size2M)),
        (map(4096, PageSize::Size2M, 1), Reason::FrameUnaligned(PageSize::Size2M)),
        (unmap(512, PageSize::Size4K), Reason::NotMapped(PageSize::Size4K)),
        (unmap(4096, PageSize::Size2M), Reason::NotMapped(PageSize::Size2M)),
        (punch(2048), Reason::NotLarge),
        (punch(513), Reason::AlreadyHole),
        (patch(514), Reason::NotHole),
        (map_hole(513, 8, RW), Reason::HoleAllocated),
        (map_hole(514, 8, RW), Reason::NotHole),
        (unmap_hole(514), Reason::NotHole),
        (perforate(4096, 2048, &[]), Reason::NoHoles),
    ] {
        let mut oracle = oracle(&base);
        let before: Vec<_> = oracle.mappings(SPACE).collect();
        let error = oracle.apply(&change).expect_err("a contradiction");
        assert_eq!(error.reason, reason, "{change:?}");
        assert!(!error.to_string().contains('\n'));
        assert_eq!(oracle.mappings(SPACE).collect::<Vec<_>>(), before);
    }
    let error = oracle(&base).apply(&punch(2048)).unwrap_err().to_string();
    assert_eq!(error, "Punch of va-page:0x800 in address space 3: it is not part of a 2MB page");
}

#[test]
fn check_names_the_difference() {
    let mut oracle = oracle(&[map(512, PageSize::Size2M, 1024), map(7, PageSize::Size4K, 9)]);
    let address = VirtualAddress::new(0x20_1234);
    let right = PhysicalAddress::new(0x40_1234);
    let check = |oracle: &mut Oracle, kind, got| oracle.check(SPACE, address, kind, got);
    for _ in 0..2 {
        // The second round is answered from what the first remembered.
        assert_eq!(check(&mut oracle, AccessKind::Read, Some(right)), Ok(()));
        assert_eq!(check(&mut oracle, AccessKind::Fetch, None), Ok(()), "RW is not executable");
        let wrong = check(&mut oracle, AccessKind::Write, Some(PhysicalAddress::new(0x1234)));
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "write of 0x201234 in address space 3: expected 0x401234, got 0x1234"
        );
        let fault = check(&mut oracle, AccessKind::Write, None).unwrap_err().to_string();
        assert_eq!(fault, "write of 0x201234 in address space 3: expected 0x401234, got a fault");
    }
    oracle.apply(&unmap(512, PageSize::Size2M)).unwrap();
    let stale = check(&mut oracle, AccessKind::Read, Some(right)).unwrap_err().to_string();
    assert_eq!(stale, "read of 0x201234 in address space 3: expected a fault, got 0x401234");
}

/// One of few changes on few pages, so that contradictions are common.
fn change() -> impl Strategy<Value = MappingChange> {
    let region = 0..3u64;
    let number = (region.clone(), 0..4u64).prop_map(|(region, index)| region * 512 + index * 100);
    let frame = (0..4u64).prop_map(|block| block * 512);
    prop_oneof![
        (number.clone(), 0..2000u64).prop_map(|(n, f)| map(n, PageSize::Size4K, f)),
        (region.clone(), frame.clone()).prop_map(|(r, f)| map(r * 512, PageSize::Size2M, f)),
        (region.clone(), frame).prop_map(|(r, f)| perforate(r * 512, f, &[0, 100, 511])),
        number.clone().prop_map(|n| unmap(n, PageSize::Size4K)),
        region.prop_map(|r| unmap(r * 512, PageSize::Size2M)),
        number.clone().prop_map(punch),
        number.clone().prop_map(patch),
        (number.clone(), 0..2000u64).prop_map(|(n, f)| map_hole(n, f, RW)),
        number.prop_map(unmap_hole),
    ]
}

/// What is mapped as a plain map of 4KB pages; `None` for an unallocated hole.
fn follow(
    pages: &mut BTreeMap<u64, Option<u64>>,
    blocks: &mut BTreeMap<u64, u64>,
    change: &MappingChange,
) {
    match *change {
        MappingChange::Map { page, size, frame, .. } => {
            pages.extend((0..size.pages()).map(|i| (page.number() + i, Some(frame.number() + i))));
            blocks.insert(page.number(), frame.number());
        }
        MappingChange::Perforate { page, block, holes, .. } => {
            let frame = |i| (!holes.contains(i as usize)).then_some(block.number() + i);
            pages.extend((0..512).map(|i| (page.number() + i, frame(i))));
            blocks.insert(page.number(), block.number());
        }
        MappingChange::Unmap { page, size, .. } => {
            pages.retain(|number, _| {
                !(page.number()..page.add(size.pages()).number()).contains(number)
            });
        }
        MappingChange::Punch { page, .. } | MappingChange::UnmapHole { page, .. } => {
            pages.insert(page.number(), None);
        }
        MappingChange::MapHole { page, frame, .. } => {
            pages.insert(page.number(), Some(frame.number()));
        }
        MappingChange::Patch { page, .. } => {
            let block = blocks[&page.align_down(PageSize::Size2M).number()];
            pages.insert(page.number(), Some(block + page.index_in(PageSize::Size2M) as u64));
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn agrees_with_a_plain_map_of_pages(changes in prop::collection::vec(change(), 1..60)) {
        let mut oracle = Oracle::new();
        let (mut pages, mut blocks) = (BTreeMap::new(), BTreeMap::new());
        for change in &changes {
            if oracle.apply(change).is_ok() {
                follow(&mut pages, &mut blocks, change);
            }
            for number in (0..3).flat_map(|region| [0, 1, 100, 200, 300, 511].map(|i| region * 512 + i)) {
                let expected = pages.get(&number).copied().flatten();
                prop_assert_eq!(frame_of(&oracle, number), expected);
                let address = page(number).address().add(5);
                let got = expected.map(|frame| Frame::new(frame).address().add(5));
                for _ in 0..2 {
                    prop_assert!(oracle.check(SPACE, address, AccessKind::Read, got).is_ok());
                }
            }
        }
        let listed: BTreeMap<_, _> = oracle.mappings(SPACE).map(|(p, (f, _))| (p.number(), f.number())).collect();
        let expected: BTreeMap<_, _> = pages.iter().filter_map(|(&p, &f)| Some((p, f?))).collect();
        prop_assert_eq!(listed, expected);
    }
}

#[test]
fn an_empty_hole_set_is_no_perforated_page() {
    assert!(HoleSet::EMPTY.is_empty());
    assert!(Oracle::new().apply(&perforate(0, 0, &[])).is_err());
}

/// Speed, to be run by hand: `cargo test --release -p perforate-oracle -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn checks_per_second() {
    let mut oracle = Oracle::new();
    for number in 0..524_288 {
        oracle.apply(&map(number, PageSize::Size4K, number)).unwrap();
    }
    let mut random = 1u64;
    let start = std::time::Instant::now();
    let count = 5_000_000;
    for _ in 0..count {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let address = VirtualAddress::new(random >> 33);
        let address = VirtualAddress::new(address.value() & 0x7fff_ffff);
        let got = Some(PhysicalAddress::new(address.value()));
        oracle.check(SPACE, address, AccessKind::Read, got).unwrap();
    }
    let rate = f64::from(count) / start.elapsed().as_secs_f64() / 1e6;
    assert!(rate > 0.0);
    eprintln!("{rate:.1} M checks/s over 2GB of 4KB pages at random");
}
