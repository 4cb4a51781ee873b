//! Gap-tolerant entries: what they translate, and what cannot be (G §3).

use std::collections::BTreeMap;

use perforate_oracle::{Oracle, Reason};
use perforate_types::{
    AccessKind, Frame, GapTolerance, MappingChange, PageSize, Permissions, PhysicalAddress,
    SpaceId, VirtualAddress, VirtualPage,
};
use proptest::prelude::*;

const SPACE: SpaceId = SpaceId(3);
const RW: Permissions = Permissions::READ_WRITE;
/// Bits 1, 3, 5 … of the low half, and the even ones of the high half.
const SELECTION: u64 = 0x5555_5555_aaaa_aaaa;

fn page(number: u64) -> VirtualPage {
    VirtualPage::new(number)
}

fn pair(mode: GapTolerance, first: u64, slices: [u64; 2], selection: u64) -> MappingChange {
    let [slice, second] = slices.map(Frame::new);
    let (page, permissions) = (page(first), RW);
    MappingChange::MapSuperpage { space: SPACE, page, mode, slice, second, selection, permissions }
}

fn superpage(mode: GapTolerance, first: u64, slice: u64) -> MappingChange {
    pair(mode, first, [slice, slice], SELECTION)
}

fn unmap(mode: GapTolerance, first: u64) -> MappingChange {
    MappingChange::UnmapSuperpage { space: SPACE, page: page(first), mode }
}

fn map(first: u64, size: PageSize, frame: u64) -> MappingChange {
    let (page, frame) = (page(first), Frame::new(frame));
    MappingChange::Map { space: SPACE, page, size, frame, permissions: RW }
}

fn oracle(changes: &[MappingChange]) -> Oracle {
    let mut oracle = Oracle::new();
    changes.iter().for_each(|change| oracle.apply(change).expect("consistent"));
    oracle
}

fn frame(oracle: &Oracle, number: u64) -> Option<u64> {
    oracle.translate(SPACE, page(number)).map(|(frame, _)| frame.number())
}

fn refused(changes: &[MappingChange], last: MappingChange) -> Reason {
    let mut oracle = oracle(changes);
    let before: Vec<_> = oracle.mappings(SPACE).collect();
    let reason = oracle.apply(&last).unwrap_err().reason;
    assert_eq!(oracle.mappings(SPACE).collect::<Vec<_>>(), before, "it has no effect");
    reason
}

/// 4MB mode: virtual block 2 is bit 5, block 16 is bit 32, block 31 bit 62; blocks have 32 frames.
#[test]
fn blocks_are_found_by_counting() {
    let mode = GapTolerance::SINGLE_4M;
    let oracle = oracle(&[superpage(mode, 2048, 4096)]);
    assert_eq!(frame(&oracle, 2047), None);
    assert_eq!(frame(&oracle, 2048), Some(4096 + 32));
    assert_eq!(frame(&oracle, 2048 + 2 * 32 + 7), Some(4096 + 5 * 32 + 7));
    assert_eq!(frame(&oracle, 2048 + 16 * 32), Some(4096 + 32 * 32));
    assert_eq!(frame(&oracle, 3071), Some(4096 + 62 * 32 + 31));
    assert_eq!(frame(&oracle, 3072), None);
    assert_eq!(oracle.superpages(SPACE).count(), 1);
    assert_eq!(oracle.mappings(SPACE).count(), 1024);
}

#[test]
fn pairs_have_a_slice_each_or_a_whole_one_together() {
    let mode = GapTolerance::PAIRED_2M;
    let whole = pair(mode, 512, [2048, 2048], u64::MAX);
    let oracle = oracle(&[pair(mode, 0, [1024, 512], SELECTION), whole]);
    assert_eq!(frame(&oracle, 0), Some(1024 + 8));
    assert_eq!(frame(&oracle, 255), Some(1024 + 62 * 8 + 7));
    assert_eq!(frame(&oracle, 256), Some(512 + 8));
    assert_eq!(frame(&oracle, 511), Some(512 + 62 * 8 + 7));
    assert!((0..512).all(|index| frame(&oracle, 512 + index) == Some(2048 + index)));
}

