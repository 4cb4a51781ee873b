//! The timing model, from outside.

mod config;
mod core;
mod counters;
mod cycle_stack;
mod kept;
mod machine;
mod memory;
mod monotone;
mod processors;
mod sums;
mod translation;
mod warming;
