//! The timing model, from outside.

mod config;
mod core;
mod machine;
mod memory;
mod monotone;
mod translation;
