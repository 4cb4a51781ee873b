//! Recorder of real programs.
//!
//! A program runs in QEMU's user-mode emulator, with Perforate's plugin. The plugin (`plugin/`,
//! compiled by the build script and embedded in the binary) writes 8-byte records to rings in shared
//! memory: executed blocks, accessed addresses, system calls. It follows fork and execve, so the whole
//! process tree is recorded. This crate drains the rings, decodes each instruction once, merges the
//! records of all threads of all processes into one order, relocates addresses to where Linux would
//! have placed them, and writes a trace.
//!
//! The module `emulator` starts the emulator and drains its rings, `instructions` decodes the code,
//! `replay` merges the threads, and [`record`](record()) runs a recording from start to end.
//! [`process_memory`] reads `/proc/PID/maps` and `/proc/PID/pagemap`.

mod emulator;
mod error;
#[doc(hidden)]
pub mod hostile;
mod instructions;
mod options;
mod overhead;
pub mod process_memory;
mod recorder;
mod region;
mod replay;
mod signals;
mod temporary;
mod thinning;

// Shared with the plugin, which is compiled separately.
#[path = "../plugin/environment.rs"]
#[allow(dead_code)] // The plugin uses the rest.
mod environment;
#[path = "../plugin/file_kind.rs"]
mod file_kind;
#[path = "../plugin/large_mappings.rs"]
mod large_mappings;
#[path = "../plugin/layout.rs"]
mod layout;
#[allow(dead_code)] // The plugin uses the rest.
#[path = "../plugin/record.rs"]
mod record;
#[allow(dead_code)] // The plugin uses the rest.
#[path = "../plugin/system_calls.rs"]
mod system_calls;
#[path = "../plugin/windows.rs"]
#[allow(dead_code)] // The plugin uses the rest.
mod windows;
// The plugin, compiled here only for lints and tests, because it calls functions that only the emulator
// has.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../plugin/plugin.rs"]
pub(crate) mod plugin;

pub use emulator::executable::is_dynamically_linked;
pub use emulator::program::{CommandLine, find_program};
pub use emulator::shared::MemoryFile;
pub use error::RecordError;
pub use layout::{MARKER_BEGIN, MARKER_END};
pub use options::{
    Begin, Ending, ProcessSummary, Progress, RecordOptions, RecordSummary, Sampling, Selection,
};
pub use overhead::{Overhead, RunTime, measure_overhead};
pub use recorder::record;
pub use region::{MARKER_HEADER, Region};
pub use signals::{
    INTERRUPTED, fail_at_file_size_limit, set_on_signals, stop_on_interrupt,
    stop_or_end_on_interrupt,
};
pub use temporary::TemporaryTrace;
