//! For tests of several crates.
//!
//! - [`hostile`]: bytes for every reader, as seeds and mutations of them.
//! - [`sequences`]: odd but valid sequences of program events, and their traces.

#[cfg(feature = "hostile")]
pub mod hostile;
pub mod sequences;
