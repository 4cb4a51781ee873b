//! Snapshots of the memory of a machine and of a process, from `/proc`.
//!
//! Nothing is stopped or changed: files are read while the machine runs, so parts of a snapshot show
//! slightly different moments. The files can also be copies from another machine. A snapshot lists
//! unreadable files, with the consequences.

mod contents;
mod host;
mod process;

pub use contents::PageContents;
pub use host::{HostFiles, read_host};
pub use process::{ProcessOptions, read_process};
