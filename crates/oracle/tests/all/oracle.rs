//! Tests of every kind of truth with hand-made cases, and of random truths against a plain map of
//! 4KB pages.

use std::collections::BTreeMap;

use perforate_oracle::{Oracle, Reason};
use perforate_types::{
    AccessKind, Frame, PageRun, Permissions, PhysicalAddress, SpaceId, Truth, VirtualAddress,
    VirtualPage,
};
use proptest::prelude::*;

const SPACE: SpaceId = SpaceId(3);
const RW: Permissions = Permissions::READ_WRITE;

fn page(number: u64) -> VirtualPage {
    VirtualPage::new(number)
}

fn run(first: u64, pages: u64) -> PageRun {
    PageRun::new(SPACE, page(first), pages)
}

fn map(first: u64, pages: u64, frame: u64) -> Truth {
    Truth::Map { run: run(first, pages), frame: Frame::new(frame), permissions: RW }
}

fn unmap(first: u64, pages: u64) -> Truth {
    Truth::Unmap { run: run(first, pages) }
}

fn protect(first: u64, pages: u64, permissions: Permissions) -> Truth {
    Truth::Protect { run: run(first, pages), permissions }
}

fn oracle(truths: &[Truth]) -> Oracle {
    let mut oracle = Oracle::new();
    for truth in truths {
        oracle.apply(truth).expect("consistent");
    }
    oracle
}

fn frame_of(oracle: &Oracle, number: u64) -> Option<u64> {
    oracle.translate(SPACE, page(number)).map(|(frame, _)| frame.number())
}

/// Returns the first page, number of pages and first frame of every extent.
fn extents(oracle: &Oracle) -> Vec<(u64, u64, u64)> {
    let numbers = |extent: &perforate_oracle::Extent| {
        (extent.page.number(), extent.pages, extent.frame.number())
    };
    oracle.extents(SPACE).map(numbers).collect()
}

