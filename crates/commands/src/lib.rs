//! Actions of commands, for the command line, which has flags, and for Python, which has keywords. Options become a run here, and results become files; nothing is printed.
//!
//! - [`RunRequest`] is the specification of a run, and makes machine, memory and run of it;
//! - [`explain`] puts translations into words;
//! - [`write_text`] and [`ResultFolder`] write whole files or none;
//! - [`Failure`] says what went wrong, and whether the user or the run is to blame.

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
pub use result_folder::{Files, ResultFolder, Written};
pub use results::{json_lines, title};
pub use schemes::{schemes, with_free};
pub use settings::MachineSettings;
