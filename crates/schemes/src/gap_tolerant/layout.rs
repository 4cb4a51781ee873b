//! Layout of a page-directory node with gap-tolerant entries (G §3.5, Fig. 8).
//!
//! A node maps 1GB. Gap-tolerant entries are contiguous, 16 bytes each. The 8, 16 or 32 bytes of a
//! 2MB region can instead begin with the pointer to a level-1 node, followed by zero padding.

use perforate_mmu::TableMemory;
use perforate_types::{Frame, GT_PDE_BYTES, GapTolerance, PageSize, PhysicalAddress, VirtualPage};

use super::entry::GapTolerantEntry;

/// Byte offset in a page-directory node of the gap-tolerant entry that covers `page`.
#[inline]
pub(super) fn superpage_offset(mode: GapTolerance, page: VirtualPage) -> u64 {
    page.index_in(PageSize::Size1G) as u64 / mode.entry_pages() * GT_PDE_BYTES
}

/// Byte offset in a page-directory node of the pointer to the level-1 node that covers `page`.
#[inline]
pub(super) fn table_offset(mode: GapTolerance, page: VirtualPage) -> u64 {
    let region = page.index_in(PageSize::Size1G) as u64 / PageSize::Size2M.pages();
    region * mode.directory_bytes_per_region()
}

/// Address of the pointer to the level-1 node that covers `page`. `None` if a gap-tolerant entry
/// occupies its position or its padding.
pub(super) fn table_entry(
    memory: &TableMemory,
    mode: GapTolerance,
    node: Frame,
    page: VirtualPage,
) -> Option<PhysicalAddress> {
    let address = node.address().add(table_offset(mode, page));
    let first = address.value() / GT_PDE_BYTES * GT_PDE_BYTES;
    let mut places =
        (first..address.value() + mode.directory_bytes_per_region()).step_by(GT_PDE_BYTES as usize);
    let taken = places
        .any(|place| GapTolerantEntry::read(memory, PhysicalAddress::new(place)).is_superpage());
    (!taken).then_some(address)
}
