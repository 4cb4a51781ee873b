//! Hostile input for every reader of Perforate.
//!
//! A [`Target`] hands bytes to one reader and uses what it gives; it panics where the reader
//! breaks a promise: a panic, an error of several lines, data out of bounds. Targets are run by
//! the test of this crate, with its own [`Mutator`], and by libFuzzer in `fuzz/`;
//! `docs/fuzzing.md` tells how.

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
