//! Fuzzing with malformed input for every reader (parser) of Perforate.
//!
//! A [`Target`] passes bytes to one reader and uses the result. It panics if the reader panics,
//! reports an error of several lines, or returns data out of bounds. Targets are run by the test of
//! this crate, with the [`Mutator`], and by libFuzzer in `fuzz/`; see `docs/fuzzing.md`.

mod mutator;
mod random;
mod target;
mod targets;
mod unpacked;

pub use mutator::Mutator;
pub use random::Random;
pub use target::{Seeds, Target};
pub use targets::{TARGETS, find};
pub use unpacked::{pack, unpack};
