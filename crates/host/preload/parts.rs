//! Modules of the preload library; also compiled into this crate's tests.

mod begin;
mod extents;
mod heap;
mod hooks;
mod plan;
mod pool;
mod report;
pub mod system;
