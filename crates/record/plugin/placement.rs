//! Places of large anonymous mappings.
//!
//! Since version 6.7, Linux places a private anonymous mapping whose length is a multiple of 2MB at a multiple
//! of 2MB (`__get_unmapped_area` in mm/mmap.c), so that it can get large pages. The emulator, which looks for
//! room itself, would place it behind its last mapping. The emulator asks the kernel whether an address is
//! free by mapping it, so that its calls of mmap are replaced by ones with an aligned address.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};

use super::qemu::{self, Loaded};
use crate::large_mappings::{LARGE_PAGE_BYTES, MAP_FIXED, MAP_FIXED_NOREPLACE, is_on_large_pages};

/// Flags MAP_FIXED and MAP_FIXED_NOREPLACE, with which the kernel chooses no address.
const FIXED: c_int = (MAP_FIXED | MAP_FIXED_NOREPLACE) as c_int;

thread_local! {
    /// True during a system call of the program that maps memory at a multiple of [`LARGE_PAGE_BYTES`].
    static IS_ALIGNING: Cell<bool> = const { Cell::new(false) };
}

/// Prepares for the program's system call mmap with the given arguments.
pub fn begin_mmap(arguments: [u64; 4]) {
    IS_ALIGNING.set(is_on_large_pages(arguments));
}

/// Forgets the program's last system call.
pub fn end_mmap() {
    IS_ALIGNING.set(false);
}

/// The emulator's mmap: the program's large mappings get an aligned address where the emulator asked for an
/// address that is not.
unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    let is_search = IS_ALIGNING.get() && flags & FIXED == 0 && !address.is_null();
    let place = match is_search {
        true => (address as u64).next_multiple_of(LARGE_PAGE_BYTES) as *mut c_void,
        false => address,
    };
    // SAFETY: promised by the caller. Without the fixed flags, an address is a wish.
    unsafe { qemu::mmap(place, length, protection, flags, descriptor, offset) }
}

/// Makes the emulator call [`mmap`] above. Without effect if the emulator has no table of the functions that it
/// imports; the recorder counts the mappings that are not where Linux would place them.
pub fn install() {
    // SAFETY: the callback has the right signature.
    unsafe { qemu::dl_iterate_phdr(replace_import, std::ptr::null_mut()) };
}

/// Replaces the address of mmap among the functions that a loaded file imports. Returns 1, which ends the
/// iteration: the first loaded file is the emulator.
unsafe extern "C" fn replace_import(file: *const Loaded, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the file is loaded, and its tables are those of an ELF file.
    unsafe {
        let file = &*file;
        let Some(slot) = import_slot(file, &[c"mmap64", c"mmap"]) else { return 1 };
        let page = slot as usize & !(PAGE_BYTES - 1);
        let protect = |protection| qemu::mprotect(page as *mut c_void, PAGE_BYTES, protection);
        let is_read_only = file.segments().iter().any(|segment| {
            let start = file.base + segment.address as usize;
            segment.kind == RELOCATED_READ_ONLY
                && (start..start + segment.bytes as usize).contains(&(slot as usize))
        });
        if is_read_only && protect(qemu::PROTECTION_READ_WRITE) != 0 {
            return 1;
        }
        slot.write(mmap as *const () as usize);
        if is_read_only {
            protect(qemu::PROTECTION_READ);
        }
    }
    1
}

const PAGE_BYTES: usize = 4096;
/// PT_DYNAMIC: the segment with the tables for the dynamic linker.
const DYNAMIC: u32 = 2;
/// PT_GNU_RELRO: a segment that is read-only after relocation.
const RELOCATED_READ_ONLY: u32 = 0x6474_e552;
/// R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, and the same of AArch64: relocations to the address of a function.
const FUNCTION_RELOCATIONS: [u32; 4] = [6, 7, 1025, 1026];

/// A relocation: ELF's `Elf64_Rela`.
#[repr(C)]
struct Relocation {
    offset: u64,
    kind: u32,
    symbol: u32,
    addend: i64,
}

/// A symbol: ELF's `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    kind: [u8; 4],
    value: u64,
    size: u64,
}

/// Finds where a loaded file keeps the address of an imported function with one of the given names.
///
/// # Safety
/// The file is loaded, and its tables are those of an ELF file.
unsafe fn import_slot(file: &Loaded, names: &[&CStr]) -> Option<*mut usize> {
    // SAFETY: promised by the caller.
    unsafe {
        let dynamic = file.segments().iter().find(|segment| segment.kind == DYNAMIC)?;
        let start = (file.base + dynamic.address as usize) as *const [u64; 2];
        let entries = std::slice::from_raw_parts(start, dynamic.bytes as usize / 16);
        let value = |tag| entries.iter().find(|[found, _]| *found == tag).map(|[_, value]| *value);
        // The dynamic linker has added the base to the addresses of tables; where it has not, we do.
        let table = |tag| {
            let address = value(tag)? as usize;
            Some(if address < file.base { file.base + address } else { address })
        };
        const STRINGS: u64 = 5;
        const SYMBOLS: u64 = 6;
        const LAZY: (u64, u64) = (23, 2);
        const OTHER: (u64, u64) = (7, 8);
        let (strings, symbols) = (table(STRINGS)?, table(SYMBOLS)? as *const Symbol);
        [LAZY, OTHER].into_iter().find_map(|(start, bytes)| {
            let count = value(bytes)? as usize / size_of::<Relocation>();
            let relocations = std::slice::from_raw_parts(table(start)? as *const Relocation, count);
            let found = relocations.iter().find(|relocation| {
                let name = (*symbols.add(relocation.symbol as usize)).name as usize;
                let name = CStr::from_ptr((strings + name) as *const c_char);
                FUNCTION_RELOCATIONS.contains(&relocation.kind) && names.contains(&name)
            });
            found.map(|found| (file.base + found.offset as usize) as *mut usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_mappings_are_aligned() {
        const MB: u64 = 1 << 20;
        for (arguments, expected) in [
            ([0, 4 * MB, 3, 0x22], true),
            ([0, 2 * MB, 0, 0x2_4022], true), // A stack, and not reserved.
            ([0, 2 * MB + 4096, 3, 0x22], false),
            ([0, 0, 3, 0x22], false),
            ([0, 4 * MB, 3, 0x21], false),             // Shared.
            ([0, 4 * MB, 3, 0x02], false),             // A file.
            ([0x1000, 4 * MB, 3, 0x22], false),        // At a wished address.
            ([0, 4 * MB, 3, 0x22 | MAP_FIXED], false), // At address 0.
        ] {
            begin_mmap(arguments);
            assert_eq!(IS_ALIGNING.get(), expected, "{arguments:x?}");
        }
        end_mmap();
        assert!(!IS_ALIGNING.get());
    }
}
