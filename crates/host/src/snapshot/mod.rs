//! Snapshots of a machine's memory and of a process's, from `/proc`.
//!
//! Nothing is stopped or changed for them: what is read is read while the machine runs, so that
//! parts are of slightly different moments. Files can also be copies from another machine. What
//! cannot be read is said, with what that means.

mod contents;
mod host;
mod process;

pub use contents::PageContents;
pub use host::{HostFiles, read_host};
pub use process::{
    ProcessArea, ProcessContents, ProcessOptions, ProcessSnapshot, ProcessTotals, read_process,
};