#[test]
fn runs_are_linear_inside_and_absent_outside() {
    let oracle = oracle(&[map(7, 1, 99), map(512, 512, 1024), map(1 << 18, 1 << 18, 3 << 18)]);
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
fn parts_of_a_run_go_and_come_back() {
    let mut oracle = oracle(&[map(512, 512, 1024)]);
    for (truth, number, expected) in [
        (unmap(513, 1), 513, None),
        (map(513, 1, 77), 513, Some(77)),
        (unmap(512, 2), 512, None),
        (map(512, 2, 1024), 513, Some(1025)),
        (unmap(1023, 1), 1023, None),
        (unmap(512, 511), 700, None),
    ] {
        oracle.apply(&truth).expect("consistent");
        assert_eq!(frame_of(&oracle, number), expected, "{truth:?}");
    }
    assert_eq!(oracle.mappings(SPACE).count(), 0);
}

/// Adjacent pages with consecutive frames become one extent, in any order of the truths.
#[test]
fn there_is_one_entry_for_each_run() {
    let mut oracle = oracle(&[map(10, 1, 100), map(12, 1, 102)]);
    assert_eq!(extents(&oracle), [(10, 1, 100), (12, 1, 102)]);
    oracle.apply(&map(11, 1, 101)).unwrap();
    assert_eq!(extents(&oracle), [(10, 3, 100)]);
    oracle.apply(&map(13, 2, 50)).unwrap();
    assert_eq!(extents(&oracle), [(10, 3, 100), (13, 2, 50)], "its frames do not follow");
    oracle.apply(&protect(11, 1, Permissions::READ)).unwrap();
    assert_eq!(extents(&oracle), [(10, 1, 100), (11, 1, 101), (12, 1, 102), (13, 2, 50)]);
    oracle.apply(&protect(10, 4, Permissions::READ)).unwrap();
    assert_eq!(extents(&oracle), [(10, 3, 100), (13, 1, 50), (14, 1, 51)]);
    assert_eq!(oracle.translate(SPACE, page(14)), Some((Frame::new(51), RW)));
}

#[test]
fn contradictions_are_refused_and_change_nothing() {
    let base = [map(512, 512, 1024), map(2048, 1, 9)];
    for (truth, reason) in [
        (map(513, 1, 1), Reason::Mapped),
        (map(511, 2, 1), Reason::Mapped),
        (map(2040, 600, 512), Reason::Mapped),
        (map(7, 0, 1), Reason::Empty),
        (map(1, u64::MAX, 0), Reason::TooLong),
        (map(1, 2, (1 << 52) - 1), Reason::TooLong),
        (unmap(4096, 1), Reason::NotMapped),
        (unmap(511, 2), Reason::NotMapped),
        (unmap(1023, 2), Reason::NotMapped),
        (unmap(512, 1537), Reason::NotMapped),
        (protect(600, 513, RW), Reason::NotMapped),
    ] {
        let mut oracle = oracle(&base);
        let error = oracle.apply(&truth).expect_err("a contradiction");
        assert_eq!(error.reason, reason, "{truth:?}");
        assert_eq!(extents(&oracle), [(512, 512, 1024), (2048, 1, 9)]);
    }
    let error = oracle(&base).apply(&unmap(2047, 2)).unwrap_err().to_string();
    let expected = "unmapping 2 pages from va-page:0x7ff on in address space 3: \
                    part of them is not mapped";
    assert_eq!(error, expected);
}

#[test]
fn check_names_the_difference() {
    let mut oracle = oracle(&[map(512, 512, 1024), map(7, 1, 9)]);
    let address = VirtualAddress::new(0x20_1234);
    let right = PhysicalAddress::new(0x40_1234);
    let check = |oracle: &mut Oracle, kind, got| oracle.check(SPACE, address, kind, got);
    for _ in 0..2 {
        // The second iteration is answered from the cache.
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
    oracle.apply(&unmap(512, 512)).unwrap();
    let stale = check(&mut oracle, AccessKind::Read, Some(right)).unwrap_err().to_string();
    assert_eq!(stale, "read of 0x201234 in address space 3: expected a fault, got 0x401234");
}

/// A change of more 2MB regions than the cache has entries invalidates all cached answers.
#[test]
fn a_long_run_forgets_all_answers() {
    let gigabytes = 64 << 18;
    let mut oracle = oracle(&[map(0, gigabytes, 0)]);
    let address = VirtualAddress::new(5 << 30);
    let got = Some(PhysicalAddress::new(5 << 30));
    assert_eq!(oracle.check(SPACE, address, AccessKind::Read, got), Ok(()));
    oracle.apply(&unmap(0, gigabytes)).unwrap();
    assert_eq!(oracle.check(SPACE, address, AccessKind::Read, None), Ok(()));
}

/// A random truth about few pages, so that contradictions are common.
fn truth() -> impl Strategy<Value = Truth> {
    let number = (0..3u64, 0..5u64).prop_map(|(region, index)| region * 512 + index * 100);
    let pages = prop_oneof![Just(1u64), Just(100), Just(112), Just(512), 1..700u64];
    let frame = prop_oneof![(0..4u64).prop_map(|block| block * 512), 0..2000u64];
    let permissions = prop_oneof![
        Just(RW),
        Just(Permissions::READ),
        (any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(write, execute, user)| Permissions { write, execute, user }),
    ];
    prop_oneof![
        (number.clone(), pages.clone(), frame).prop_map(|(n, pages, f)| map(n, pages, f)),
        // A mapping that continues the region before it.
        (number.clone(), pages.clone()).prop_map(|(n, pages)| map(n, pages, n + 4096)),
        (number.clone(), pages.clone()).prop_map(|(n, pages)| unmap(n, pages)),
        (number, pages, permissions).prop_map(|(n, pages, p)| protect(n, pages, p)),
    ]
}

/// Applies a truth to a plain map of pages; returns false if it contradicts the map.
fn apply_to_plain_map(pages: &mut BTreeMap<u64, (u64, Permissions)>, truth: &Truth) -> bool {
    let numbers = truth.run().numbers();
    let mapped = numbers.clone().filter(|number| pages.contains_key(number)).count() as u64;
    let fits = match truth {
        Truth::Map { .. } => mapped == 0,
        Truth::Unmap { .. } | Truth::Protect { .. } => mapped == truth.run().pages,
    };
    if !fits {
        return false;
    }
    for (index, number) in numbers.enumerate() {
        match *truth {
            Truth::Map { frame, permissions, .. } => {
                pages.insert(number, (frame.number() + index as u64, permissions));
            }
            Truth::Unmap { .. } => drop(pages.remove(&number)),
            Truth::Protect { permissions, .. } => {
                pages.get_mut(&number).expect("mapped").1 = permissions;
            }
        }
    }
    true
}

proptest! {
    #[test]
    fn agrees_with_a_plain_map_of_pages(truths in prop::collection::vec(truth(), 1..60)) {
        let mut oracle = Oracle::new();
        let mut pages = BTreeMap::new();
        for truth in &truths {
            prop_assert_eq!(oracle.apply(truth).is_ok(), apply_to_plain_map(&mut pages, truth));
            for number in (0..4).flat_map(|region| [0, 1, 99, 100, 300, 511].map(|i| region * 512 + i)) {
                let mapping =
                    pages.get(&number).map(|&(frame, allows)| (Frame::new(frame), allows));
                prop_assert_eq!(oracle.translate(SPACE, page(number)), mapping);
                let address = page(number).address().add(5);
                for kind in [AccessKind::Read, AccessKind::Write, AccessKind::Fetch] {
                    let allowed = mapping.filter(|(_, permissions)| permissions.allow(kind));
                    let got = allowed.map(|(frame, _)| frame.address().add(5));
                    for _ in 0..2 {
                        prop_assert!(oracle.check(SPACE, address, kind, got).is_ok());
                    }
                }
                prop_assert_eq!(oracle.expected(SPACE, page(number)), mapping);
            }
        }
        let listed: BTreeMap<_, _> =
            oracle.mappings(SPACE).map(|(p, (f, allows))| (p.number(), (f.number(), allows))).collect();
        prop_assert_eq!(&listed, &pages);
        let continues = |(one, next): (&perforate_oracle::Extent, &perforate_oracle::Extent)| {
            one.end() == next.page
                && one.frame.add(one.pages) == next.frame
                && one.permissions == next.permissions
        };
        prop_assert!(!oracle.extents(SPACE).zip(oracle.extents(SPACE).skip(1)).any(continues));
    }
}
