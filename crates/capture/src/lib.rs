//! Recording real programs.
//!
//! A program runs in QEMU's user-mode emulator with a plugin of ours inside it. The plugin
//! (`plugin/`, compiled by the build script and carried in the binary) writes 8-byte records to
//! rings in shared memory: blocks executed, addresses accessed, system calls. It follows forks
//! and new programs (execve), so a whole tree of processes is recorded. This crate takes the
//! records out at the other end, decodes each instruction once, puts the records of all threads
//! of all processes in one order, moves addresses to where Linux would have placed them, and
//! writes a trace.
//!
//! Registers are numbered as told in [`registers`]. [`snapshot`] looks at a machine's memory or a
//! process's without stopping either, [`native`] measures programs on this machine; what all of
//! them read in `/proc` is read in [`proc`].

mod accesses;
mod address_space;
mod blocks;
mod decode;
mod elf;
mod error;
mod execution;
#[doc(hidden)]
pub mod hostile;
mod images;
mod launch;
pub mod native;
mod options;
mod output;
mod overhead;
pub mod proc;
mod process;
mod program;
mod questions;
mod recorder;
mod region;
pub mod registers;
mod relocation;
mod replay;
mod shared;
pub mod snapshot;
mod spool;
mod syscalls;

// Shared with the plugin, which is compiled by itself.
#[path = "../plugin/layout.rs"]
mod layout;
#[allow(dead_code)] // The plugin uses the rest.
#[path = "../plugin/record.rs"]
mod record;
// Here only for the lints and tests; it calls functions that only the emulator has.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../plugin/plugin.rs"]
pub(crate) mod plugin;

pub use address_space::ADVICE_POPULATE_WRITE;
pub use error::CaptureError;
pub use options::{
    Ending, ProcessSummary, Progress, RecordOptions, RecordSummary, Sampling, Selection,
};
pub use overhead::{Overhead, RunTime, measure_overhead};
pub use recorder::{record, stop_on_interrupt};
pub use region::{MARKER_HEADER, Region};
