//! Page directories byte by byte, in every mode of G Table 3 (G Fig. 5, 8, 9).

use std::panic::AssertUnwindSafe;

use perforate_mmu::{Dimension, Mark, allow};
use perforate_schemes::gap_tolerant::SuperpageOperation;
use perforate_types::{Frame, GapTolerance, PageSize, PageTableEntry, Permissions, TableOperation};

use super::address_spaces::*;

/// Flags of a writable superpage: present, writable, user, bit 7, no-execute.
const LEAF: u64 = 1 << 63 | 0x87;
/// Flags of an entry of a level-1 node.
const NODE: u64 = 7;

/// In every mode: a superpage entry at the beginning, then level-1 nodes for two 2MB regions, and
/// no other entries. The rows list the 8-byte words other than zero by offset, worked out from G
/// §3.5. Entries of level-1 nodes are 8, 16 or 32 bytes apart, superpage entries 16.
#[test]
fn a_mixed_directory_of_every_mode() {
    let half = |mode: GapTolerance| mode.slice_frames() * 3;
    type Words = &'static [(u64, u64)];
    let rows: [(GapTolerance, [u64; 2], Words); 5] = [
        // Region 0: half a superpage pair at 0. Regions 1 and 2: at 32 and 64, with 24 bytes of
        // zeros each.
        (GapTolerance::SINGLE_1M, [512, 1024], &[(32, 0x30), (64, 0x31)]),
        // Regions 1 and 2: at 16 and 32, with 8 bytes of zeros each.
        (GapTolerance::SINGLE_2M, [512, 1024], &[(16, 0x30), (32, 0x31)]),
        // Regions 2 and 3: at 16 and 24, without zeros.
        (GapTolerance::SINGLE_4M, [1024, 1536], &[(16, 0x30), (24, 0x31)]),
        (GapTolerance::PAIRED_2M, [512, 1024], &[(16, 0x30), (32, 0x31)]),
        (GapTolerance::PAIRED_4M, [1024, 1536], &[(16, 0x30), (24, 0x31)]),
    ];
    for (mode, regions, nodes) in rows {
        let slice = half(mode);
        let second = if mode.is_paired() { mode.slice_frames() } else { slice };
        let tables = tables(
            mode,
            &[
                pair(mode, 0, [slice, second], SELECTION),
                table(1, regions[0], 0x30),
                table(1, regions[1], 0x31),
                map(regions[1] + 5, 0x777),
            ],
        );
        // Offset-B counts 2MB: one slice of 2MB or of 4MB.
        let offset_b = match mode {
            GapTolerance::PAIRED_2M => 1 << 15,
            GapTolerance::PAIRED_4M => 2 << 15,
            _ => 0,
        };
        let mut expected = vec![(0, LEAF | slice << 12 | offset_b), (8, SELECTION)];
        expected.extend(nodes.iter().map(|&(offset, frame)| (offset, NODE | frame << 12)));
        let found: Vec<_> = (0..mode.directory_bytes())
            .step_by(8)
            .map(|offset| (offset, word(&tables, offset)))
            .filter(|&(_, word)| word != 0)
            .collect();
        assert_eq!(found, expected, "{}", mode.label());
        // The tables as an operating system reads them.
        assert_eq!(tables.look_at(SPACE, page(regions[1] + 5)).unwrap().frame, Frame::new(0x777));
        assert!(tables.look_at(SPACE, page(regions[1] + 6)).is_none());
        assert!(tables.look_at(SPACE, page(regions[0])).is_none());
        let first_block = slice + mode.block_frames();
        assert_eq!(tables.look_at(SPACE, page(0)).unwrap().frame, Frame::new(first_block));
        let view = tables.look_at_superpage(SPACE, page(1)).unwrap();
        assert_eq!((view.slice, view.block, view.selection), (Frame::new(slice), 1, SELECTION));
        assert_eq!(view.frame, Frame::new(first_block + 1));
        assert!(tables.look_at_superpage(SPACE, page(regions[0])).is_none());
    }
}

