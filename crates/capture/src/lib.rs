//! Recording real programs.
//!
//! A program runs in QEMU's user-mode emulator with a plugin of ours inside it. The plugin
//! (`plugin/`, compiled by the build script and carried in the binary) writes 8-byte records to
//! rings in shared memory: blocks executed, addresses accessed, system calls. This crate takes
//! them out at the other end, decodes each instruction once, puts the threads' records in one
//! order, moves addresses to where Linux would have placed them, and writes a trace.
//!
//! Registers are numbered as told in [`registers`]. [`snapshot`] reads what Linux tells of a machine's
//! memory or a process's, without stopping either.

mod accesses;
mod address_space;
mod blocks;
mod decode;
mod elf;
mod error;
mod execution;
mod launch;
mod options;
mod output;
mod process;
mod program;
mod recorder;
pub mod registers;
mod relocation;
mod replay;
mod shared;
pub mod snapshot;
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
mod plugin;

pub use address_space::ADVICE_POPULATE_WRITE;
pub use error::CaptureError;
pub use options::{Ending, Progress, RecordOptions, RecordSummary};
pub use recorder::{record, stop_on_interrupt};
