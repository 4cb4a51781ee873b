//! Where entries lie in a page-directory node that may hold gap-tolerant ones (G §3.5, Fig. 8).
//!
//! A node maps 1GB. Gap-tolerant entries stand side by side, 16 bytes each. The entry of a level-1
//! node stands at the beginning of the bytes that its 2MB have: 8, 16 or 32 of them, the rest being
//! zeros.

use perforate_mmu::TableMemory;
use perforate_types::{Frame, GT_PDE_BYTES, GapTolerance, PageSize, PhysicalAddress, VirtualPage};

use super::entry::GapTolerantEntry;

/// Bytes from the beginning of a node to the gap-tolerant entry that covers `page`.
#[inline]
pub(super) fn superpage_offset(mode: GapTolerance, page: VirtualPage) -> u64 {
    page.index_in(PageSize::Size1G) as u64 / mode.entry_pages() * GT_PDE_BYTES
}

/// Bytes from the beginning of a node to the entry of the level-1 node that covers `page`.
#[inline]
pub(super) fn table_offset(mode: GapTolerance, page: VirtualPage) -> u64 {
    let region = page.index_in(PageSize::Size1G) as u64 / PageSize::Size2M.pages();
    region * mode.directory_bytes_per_region()
}

/// Where the entry of the level-1 node that covers `page` lies in a node; `None` where a
/// gap-tolerant entry is in its place or in the padding behind it.
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
