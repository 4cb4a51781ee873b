//! Walks without walk caches: addresses and order of reads, and resulting frames.

use perforate_mmu::PageFault;
use perforate_types::{
    AccessKind, Counters, Frame, GapTolerance, PageSize, Permissions, PhysicalAddress, Purpose,
    Steps, TableOperation,
};

use super::address_spaces::*;

/// G Fig. 6(b), 4MB mode: bits 29:22 of a virtual address are the index of the entry, 21:17 the
/// virtual block, 16:12 the page in the block.
#[test]
fn the_address_is_split_as_in_figure_6() {
    let mode = GapTolerance::SINGLE_4M;
    let index = 0xa5;
    // Slice 7 of 8MB. Virtual block 19 is set bit 19 of the selection. The low half has 16 set
    // bits, so it is the fourth of bits 32, 34, 36, 38.
    let mut mmu = unit(mode, 0, &[superpage(mode, index << 10, 7 << 11, SELECTION)]);
    let virtual_address = address(1 << 30 | index << 22 | 19 << 17 | 7 << 12 | 0x123);
    let found = mmu.translate(AccessKind::Read, virtual_address, &mut Steps::new()).unwrap();
    let expected = (7 << 23) + 38 * (128 << 10) + (7 << 12) + 0x123;
    assert_eq!(found.physical.value(), expected);
    mmu.flush();
    let outcome = load(&mut mmu, index << 10 | 19 << 5 | 7);
    assert_eq!(outcome.reads, walk_to(index * 16));
    assert_eq!((outcome.frame, outcome.selections), (Ok(expected >> 12), 1));
}

/// G Fig. 8, 2MB and 1MB modes: the entry index has one or two bits more, the page in a block
/// fewer. Entries may be in later frames of the node.
#[test]
fn smaller_superpages_take_more_of_the_directory() {
    let mode = GapTolerance::SINGLE_2M;
    let mut mmu = unit(mode, 0, &[superpage(mode, 300 << 9, 5 << 10, SELECTION)]);
    let outcome = load(&mut mmu, 300 << 9 | 2 << 4 | 9);
    assert_eq!(outcome.frame, Ok((5 << 10) + 5 * 16 + 9));
    assert_eq!(outcome.reads, walk_to(300 * 16));

    let mode = GapTolerance::SINGLE_1M;
    let mut mmu = unit(mode, 0, &[superpage(mode, 1001 << 8, 5 << 9, SELECTION)]);
    let outcome = load(&mut mmu, 1001 << 8 | 31 << 3 | 7);
    assert_eq!(outcome.frame, Ok((5 << 9) + 62 * 8 + 7));
    assert_eq!(outcome.reads, walk_to(1001 * 16));
}

/// Closed form of a cold walk: 3 reads to a superpage, 4 to a 4KB page, 5 if the first 16 bytes of
/// the directory are padding.
#[test]
fn reads_of_a_cold_walk() {
    for mode in GapTolerance::ALL {
        // Behind the superpage: a region of 4KB pages, with one page in each half.
        let region = mode.entry_pages().max(512) * 2;
        let [even, odd] = [region + 3, region + 259];
        let mut mmu = unit(
            mode,
            0,
            &[
                superpage(mode, 0, 0, SELECTION),
                table(1, region, 0x30),
                map(region + 3, 0x771),
                map(region + 259, 0x772),
            ],
        );
        let entry = region / 512 * mode.directory_bytes_per_region();
        assert_eq!(load(&mut mmu, 0).reads, walk_to(0));
        let mut expected = walk_to(entry / 16 * 16);
        let level1 = |index: u64| (Purpose::Level1, (0x30 << 12) + index * 8);
        expected.push(level1(3));
        assert_eq!(
            load(&mut mmu, even),
            Outcome { frame: Ok(0x771), reads: expected, selections: 0 }
        );
        let mut expected = walk_to(entry / 16 * 16);
        if mode == GapTolerance::SINGLE_1M {
            expected.insert(2, (Purpose::Level2, (DIRECTORY << 12) + entry + 16));
        }
        expected.push(level1(259));
        let outcome = load(&mut mmu, odd);
        assert_eq!(outcome, Outcome { frame: Ok(0x772), reads: expected, selections: 0 });
        let padding = u64::from(mode == GapTolerance::SINGLE_1M);
        assert_eq!(outcome.reads.len() as u64, 4 + padding);
        assert_eq!(mmu.counters().padding_references, padding);
        let mut figures = Counters::default();
        mmu.counters().record(1, &mut figures);
        mmu.record_sideband(&mut figures);
        assert_eq!(figures.get("gap_tolerant_translations"), Some(1.0));
        assert_eq!(figures.get("walk_cache_gap_tolerant_hits"), Some(0.0));
        assert_eq!(figures.get("padding_references"), Some(padding as f64));
        assert_eq!(figures.get("walk_references_level2"), Some((3 + padding) as f64));
    }
}

/// In 4MB mode, two entries of level-1 nodes share 16 bytes; one of the two may be absent.
#[test]
fn an_absent_neighbour_in_the_same_16_bytes_does_no_harm() {
    let mode = GapTolerance::SINGLE_4M;
    for (region, other) in [(0, 512), (512, 0)] {
        let mut mmu = unit(mode, 0, &[table(1, region, 0x30), map(region + 1, 0x771)]);
        let outcome = load(&mut mmu, region + 1);
        assert_eq!(outcome.frame, Ok(0x771));
        assert_eq!(outcome.reads[2], (Purpose::Level2, DIRECTORY << 12));
        assert_eq!(load(&mut mmu, other + 1).frame, Err(PageFault::NotMapped));
    }
}

