//! Contracts between the kernel and the mechanisms that are implemented outside this crate.
//!
//! - A mechanism that maps memory in a special way is a [`Backer`], which its policy provides
//!   ([`crate::Policy::backers`]).
//! - A mechanism that translates pages in parallel with the page tables keeps its state in an
//!   [`Overlay`] of each address space. Before code changes how page tables map a page, it must
//!   notify the overlay.
//! - A mechanism whose page-table entries map more than 4KB in one piece has [`Extent`]s.
//! - [`HoledPages`] makes 2MB pages with holes.
//! - A [`FreeIndex`] is notified of every allocation and every free operation.

pub use crate::error::size;
pub use crate::kernel::{Backed, Backer, Core, Deferral, FirstTouch, Touch};
pub use crate::memory::{FreeIndex, PhysicalMemory, Recount, complement, expect};
pub use crate::space::{
    ALL_PAGES, AddressSpace, Area, Attributes, Departure, Entries, Extent, FrameVisitor, Holed,
    HoledPages, Large, LargePageAdvice, Mechanism, Overlay, OverlayMechanism, Part, Present,
    REGION_PAGES, SharedBlock, SpaceMut, Usage, allowed, covers, first_of, first_page, index_of,
    leaf, page_at, pages_of, region_of, regions_of, subpages_of, visit_entries, visit_run,
};
