//! The contracts between the kernel and mechanisms, for those that stand outside this crate.
//!
//! A mechanism that maps memory in its own way is a [`Backer`], which its policy hands out
//! ([`crate::Policy::backers`]). One that translates pages beside the page tables keeps its state in
//! an [`Overlay`] of each address space: whatever changes how page tables map a page tells it first.
//! One whose page-table entries map more than 4KB as one has [`Extent`]s;
//! 2MB pages with holes are made by [`HoledPages`]. A [`FreeIndex`] is told of
//! all that the allocator does.

pub use crate::error::size;
pub use crate::kernel::{Backed, Backer, Context, Core, Deferral, FirstTouch, Touch};
pub use crate::memory::{FreeIndex, PhysicalMemory, Recount, complement, expect};
pub use crate::space::{
    ALL_PAGES, AddressSpace, Area, Attributes, Departure, Detacher, Effects, Entries, Extent,
    FrameVisitor, Holed, HoledPages, Large, LargePageAdvice, Mechanism, Overlay, OverlayMechanism,
    Part, Present, REGION_PAGES, SharedBlock, Usage, allowed, covers, first_of, first_page,
    index_of, leaf, page_at, pages_of, region_of, regions_of, subpages_of, visit_entries,
    visit_run,
};
