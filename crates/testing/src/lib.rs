//! Test support for several crates.
//!
//! - [`hostile`]: malformed input for every reader: seeds, and mutations of them.
//! - [`sequences`]: unusual but valid sequences of program events, also as traces.

#[cfg(feature = "hostile")]
pub mod hostile;
pub mod sequences;
