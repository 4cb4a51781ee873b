//! Snapshots of a machine's memory and of a process's, from `/proc`.
//!
//! Nothing is stopped or changed: files are read while the machine runs, so that parts of a snapshot
//! are of slightly different moments. The files can also be copies from another machine. A snapshot
//! lists the files that could not be read, with the consequences.

mod contents;
mod host;
mod process;

pub use contents::PageContents;
pub use host::{HostFiles, read_host};
pub use process::{ProcessOptions, read_process};
