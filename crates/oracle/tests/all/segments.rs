//! Segments by hand: pages 1000–2999 on frames 50000–51999.

use perforate_oracle::{Oracle, Reason};
use perforate_types::{
    AccessKind, Frame, MappingChange, PageSize, Permissions, PhysicalAddress, SpaceId,
    VirtualAddress, VirtualPage,
};

const SPACE: SpaceId = SpaceId(3);
const RW: Permissions = Permissions::READ_WRITE;
const P4K: PageSize = PageSize::Size4K;

fn page(number: u64) -> VirtualPage {
    VirtualPage::new(number)
}

fn segment() -> MappingChange {
    let (page, frame) = (page(1000), Frame::new(50_000));
    MappingChange::Segment { space: SPACE, page, pages: 2000, frame, permissions: RW }
}

fn map(first: u64, size: PageSize, frame: u64) -> MappingChange {
    let (page, frame) = (page(first), Frame::new(frame));
    MappingChange::Map { space: SPACE, page, size, frame, permissions: RW }
}

fn unmap(first: u64) -> MappingChange {
    MappingChange::Unmap { space: SPACE, page: page(first), size: P4K }
}

fn escape(number: u64) -> MappingChange {
    MappingChange::Escape { space: SPACE, page: page(number) }
}

fn clear() -> MappingChange {
    MappingChange::ClearSegment { space: SPACE }
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

fn reason(oracle: &mut Oracle, change: &MappingChange) -> Reason {
    oracle.apply(change).expect_err("contradicts").reason
}

#[test]
fn a_segment_is_linear_inside_and_absent_outside() {
    let oracle = oracle(&[segment()]);
    assert_eq!(frame_of(&oracle, 999), None);
    assert_eq!(frame_of(&oracle, 1000), Some(50_000));
    assert_eq!(frame_of(&oracle, 2999), Some(51_999));
    assert_eq!(frame_of(&oracle, 3000), None);
    assert_eq!(oracle.translate(SpaceId(4), page(1000)), None, "another address space");
    assert_eq!(oracle.mappings(SPACE).count(), 2000);
}

#[test]
fn an_escaped_page_is_translated_by_paging_alone() {
    let mut oracle = oracle(&[segment(), escape(1500)]);
    assert_eq!(frame_of(&oracle, 1500), None);
    assert_eq!(frame_of(&oracle, 1501), Some(50_501));
    oracle.apply(&map(1500, P4K, 7)).unwrap();
    assert_eq!(frame_of(&oracle, 1500), Some(7));
    oracle.apply(&unmap(1500)).unwrap();
    assert_eq!(frame_of(&oracle, 1500), None);
    let listed: Vec<u64> = oracle.mappings(SPACE).map(|(page, _)| page.number()).collect();
    assert_eq!(listed.len(), 1999);
    assert!(!listed.contains(&1500));
    assert_eq!(reason(&mut oracle, &escape(1500)), Reason::AlreadyEscaped);
    assert_eq!(reason(&mut oracle, &escape(3000)), Reason::NotInSegment);
    // Set anew, nothing has escaped.
    oracle.apply(&segment()).unwrap();
    assert_eq!(frame_of(&oracle, 1500), Some(50_500));
}

#[test]
fn paging_inside_agrees_with_the_segment() {
    let mut oracle = oracle(&[segment(), escape(1500)]);
    assert_eq!(reason(&mut oracle, &map(1600, P4K, 7)), Reason::SegmentDiffers(page(1600)));
    oracle.apply(&map(1600, P4K, 50_600)).unwrap();
    let read = MappingChange::Protect {
        space: SPACE,
        page: page(1600),
        size: P4K,
        permissions: Permissions::READ,
    };
    assert_eq!(reason(&mut oracle, &read), Reason::SegmentDiffers(page(1600)));
    // A hole that somebody maps in a 2MB page is no exception; nor is a 2MB page that lies with a
    // part inside: 512–1023, of which 1000–1023 are.
    let large = map(512, PageSize::Size2M, 1024);
    assert_eq!(reason(&mut oracle, &large), Reason::SegmentDiffers(page(1000)));
    assert_eq!(frame_of(&oracle, 1600), Some(50_600), "errors have no effect");
    oracle.apply(&escape(1600)).unwrap();
    oracle.apply(&read).unwrap();
    assert_eq!(oracle.translate(SPACE, page(1600)), Some((Frame::new(50_600), Permissions::READ)));
}

#[test]
fn a_congruent_2mb_page_may_lie_inside() {
    // 2MB pages of 1024–2047 lie in place if the segment is congruent: page 1024 on frame 51200.
    let segment = MappingChange::Segment {
        space: SPACE,
        page: page(1000),
        pages: 2000,
        frame: Frame::new(51_200 - 24),
        permissions: RW,
    };
    let mut oracle = oracle(&[segment, map(1024, PageSize::Size2M, 51_200)]);
    let elsewhere = map(1536, PageSize::Size2M, 1024);
    assert_eq!(reason(&mut oracle, &elsewhere), Reason::SegmentDiffers(page(1536)));
    assert_eq!(oracle.mappings(SPACE).count(), 2000, "pages of both count once");
    oracle.apply(&clear()).unwrap();
    assert_eq!(oracle.mappings(SPACE).count(), 512);
}

#[test]
fn pages_mapped_elsewhere_escape_with_the_segment() {
    // In place, elsewhere, outside.
    let before = [map(1100, P4K, 50_100), map(1200, P4K, 9), map(20, P4K, 10)];
    let mut oracle = oracle(&before);
    oracle.apply(&segment()).unwrap();
    let other = map(21, P4K, 11);
    assert_eq!(reason(&mut oracle, &other), Reason::SegmentDiffers(page(1200)));
    oracle.apply(&escape(1200)).unwrap();
    oracle.apply(&other).unwrap();
    let frames = [1100, 1200, 20, 21].map(|number| frame_of(&oracle, number));
    assert_eq!(frames, [Some(50_100), Some(9), Some(10), Some(11)]);
}

#[test]
fn without_the_segment_paging_is_all_there_is() {
    let mut oracle = oracle(&[segment(), map(1100, P4K, 50_100), escape(1200), clear()]);
    assert_eq!(frame_of(&oracle, 1100), Some(50_100));
    assert_eq!(frame_of(&oracle, 1101), None);
    assert_eq!(reason(&mut oracle, &clear()), Reason::NoSegment);
    assert_eq!(reason(&mut oracle, &escape(1100)), Reason::NoSegment);
    oracle.apply(&map(1200, P4K, 9)).unwrap();
    oracle.apply(&map(1201, P4K, 9)).unwrap();
}

#[test]
fn impossible_segments_are_refused() {
    let mut oracle = Oracle::new();
    let of = |pages, frame| MappingChange::Segment {
        space: SPACE,
        page: page(1000),
        pages,
        frame: Frame::new(frame),
        permissions: RW,
    };
    assert_eq!(reason(&mut oracle, &of(0, 5)), Reason::EmptySegment);
    assert_eq!(reason(&mut oracle, &of(u64::MAX, 5)), Reason::SegmentTooLong);
    assert_eq!(reason(&mut oracle, &of(10, (1 << 52) - 9)), Reason::SegmentTooLong);
    oracle.apply(&of(10, (1 << 52) - 10)).unwrap();
}

#[test]
fn answers_given_before_are_forgotten() {
    let mut oracle = Oracle::new();
    let address = VirtualAddress::new(1500 << 12 | 0x123);
    let physical = |frame: u64| Some(PhysicalAddress::new(frame << 12 | 0x123));
    let check = |oracle: &mut Oracle, got| {
        oracle.check(SPACE, address, AccessKind::Write, got).expect("the answer now");
    };
    check(&mut oracle, None);
    for (change, answer) in [
        (map(1500, P4K, 50_500), physical(50_500)),
        (unmap(1500), None),
        (segment(), physical(50_500)),
        (escape(1500), None),
        (segment(), physical(50_500)),
        (clear(), None),
    ] {
        oracle.apply(&change).unwrap();
        check(&mut oracle, answer);
        check(&mut oracle, answer);
    }
}
