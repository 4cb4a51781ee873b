//! Actions behind commands, shared by the command line (flags) and Python (keywords). They turn
//! options into a run, and results into files. They print nothing.
//!
//! - [`RunRequest`] specifies a run, and resolves its machine, memory and workload;
//! - [`explain`] describes translations step by step;
//! - [`write_text`] and [`ResultFolder`] write files completely or not at all;
//! - [`Failure`] describes an error, and gives its exit code.

pub mod advice;
mod explain;
mod failure;
mod files;
mod keywords;
mod machines;
mod own_memory;
mod panics;
mod request;
mod result_folder;
mod results;
mod schemes;
mod settings;
mod virtual_machine;

pub use explain::{Explanations, Question, explain};
pub use failure::Failure;
pub use files::{write_text, write_whole};
pub use keywords::with_keywords;
pub use machines::{load_machine, machine_file};
pub use own_memory::own_memory;
pub use panics::catching;
pub use request::{RunRequest, WithError};
pub use result_folder::{Files, REPORT, RESULTS, ResultFolder, Written};
pub use results::{json_lines, title};
pub use schemes::{schemes, with_free};
pub use settings::MachineSettings;
