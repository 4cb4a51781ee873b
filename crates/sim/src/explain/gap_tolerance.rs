//! Descriptions of gap-tolerant page-directory entries.

use perforate_schemes::gap_tolerant::{GapTolerantEntry, Superpage};
use perforate_types::{GapTolerance, PageTableEntry};

/// Describes an aligned 16-byte entry of a page directory: a gap-tolerant entry, one or two entries
/// that point to level-1 nodes, or padding.
pub(super) fn content(entry: GapTolerantEntry, mode: GapTolerance) -> String {
    if entry.is_superpage() {
        let (slice, second) = (entry.slice().address(), entry.second().address());
        let slices = match (mode.is_paired(), entry.is_self_paired(mode)) {
            (true, true) => format!("whole slice {slice:#x}"),
            (true, false) => format!("{slice:#x} and {second:#x}"),
            _ => format!("slice {slice:#x}"),
        };
        return format!("{}, {slices}", mode.label());
    }
    let words = [entry.first, PageTableEntry::from_bits(entry.selection)];
    let tables = words.iter().filter(|word| word.is_present());
    let tables: Vec<String> =
        tables.map(|word| format!("table at {:#x}", word.frame().address())).collect();
    if tables.is_empty() { "padding, zeros".into() } else { tables.join(", ") }
}

/// Describes the selection of a B-block (64th of a slice) in words. Shows the selection bitmap if
/// the superpage is known.
pub(super) fn selected(superpage: Option<Superpage>) -> String {
    let Some(Superpage { slice, selection, block, .. }) = superpage else {
        return "selection: B-block found".into();
    };
    let index = (selection & ((1 << block) - 1)).count_ones();
    let slice = slice.address();
    format!("selection {selection:016x}: block {index} is B-block {block} of slice {slice:#x}")
}

#[cfg(test)]
mod tests {
    use perforate_types::{Frame, PageSize, Permissions, PhysicalAddress};

    use super::*;

    fn superpage(offset_b: u64, selection: u64) -> GapTolerantEntry {
        let leaf = PageTableEntry::leaf(Frame::new(1024), PageSize::Size2M, Permissions::READ);
        let first = PageTableEntry::from_bits(leaf.bits() | offset_b << 15);
        GapTolerantEntry { first, selection }
    }

    #[test]
    fn entries_as_a_person_would_write_them() {
        let (single, paired) = (GapTolerance::SINGLE_2M, GapTolerance::PAIRED_2M);
        assert_eq!(content(superpage(0, 0xffff_ffff), single), "GT-PDE-2MB, slice 0x400000");
        assert_eq!(
            content(superpage(5, 0xffff_ffff), paired),
            "P-GT-PDE-2MB, 0x400000 and 0xa00000"
        );
        assert_eq!(content(superpage(2, u64::MAX), paired), "P-GT-PDE-2MB, whole slice 0x400000");
        let node = |frame| PageTableEntry::table(Frame::new(frame));
        let both = GapTolerantEntry { first: node(5), selection: node(6).bits() };
        assert_eq!(content(both, GapTolerance::SINGLE_4M), "table at 0x5000, table at 0x6000");
        let second = GapTolerantEntry { first: PageTableEntry::ABSENT, ..both };
        assert_eq!(content(second, GapTolerance::SINGLE_4M), "table at 0x6000");
        let zeros = GapTolerantEntry::default();
        assert_eq!(content(zeros, GapTolerance::SINGLE_1M), "padding, zeros");
    }

    #[test]
    fn the_virtual_block_is_counted() {
        let superpage = Superpage {
            entry: PhysicalAddress::new(0),
            slice: Frame::new(1024),
            selection: 0xff00_ff00,
            block: 25,
            frame: Frame::new(0),
        };
        let text = selected(Some(superpage));
        assert_eq!(text, "selection 00000000ff00ff00: block 9 is B-block 25 of slice 0x400000");
        assert_eq!(selected(None), "selection: B-block found");
    }
}