/// 1MB mode: an odd superpage alone, and the level-1 nodes around it.
#[test]
fn an_odd_superpage_has_its_own_16_bytes() {
    let mode = GapTolerance::SINGLE_1M;
    let mut tables = tables(mode, &[superpage(mode, 256, 1024, u64::MAX >> 32)]);
    assert_eq!((word(&tables, 0), word(&tables, 8)), (0, 0));
    assert_eq!((word(&tables, 16), word(&tables, 24)), (LEAF | 1024 << 12, u64::MAX >> 32));
    assert!(tables.look_at(SPACE, page(0)).is_none(), "the even half is absent");
    assert_eq!(tables.look_at(SPACE, page(511)).unwrap().frame, Frame::new(1024 + 255));
    apply(&mut tables, &unmap_superpage(mode, 256));
    assert_eq!((word(&tables, 16), word(&tables, 24)), (0, 0));
    apply(&mut tables, &table(1, 0, 0x30));
    assert_eq!((word(&tables, 0), word(&tables, 16)), (NODE | 0x30 << 12, 0));
}

/// The entry may be anywhere in the 2MB regions that it shares, and its selection may look like the
/// entry of a level-1 node.
#[test]
fn a_superpage_and_a_level_1_node_exclude_each_other() {
    for mode in GapTolerance::ALL {
        let length = mode.entry_pages();
        for (first, selection) in [(0, SELECTION), (length, u64::MAX << 32)] {
            let regions = first / 512 * 512..first + length;
            for region in regions.step_by(512) {
                let superpage = superpage(mode, first, 0, selection);
                let node = table(1, region, 0x30);
                for both in [[node.clone(), superpage.clone()], [superpage, node]] {
                    let made = std::panic::catch_unwind(AssertUnwindSafe(|| tables(mode, &both)));
                    assert!(made.is_err(), "{}: {both:?}", mode.label());
                }
            }
        }
    }
}

/// The additional frames of a directory are cleared with it, so that no old contents remain.
#[test]
fn a_directory_comes_and_goes_with_all_its_frames() {
    let mode = GapTolerance::SINGLE_1M;
    let last = START - 256;
    let mut tables = tables(mode, &[superpage(mode, last, 0, SELECTION)]);
    let last_offset = mode.directory_bytes() - 16;
    assert_eq!(word(&tables, last_offset), LEAF);
    let (space, page) = (SPACE, page(0));
    tables.apply(&TableOperation::RemoveNode { space, level: 2, page, branch: 0 });
    assert_eq!((word(&tables, last_offset), word(&tables, last_offset + 8)), (0, 0));
    apply(&mut tables, &table(2, 0, DIRECTORY));
    assert!(tables.look_at(SPACE, page_at(last)).is_none());
}

fn page_at(index: u64) -> perforate_types::VirtualPage {
    page(index)
}

#[test]
fn permissions_accessed_and_dirty_are_in_the_first_word() {
    let mode = GapTolerance::PAIRED_2M;
    let slices = [0, 512];
    let mut tables = tables(mode, &[pair(mode, 0, slices, SELECTION)]);
    let first = |tables: &dyn Dimension| PageTableEntry::from_bits(word(tables, 0));
    let before = first(&tables);
    tables.mark(SPACE, page(300), Mark::Accessed);
    assert_eq!(first(&tables), before.with_accessed(false));
    tables.mark(SPACE, page(300), Mark::Dirty);
    assert_eq!(first(&tables), before.with_accessed(true));
    let allows = tables.look_at(SPACE, page(0)).unwrap().allows;
    assert_eq!(allows, allow::READ | allow::WRITE | allow::DIRTY, "dirty for the whole entry");
    let (space, page, permissions) = (SPACE, page(0), Permissions::READ);
    tables.apply(&SuperpageOperation::Protect { space, page, mode, permissions });
    assert_eq!(tables.look_at(SPACE, page).unwrap().allows, allow::READ | allow::DIRTY);
    assert_eq!(word(&tables, 8), SELECTION);
    assert_eq!(tables.look_at_superpage(SPACE, self::page(256)).unwrap().slice, Frame::new(512));
}

#[test]
#[should_panic(expected = "cannot hold")]
fn a_2mb_page_has_no_place() {
    let (page, size, frame) = (page(0), PageSize::Size2M, Frame::new(512));
    let map = TableOperation::Map { space: SPACE, page, size, frame, permissions: RW };
    tables(GapTolerance::SINGLE_2M, &[map.into()]);
}
