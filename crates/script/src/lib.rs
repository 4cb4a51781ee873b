//! Policies as scripts, in the language [Rhai](https://rhai.rs): the kernel's questions are functions
//! that a script may define, and this crate asks them.
//!
//! - `facts`: what a question tells the script.
//! - `script`: reading, compiling and asking.
//! - `sandbox`: what a script may do, and how much of it.
//! - `sort`: sorting by a comparison of the script's.
//! - `place`: lines and columns.
//!
//! A script has no memory from one question to the next, no clock, no files and no random numbers, so
//! that its answers depend on the question alone. What becomes of answers is the caller's to say; here
//! they are only checked.

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
