//! Modules of the preload library; also compiled into this crate's tests.

mod begin;
mod environment;
mod extents;
mod heap;
mod hooks;
mod plan;
mod pool;
#[allow(dead_code)] // the library for advice uses the rest
mod report;
#[allow(dead_code)] // as above
pub mod system;
mod words;
