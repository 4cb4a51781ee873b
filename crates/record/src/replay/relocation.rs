//! Relocation of addresses from those of the emulator to those of Linux.
//!
//! QEMU 7.2 packs image, stack, libraries and mappings near 0x40_0000_0000. Natively, they are far
//! from each other, in different entries of the upper page-table levels. Without relocation, walk
//! caches would look better than they are. Every shift is a multiple of 2MB, so addresses that
//! share a 2MB page still do. Images linked to a fixed address are not moved.

use std::ops::Range;

use perforate_types::{PageSize, ProgramEvent, VirtualAddress};

/// Lowest address that QEMU chooses for images and mappings without a fixed address.
pub const EMULATOR_BASE: u64 = 0x40_0000_0000;
/// End of the emulator's addresses that are moved to [`NATIVE_MAPPINGS`].
const EMULATOR_END: u64 = 0x80_0000_0000;
/// Address of position-independent programs under Linux without randomization.
const NATIVE_IMAGE: u64 = 0x5555_5555_4000;
/// End address of the stack under Linux without randomization.
const NATIVE_STACK_END: u64 = 0x7fff_ffff_f000;
/// Native start address of mappings: in the last level-4 entry of user space, which natively also holds the
/// stack.
const NATIVE_MAPPINGS: u64 = 0x7f80_0000_0000;
/// Native end address of mappings that the kernel placed rather than QEMU; they grow downwards, as natively.
const NATIVE_MAPPINGS_END: u64 = 0x7fff_f800_0000;
/// Size in bytes of the native range for mappings that the kernel placed.
const KERNEL_PLACED_BYTES: u64 = 0x3f_f000_0000;

/// Addresses of the parts of a program in the emulator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Address of the first byte of a position-independent image; the heap follows the image.
    pub image: Option<u64>,
    /// Address range of the stack, with the guard page below it.
    pub stack: Option<Range<u64>>,
    /// End address of the emulator's own mappings, without its stack. Below, the kernel places mappings if
    /// QEMU's chosen address is taken.
    pub kernel_placed_end: Option<u64>,
}

/// Shifts of addresses from the emulator's to native ones, by address range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relocation {
    /// Address ranges of the emulator, ordered and without overlaps, each with the (wrapping) addend that
    /// gives native addresses.
    ranges: Vec<(Range<u64>, u64)>,
}

const fn align_down(address: u64) -> u64 {
    address & !(PageSize::Size2M.bytes() - 1)
}

impl Relocation {
    /// Computes the shifts of a program's parts, whose addresses in the emulator are `layout`.
    pub fn new(layout: &Layout) -> Self {
        let mut ranges = Vec::new();
        let mut add = |range: Range<u64>, to: u64| {
            if !range.is_empty() {
                ranges.push((range.clone(), to.wrapping_sub(align_down(range.start))));
            }
        };
        let stack = layout.stack.clone().unwrap_or(EMULATOR_BASE..EMULATOR_BASE);
        // The heap lies between image and stack.
        let image = layout.image.map_or(stack.start, |image| image.min(stack.start));
        add(EMULATOR_BASE..image, NATIVE_MAPPINGS);
        add(image..stack.start, align_down(NATIVE_IMAGE));
        let stack_bytes = stack.end - align_down(stack.start);
        add(stack.clone(), align_down(NATIVE_STACK_END - stack_bytes));
        let above = stack.end.max(EMULATOR_BASE);
        add(above..EMULATOR_END, NATIVE_MAPPINGS + align_down(above) - EMULATOR_BASE);
        if let Some(end) = layout.kernel_placed_end {
            let shift = align_down(NATIVE_MAPPINGS_END.wrapping_sub(end));
            ranges.push((end.saturating_sub(KERNEL_PLACED_BYTES)..end, shift));
        }
        Self { ranges }
    }

    /// Computes the native address of an address in the emulator.
    pub fn relocate(&self, address: u64) -> u64 {
        let found = self.ranges.iter().find(|(range, _)| range.contains(&address));
        found.map_or(address, |(_, shift)| address.wrapping_add(*shift))
    }

    /// Splits an address range of the emulator into parts with different shifts. Returns native start and
    /// length of each part.
    fn split(&self, start: u64, length: u64) -> Vec<(VirtualAddress, u64)> {
        let end = start.saturating_add(length);
        let mut cuts: Vec<u64> =
            self.ranges.iter().flat_map(|(range, _)| [range.start, range.end]).collect();
        cuts.retain(|cut| start < *cut && *cut < end);
        cuts.extend([start, end]);
        cuts.sort_unstable();
        cuts.dedup();
        let parts = cuts.windows(2);
        parts.map(|part| (self.address(part[0]), part[1] - part[0])).collect()
    }

    fn address(&self, address: u64) -> VirtualAddress {
        VirtualAddress::new(self.relocate(address))
    }

