//! Errors of scripts, each as one line for the user.

use std::path::PathBuf;

use crate::place::Place;

/// Reason for which a policy script cannot be read or compiled, or did not answer a question of the kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The operating system could not read the script's file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the script.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The script's file is larger than the limit.
    #[error("{}: longer than {most_bytes} bytes; expected the few lines of a policy", path.display())]
    TooLong {
        /// Path of the script.
        path: PathBuf,
        /// Maximum size of a script in bytes.
        most_bytes: u64,
    },
    /// The script's file is not UTF-8 text.
    #[error("{}: line {line}: a byte that is not UTF-8; expected text", path.display())]
    NoText {
        /// Path of the script.
        path: PathBuf,
        /// Line of the first invalid byte, from 1.
        line: usize,
    },
    /// The script has a syntax error or uses a feature that policies may not use.
    #[error("{script}: {place}{problem}")]
    Compile {
        /// Name of the script.
        script: String,
        /// Position of the error in the script.
        place: Place,
        /// Description of the error and of what would be right.
        problem: String,
    },
    /// A function of the script failed while it ran.
    #[error("{script}: {place}{function}: {problem}")]
    Stopped {
        /// Name of the script.
        script: String,
        /// Position of the error in the script.
        place: Place,
        /// Name of the script function that the simulated kernel called.
        function: &'static str,
        /// Description of the failure of the script's function.
        problem: String,
    },
    /// A function of the script returned a value outside the permitted answers.
    #[error("{script}: {place}{function} answered {found}; expected {expected}")]
    Answer {
        /// Name of the script.
        script: String,
        /// Position at which the script defines the function.
        place: Place,
        /// Name of the script function that the simulated kernel called.
        function: &'static str,
        /// Value that the function returned.
        found: String,
        /// Description of the permitted answers.
        expected: String,
    },
}
