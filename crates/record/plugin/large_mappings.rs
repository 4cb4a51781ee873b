//! Mappings that Linux places at multiples of 2MB. Shared by the recorder and the plugin.

/// Size and alignment in bytes of large pages.
pub const LARGE_PAGE_BYTES: u64 = 2 << 20;
/// Flag MAP_FIXED of mmap.
pub const MAP_FIXED: u64 = 0x10;
/// Flag MAP_FIXED_NOREPLACE of mmap.
pub const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

/// Flags MAP_PRIVATE and MAP_ANONYMOUS of mmap.
const PRIVATE_ANONYMOUS: u64 = 0x22;
/// All flags of mmap that decide about the place.
const DECIDING_FLAGS: u64 = 0xf | 0x20 | MAP_FIXED | MAP_FIXED_NOREPLACE;

/// True if Linux, since version 6.7, places the mapping of mmap with these arguments (address, length,
/// protection, flags) at a multiple of 2MB: a private anonymous one of whole large pages, at no wished address.
pub fn is_on_large_pages([address, length, _, flags]: [u64; 4]) -> bool {
    address == 0
        && length != 0
        && length.is_multiple_of(LARGE_PAGE_BYTES)
        && flags & DECIDING_FLAGS == PRIVATE_ANONYMOUS
}