#[test]
fn an_entry_is_protected_and_taken_away_as_a_whole() {
    let mode = GapTolerance::SINGLE_1M;
    let mut oracle = oracle(&[superpage(mode, 0, 512), superpage(mode, 256, 1024)]);
    let check = |oracle: &mut Oracle, number: u64, kind, frame: Option<u64>| {
        let found = frame.map(|frame| PhysicalAddress::new(frame << 12));
        oracle.check(SPACE, VirtualAddress::new(number << 12), kind, found).unwrap();
    };
    check(&mut oracle, 256, AccessKind::Write, Some(1024 + 8));
    let (space, page, permissions) = (SPACE, page(256), Permissions::READ);
    let protect = MappingChange::ProtectSuperpage { space, page, mode, permissions };
    oracle.apply(&protect).unwrap();
    check(&mut oracle, 256, AccessKind::Write, None);
    check(&mut oracle, 256, AccessKind::Read, Some(1024 + 8));
    check(&mut oracle, 0, AccessKind::Write, Some(512 + 8));
    oracle.apply(&unmap(mode, 256)).unwrap();
    check(&mut oracle, 256, AccessKind::Read, None);
    check(&mut oracle, 0, AccessKind::Write, Some(512 + 8));
}

#[test]
fn what_cannot_be_is_refused() {
    let single = GapTolerance::SINGLE_2M;
    let paired = GapTolerance::PAIRED_2M;
    let not = |change| refused(&[], change);
    assert_eq!(not(superpage(single, 256, 0)), Reason::SuperpageUnaligned(single));
    assert_eq!(not(superpage(single, 512, 512)), Reason::SliceUnaligned(single));
    assert_eq!(not(pair(paired, 0, [0, 256], SELECTION)), Reason::SliceUnaligned(paired));
    assert_eq!(not(pair(single, 0, [0, 1024], SELECTION)), Reason::SecondSlice);
    assert_eq!(not(pair(paired, 0, [32768 - 512, 32768], SELECTION)), Reason::TwoChunks);
    let selection = |selected, wanted| Reason::Selection { selected, wanted };
    assert_eq!(not(pair(single, 0, [0, 0], SELECTION & !2)), selection(31, 32));
    assert_eq!(not(pair(single, 0, [0, 0], u64::MAX)), selection(64, 32));
    assert_eq!(not(pair(paired, 0, [0, 0], SELECTION)), selection(32, 64));
    assert_eq!(not(pair(paired, 0, [0, 512], u64::MAX)), selection(64, 32));
    assert_eq!(not(unmap(single, 0)), Reason::NotSuperpage(single));
    let there = [superpage(single, 0, 0)];
    assert_eq!(refused(&there, superpage(single, 0, 1024)), Reason::Mapped);
    assert_eq!(
        refused(&there, unmap(GapTolerance::SINGLE_4M, 0)),
        Reason::NotSuperpage(GapTolerance::SINGLE_4M)
    );
    let other = superpage(GapTolerance::SINGLE_1M, 512, 0);
    assert_eq!(refused(&there, other), Reason::OtherMode(single));
}

/// GTPTCR lets an address space have one kind of large entry; a 2MB region has one kind of entry.
#[test]
fn kinds_of_entries_exclude_each_other() {
    let mode = GapTolerance::SINGLE_1M;
    let large = |first| map(first, PageSize::Size2M, 0);
    let small = |number| map(number, PageSize::Size4K, 1);
    let there = [superpage(mode, 256, 0)];
    assert_eq!(refused(&there, large(1024)), Reason::LargeAndSuperpage);
    assert_eq!(refused(&[large(1024)], there[0].clone()), Reason::LargeAndSuperpage);
    assert_eq!(refused(&there, small(300)), Reason::SharedRegion);
    assert_eq!(refused(&there, small(3)), Reason::SharedRegion);
    assert_eq!(refused(&[small(3)], there[0].clone()), Reason::SharedRegion);
    let wide = GapTolerance::SINGLE_4M;
    assert_eq!(refused(&[small(900)], superpage(wide, 0, 0)), Reason::SharedRegion);
    let gone = MappingChange::Unmap { space: SPACE, page: page(1024), size: PageSize::Size2M };
    let [there] = there;
    let beside = [large(1024), gone, there, small(512)];
    assert_eq!(frame(&oracle(&beside), 512), Some(1));
}

