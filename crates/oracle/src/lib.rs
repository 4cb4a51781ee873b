//! Reference translation that every scheme is checked against.
//!
//! The [`Oracle`] hears the truth, which pages are mapped to which frames, and keeps an ordered map
//! of it. It knows no tables, no TLBs and no mechanism, so it shares no code and no mistake with
//! what it checks.

mod check;
mod error;
mod extent;
mod oracle;
mod recent;

pub use check::Disagreement;
pub use error::{OracleError, Reason};
pub use extent::Extent;
pub use oracle::{Mapping, Oracle};
