//! The oracle: a reference translation that checks every scheme.
//!
//! The [`Oracle`] receives only the operating system's *truths*: which runs of pages are mapped to
//! which frames, unmapped, or protected. It stores the resulting mapping in an ordered map. It
//! knows no page tables, TLBs or mechanisms, so it shares neither code nor bugs with the code that
//! it checks.

mod check;
mod error;
mod extent;
mod oracle;
mod recent;

pub use check::Disagreement;
pub use error::{OracleError, Reason};
pub use extent::Extent;
pub use oracle::{Mapping, Oracle};
