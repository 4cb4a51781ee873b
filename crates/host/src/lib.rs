//! Measurements and predictions on the real machine that runs Perforate.
//!
//! - [`snapshot`] reads the memory of a machine or a process without stopping anything,
//! - [`accesses`] watches which memory a running process uses, by the accessed bits of its pages,
//! - [`machine`] describes the processor, the settings of large pages and the available memory,
//! - [`benchmark`] and [`program`] measure with and without large pages,
//! - [`counters`] counts cycles, instructions, TLB misses and walks in hardware, where it can,
//! - [`calibrate`] measures caches, memory and TLBs and writes a machine file of them,
//! - [`validate`] compares such measurements with simulations of the same code,
//! - [`verify`] runs a program as it is and with advice on large pages, and judges a prediction by that,
//! - [`layout`] gives a program's memory a layout of 4KB and 2MB pages.
//!
//! Nothing here changes a setting of the system; settings of processes end with them.

// Both preload libraries are compiled into the tests, and they have modules in common.
#![cfg_attr(test, allow(clippy::duplicate_mod))]

pub mod accesses;
pub mod benchmark;
pub mod calibrate;
pub mod counters;
mod error;
#[doc(hidden)]
pub mod hostile;
pub mod layout;
pub mod machine;
mod preloading;
mod proc;
mod process_settings;
pub mod program;
mod reporter;
pub mod snapshot;
pub mod validate;
pub mod verify;

// The preload libraries, compiled into this crate only for lints and tests.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../preload/parts.rs"]
mod preloaded;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../preload_advice/parts.rs"]
mod preloaded_advice;

pub use error::HostError;
pub use proc::Residency;
pub use reporter::Reporter;