/// Pages below, inside and above a segment, superpages among them, are listed in order.
#[test]
fn a_segment_beside_superpages() {
    let mode = GapTolerance::SINGLE_1M;
    let small = |number| map(number, PageSize::Size4K, 1);
    let (page, pages, frame, permissions) = (page(512), 512, Frame::new(5), RW);
    let segment = MappingChange::Segment { space: SPACE, page, pages, frame, permissions };
    let mut oracle =
        oracle(&[superpage(mode, 1024, 0), superpage(mode, 0, 512), small(2000), segment]);
    let listed: Vec<u64> = oracle.mappings(SPACE).map(|(page, _)| page.number()).collect();
    let expected: Vec<u64> = (0..256).chain(512..1024).chain(1024..1280).chain([2000]).collect();
    assert_eq!(listed, expected);
    let inside = oracle.apply(&superpage(mode, 768, 1024)).unwrap_err();
    assert_eq!(inside.reason, Reason::SegmentDiffers(VirtualPage::new(768)));
}

/// A superpage inside a segment that is set over it must escape page by page.
#[test]
fn a_segment_over_a_superpage_waits_for_its_escapes() {
    let mode = GapTolerance::SINGLE_1M;
    let (page, pages, frame, permissions) = (page(0), 512, Frame::new(5), RW);
    let segment = MappingChange::Segment { space: SPACE, page, pages, frame, permissions };
    let mut oracle = oracle(&[superpage(mode, 256, 512), segment]);
    let early = oracle.apply(&map(1024, PageSize::Size4K, 9)).unwrap_err();
    assert_eq!(early.reason, Reason::SegmentDiffers(VirtualPage::new(256)));
    for index in 256..512 {
        let page = VirtualPage::new(index);
        oracle.apply(&MappingChange::Escape { space: SPACE, page }).unwrap();
    }
    oracle.apply(&map(1024, PageSize::Size4K, 9)).unwrap();
    assert_eq!(self::frame(&oracle, 256), Some(512 + 8));
}

fn selection() -> impl Strategy<Value = u64> {
    any::<[u64; 32]>().prop_map(|picks| {
        let mut left: Vec<u32> = (0..64).collect();
        let bits = picks.map(|pick| left.swap_remove(pick as usize % left.len()));
        bits.iter().fold(0, |selection, bit| selection | 1 << bit)
    })
}

proptest! {
    /// Against a plain map of 4KB pages, recent answers included.
    #[test]
    fn random_entries(
        mode in prop::sample::select(GapTolerance::ALL.to_vec()),
        steps in prop::collection::vec((0u64..4, selection(), 0u64..8, 0u64..8), 1..30),
    ) {
        let (mut oracle, mut plain) = (Oracle::new(), BTreeMap::new());
        for (place, selection, slice, second) in steps {
            let first = place * mode.entry_pages();
            let range = first..first + mode.entry_pages();
            if plain.contains_key(&first) {
                oracle.apply(&unmap(mode, first)).unwrap();
                plain.retain(|page, _| !range.contains(page));
            } else {
                let second = if mode.is_paired() { second } else { slice };
                let selection = if second == slice && mode.is_paired() { u64::MAX } else { selection };
                let slices = [slice, second].map(|number| number * mode.slice_frames());
                oracle.apply(&pair(mode, first, slices, selection)).unwrap();
                let blocks = (0..64).filter(|bit| selection >> bit & 1 != 0);
                let both: Vec<u64> = if selection == u64::MAX {
                    blocks.map(|block| slices[0] + block * mode.block_frames()).collect()
                } else {
                    let of = |slice: u64| blocks.clone().map(move |block| slice + block * mode.block_frames());
                    let second = if mode.is_paired() { Some(of(slices[1])) } else { None };
                    of(slices[0]).chain(second.into_iter().flatten()).collect()
                };
                for (page, block) in range.zip(both.iter().flat_map(|block| (0..mode.block_frames()).map(move |frame| block + frame))) {
                    plain.insert(page, block);
                }
            }
            for number in (0..4 * mode.entry_pages()).step_by(3) {
                let found = plain.get(&number).map(|frame| PhysicalAddress::new(frame << 12));
                let address = VirtualAddress::new(number << 12);
                oracle.check(SPACE, address, AccessKind::Read, found).unwrap();
            }
        }
        let listed: Vec<_> = oracle.mappings(SPACE).map(|(page, (frame, _))| (page.number(), frame.number())).collect();
        prop_assert_eq!(listed, plain.into_iter().collect::<Vec<_>>());
    }
}
