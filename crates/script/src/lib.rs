//! Policies as scripts in the language [Rhai](https://rhai.rs). The kernel's questions are
//! functions that a script may define; this crate calls these functions.
//!
//! - `facts`: arguments of the questions.
//! - `script`: reading, compiling and calling scripts.
//! - `sandbox`: limits on what a script may do, and for how long.
//! - `sort`: sorting with a script's comparison function.
//! - `place`: lines and columns in scripts.
//!
//! A script keeps no state between questions and has no access to a clock, files or random numbers,
//! so its answers depend only on the question. This crate checks the answers; the caller carries
//! them out.

mod error;
mod facts;
mod place;
mod sandbox;
mod script;
mod sort;
#[cfg(test)]
mod tests;

pub use error::ScriptError;
pub use facts::{AreaFacts, BlockFacts, Purpose, RegionFacts, VictimFacts, WayFacts};
pub use sandbox::{MOST_OPERATIONS, MOST_TEXT_BYTES};
pub use script::{Answered, HoleUse, Question, Script};
