//! TLBs: set-associative arrays, and the first-level and second-level TLBs that consist of such
//! arrays.

mod compulsory;
mod contents;
mod l1;
mod l2;
mod set_associative;
mod sets;

pub(crate) use compulsory::WalkedPages;
pub use contents::L2Contents;
pub(crate) use l1::{L1Hit, L1Tlb};
pub use l2::EntryKind;
pub(crate) use l2::{L2Entry, L2Tlb, NESTED, SUBPAGES_PER_BITMAP_ENTRY, Tag};
pub use set_associative::SetAssociative;
