//! The contracts between the kernel and mechanisms, for those that stand outside this crate.
//!
//! A mechanism that maps memory in its own way is a [`Backer`], which its policy hands out
//! ([`crate::Policy::backers`]). One that translates pages beside the page tables keeps its state in
//! an [`Overlay`] of each address space: whatever changes how page tables map a page tells it first.

pub use crate::kernel::{Backed, Backer, Context, Core, Deferral, FirstTouch, Touch};
pub use crate::memory::{Recount, expect};
pub use crate::space::{
    ALL_PAGES, AddressSpace, Area, Attributes, Departure, Effects, FrameVisitor, Large, Overlay,
    OverlayMechanism, Present, REGION_PAGES, covers, first_of, page_at, pages_of, region_of,
    regions_of, subpages_of, visit_run,
};
