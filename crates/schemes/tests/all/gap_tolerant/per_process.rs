//! Processes with different B-block sizes in one MMU (G §3.8): each process has its own GTPTCR.

use perforate_mmu::{Mmu, TlbGeometry};
use perforate_schemes::gap_tolerant::{GapTolerantRadix, SuperpageOperation};
use perforate_types::{
    AccessKind, Frame, GapTolerance, Shootdown, SpaceId, Steps, TableOperation, Update, VirtualPage,
};

use super::address_spaces::*;

const LARGE: SpaceId = SpaceId(1);
const SMALL: SpaceId = SpaceId(2);

/// Both processes have a superpage at 1GB: 4MB at slice 0, and 1MB at slice 0x10000. The page
/// directories are at frame 0x14 and, with four frames, at 0x24.
fn two_processes(native: bool) -> Mmu {
    let geometry = TlbGeometry { entries: 8, ways: 2 };
    let tables = match native {
        true => GapTolerantRadix::with_native_tlb(GapTolerance::SINGLE_4M, geometry),
        false => GapTolerantRadix::new(GapTolerance::SINGLE_4M),
    };
    let mut mmu = Mmu::new(&config(8), Box::new(tables)).unwrap();
    for (space, mode, first, slice) in [
        (SMALL, GapTolerance::SINGLE_1M, 0x20, 0x1_0000),
        (LARGE, GapTolerance::SINGLE_4M, 0x10, 0),
    ] {
        let mut apply = |operation: TableOperation| mmu.apply(&operation.into());
        apply(TableOperation::SetControl { space, control: mode.control() });
        for (level, frame) in [(4, first), (3, first + 1), (2, first + 4)] {
            let page = if level > 2 { VirtualPage::new(0) } else { page(0) };
            let frame = Frame::new(frame);
            apply(TableOperation::AddNode { space, level, page, frame, branch: 0 });
        }
        let (slice, second) = (Frame::new(slice), Frame::new(slice));
        let (page, permissions, selection) = (page(0), RW, SELECTION);
        let map =
            SuperpageOperation::Map { space, page, mode, slice, second, selection, permissions };
        mmu.apply(&map.into());
    }
    mmu
}

fn frame(mmu: &mut Mmu, space: SpaceId, index: u64) -> Option<u64> {
    mmu.switch(space);
    let found = mmu.translate(AccessKind::Read, page(index).address(), &mut Steps::new());
    found.ok().map(|found| found.physical.page().number())
}

/// B-block 1 has frames 32 to 63 in one process, and frames 8 to 15 of its slice in the other.
#[test]
fn each_process_is_translated_in_its_own_mode() {
    for native in [false, true] {
        let mut mmu = two_processes(native);
        for _ in 0..2 {
            assert_eq!(frame(&mut mmu, LARGE, 7), Some(32 + 7));
            assert_eq!(frame(&mut mmu, SMALL, 7), Some(0x1_0000 + 8 + 7));
            // Virtual block 1 is the next odd B-block; then the last page of each superpage.
            assert_eq!(frame(&mut mmu, LARGE, 33), Some(3 * 32 + 1));
            assert_eq!(frame(&mut mmu, SMALL, 9), Some(0x1_0000 + 3 * 8 + 1));
            assert_eq!(frame(&mut mmu, LARGE, 1023), Some(62 * 32 + 31));
            assert_eq!(frame(&mut mmu, SMALL, 255), Some(0x1_0000 + 62 * 8 + 7));
            assert_eq!(frame(&mut mmu, LARGE, 1024), None);
            assert_eq!(frame(&mut mmu, SMALL, 256), None, "1MB, where the other one has 4MB");
            mmu.flush_first_level();
        }
    }
}

/// A shootdown in one process does not affect the other.
#[test]
fn a_shootdown_is_of_one_process() {
    for native in [false, true] {
        let mut mmu = two_processes(native);
        frame(&mut mmu, LARGE, 7);
        frame(&mut mmu, SMALL, 7);
        let (space, page, mode) = (SMALL, page(0), GapTolerance::SINGLE_1M);
        mmu.apply(&SuperpageOperation::Unmap { space, page, mode }.into());
        mmu.apply(&Update::Shootdown(Shootdown::Superpage { space, page, mode }));
        assert_eq!(frame(&mut mmu, SMALL, 7), None);
        let walks = mmu.counters().walks;
        assert_eq!(frame(&mut mmu, LARGE, 8), Some(32 + 8));
        assert_eq!(mmu.counters().walks, walks, "its entry is still cached");
    }
}

/// The register must be written before the tables, whose layout depends on it.
#[test]
#[should_panic(expected = "has tables already")]
fn the_register_does_not_change_under_tables() {
    let mut mmu = two_processes(false);
    let control = GapTolerance::SINGLE_2M.control();
    mmu.apply(&TableOperation::SetControl { space: LARGE, control }.into());
}