/// A missing half faults, whatever the other half is. In 1MB mode, the zeros of the odd half could
/// be padding, but no node entry precedes these.
#[test]
fn half_a_region_can_be_absent() {
    let mode = GapTolerance::SINGLE_1M;
    for (there, missing) in [(0, 256), (256, 0)] {
        let mut mmu = unit(mode, 0, &[superpage(mode, there, 512, SELECTION)]);
        assert_eq!(load(&mut mmu, there).frame, Ok(512 + 8));
        assert_eq!(load(&mut mmu, missing).frame, Err(PageFault::NotMapped));
    }
}

/// G Fig. 9(a): both superpages of a pair have the same selection, but different slices.
#[test]
fn the_second_of_a_pair_lies_in_its_own_slice() {
    let chunk = 9 << 15;
    for (mode, slices) in [
        (GapTolerance::PAIRED_2M, [chunk + 63 * 512, chunk]),
        (GapTolerance::PAIRED_4M, [chunk + 1024, chunk + 31 * 1024]),
    ] {
        let mut mmu = unit(mode, 0, &[pair(mode, 0, slices, SELECTION)]);
        let block = mode.block_frames();
        let half = mode.superpage_pages();
        for (first, slice) in [(0, slices[0]), (half, slices[1])] {
            let frame = |mmu: &mut _, index| load(mmu, first + index).frame;
            assert_eq!(frame(&mut mmu, 2), Ok(slice + block + 2));
            assert_eq!(frame(&mut mmu, 16 * block), Ok(slice + 32 * block));
            assert_eq!(frame(&mut mmu, half - 1), Ok(slice + 62 * block + block - 1));
        }
        assert_eq!(load(&mut mmu, half + 1).reads, walk_to(0), "one entry for both");
    }
}

/// A slice without gaps holds both of its superpages in order, as one run of frames.
#[test]
fn a_whole_slice_is_paired_with_itself() {
    for mode in [GapTolerance::PAIRED_2M, GapTolerance::PAIRED_4M] {
        let slice = 5 * mode.slice_frames();
        let mut mmu = unit(mode, 4, &[superpage(mode, 0, slice, u64::MAX)]);
        for index in (0..mode.entry_pages()).step_by(5) {
            assert_eq!(load(&mut mmu, index).frame, Ok(slice + index));
        }
    }
}

/// A slice without retired pages is mapped like an ordinary superpage (G §3.2).
#[test]
fn without_gaps_the_mapping_is_contiguous() {
    for mode in [GapTolerance::SINGLE_1M, GapTolerance::SINGLE_2M, GapTolerance::SINGLE_4M] {
        let slice = 5 * mode.slice_frames();
        let mut mmu = unit(mode, 4, &[superpage(mode, 0, slice, u64::MAX >> 32)]);
        for index in (0..mode.entry_pages()).step_by(5) {
            assert_eq!(load(&mut mmu, index).frame, Ok(slice + index));
        }
    }
}

/// Bits on both sides of the end of the fourth byte, and the second superpage of a pair.
#[test]
fn prefix_sums_lead_across_the_middle_of_a_selection() {
    let mode = GapTolerance::PAIRED_2M;
    let changes = [pair(mode, 0, [0, 512], u64::MAX >> 16 & !0xffff)];
    let frame = |index: u64| load(&mut unit(mode, 4, &changes), index).frame;
    // Bits 16 to 47 are set: S₃ is 16, and from block 16 on the fifth byte is selected.
    assert_eq!([14, 15].map(|block| frame(block * 8)), [Ok(30 * 8), Ok(31 * 8)]);
    assert_eq!(frame(256), Ok(512 + 16 * 8));
}

/// A page of 1GB beside the superpages ends the walk at level 3. A store that it does not allow leaves it clean.
#[test]
fn a_page_of_1gb_ends_the_walk_above_the_directory() {
    for (permissions, kind, is_dirty) in [
        (RW, AccessKind::Read, false),
        (RW, AccessKind::Write, true),
        (Permissions::READ, AccessKind::Read, false),
        (Permissions::READ, AccessKind::Write, false),
    ] {
        let (space, size) = (SPACE, PageSize::Size1G);
        let (first, frame) = (page(1 << 18), Frame::new(3 << 18));
        let large = TableOperation::Map { space, page: first, size, frame, permissions };
        let mut mmu = unit(GapTolerance::SINGLE_2M, 4, &[large.into()]);
        let found = access(&mut mmu, kind, first.add(777));
        let is_allowed = permissions == RW || kind == AccessKind::Read;
        assert_eq!(found.frame.ok(), is_allowed.then_some((3 << 18) + 777));
        let entry = (LEVEL3 << 12) + 2 * 8;
        let reads = vec![(Purpose::Level4, ROOT << 12), (Purpose::Level3, entry)];
        assert_eq!((found.reads, found.selections), (reads, 0));
        let word = mmu.dimension().memory().word(PhysicalAddress::new(entry));
        assert_eq!((word >> 5 & 1, word >> 6 & 1), (1, u64::from(is_dirty)));
    }
}