    /// Makes copies of an event at native addresses; several if its address range is split.
    pub fn relocate_event(&self, event: &ProgramEvent) -> Vec<ProgramEvent> {
        let mut copies = Vec::new();
        match event {
            ProgramEvent::Map { start, length, .. }
            | ProgramEvent::Unmap { start, length }
            | ProgramEvent::Protect { start, length, .. }
            | ProgramEvent::Advise { start, length, .. }
            | ProgramEvent::Name { start, length, .. } => {
                for (new_start, new_length) in self.split(start.value(), *length) {
                    copies.push(with_range(event.clone(), new_start, new_length));
                }
            }
            ProgramEvent::Remap { from, from_length, to, to_length } => {
                copies.push(ProgramEvent::Remap {
                    from: self.address(from.value()),
                    from_length: *from_length,
                    to: self.address(to.value()),
                    to_length: *to_length,
                });
            }
            ProgramEvent::Brk { start, end } => {
                let new_start = self.address(start.value());
                let length = end.value().saturating_sub(start.value());
                copies.push(ProgramEvent::Brk { start: new_start, end: new_start.add(length) });
            }
            ProgramEvent::Fork { .. }
            | ProgramEvent::Exec
            | ProgramEvent::Exit { .. }
            | ProgramEvent::Gap { .. }
            | ProgramEvent::Phase { .. }
            | ProgramEvent::Switch { .. } => copies.push(event.clone()),
        }
        copies
    }
}

fn with_range(mut event: ProgramEvent, new_start: VirtualAddress, new_length: u64) -> ProgramEvent {
    match &mut event {
        ProgramEvent::Map { start, length, .. }
        | ProgramEvent::Unmap { start, length }
        | ProgramEvent::Protect { start, length, .. }
        | ProgramEvent::Advise { start, length, .. }
        | ProgramEvent::Name { start, length, .. } => {
            *start = new_start;
            *length = new_length;
        }
        _ => {}
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relocation for the addresses of `qemu-x86_64 /bin/cat` on Debian 12.
    fn cat() -> Relocation {
        Relocation::new(&Layout {
            image: Some(0x40_0000_0000),
            stack: Some(0x40_0200_c000..0x40_0280_d000),
            kernel_placed_end: Some(0x7ffd_1234_5000),
        })
    }

    #[test]
    fn a_position_independent_program_by_hand() {
        let table = cat();
        // Image: 0x555555554000 rounded down to 2MB is 0x555555400000.
        assert_eq!(table.relocate(0x40_0000_0000), 0x5555_5540_0000);
        assert_eq!(table.relocate(0x40_0002_cfff), 0x5555_5542_cfff, "heap");
        // Stack: its 2MB-aligned start 0x4002000000 is 0x80d000 below its end;
        // 0x7ffffffff000 - 0x80d000 = 0x7fffff7f2000, rounded down 0x7fffff600000.
        assert_eq!(table.relocate(0x40_0200_c000), 0x7fff_ff60_c000, "guard page");
        assert_eq!(table.relocate(0x40_0280_cfff), 0x7fff_ffe0_cfff, "last byte");
        // Mappings: ld.so starts at the stack's end; offsets from 0x4000000000 are kept.
        assert_eq!(table.relocate(0x40_0280_d000), 0x7f80_0280_d000);
        assert_eq!(table.relocate(0x7f_ffff_ffff), 0x7fbf_ffff_ffff, "last byte");
        // Placed by the kernel: 0x7ffff8000000 - 0x7ffd12345000 = 0x2e5cbb000, rounded down
        // 0x2e5c00000.
        assert_eq!(table.relocate(0x7ffd_1234_4000), 0x7fff_f7f4_4000);
        assert_eq!(table.relocate(0x40_0000), 0x40_0000, "not the emulator's choice");
        assert_eq!(table.relocate(0xc0_0000_0000), 0xc0_0000_0000);
    }

    #[test]
    fn fixed_images_are_not_moved() {
        let table = Relocation::new(&Layout {
            image: None,
            stack: Some(0x40_0000_1000..0x40_0080_2000),
            kernel_placed_end: None,
        });
        assert_eq!(table.relocate(0x40_1000), 0x40_1000);
        assert_eq!(table.relocate(0x40_0000_0000), 0x7f80_0000_0000);
        assert_eq!(table.relocate(0x40_0080_2000), 0x7f80_0080_2000);
    }

    #[test]
    fn relocated_ranges_do_not_overlap_and_keep_2mb_offsets() {
        let table = cat();
        let mut landed: Vec<Range<u64>> = Vec::new();
        for (range, shift) in &table.ranges {
            assert_eq!(shift % PageSize::Size2M.bytes(), 0);
            landed.push(range.start.wrapping_add(*shift)..range.end.wrapping_add(*shift));
        }
        landed.sort_by_key(|range| range.start);
        for pair in landed.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{landed:x?}");
        }
        assert!(landed.iter().all(|range| range.end < 0x7fff_ffff_f000));
    }

    #[test]
    fn an_event_across_ranges_is_cut() {
        let event =
            ProgramEvent::Unmap { start: VirtualAddress::new(0x40_0280_c000), length: 0x2000 };
        let expected =
            [(0x7fff_ffe0_c000, 0x1000), (0x7f80_0280_d000, 0x1000)].map(|(start, length)| {
                ProgramEvent::Unmap { start: VirtualAddress::new(start), length }
            });
        assert_eq!(cat().relocate_event(&event), expected);
    }
}
