//! Reference translation that every scheme is checked against.
//!
//! The [`Oracle`] hears the same mapping changes as the memory-management unit and keeps ordered
//! maps of what they mean. It knows no table nodes, no TLBs and no bitmaps, so it shares no code
//! and no mistake with what it checks.

mod check;
mod error;
mod extent;
mod oracle;
mod recent;
mod segment;
mod superpage;

pub use check::Disagreement;
pub use error::{OracleError, Reason};
pub use extent::Extent;
pub use oracle::{Mapping, Oracle};
pub use segment::Segment;
pub use superpage::Superpages;
