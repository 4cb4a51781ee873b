//! What can be wrong with a script, each as one line for the user.

use std::path::PathBuf;

use crate::place::Place;

/// Why a script cannot be read or compiled, or why it did not answer a question.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is longer than any policy.
    #[error("{}: longer than {most_bytes} bytes; expected the few lines of a policy", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The longest that is read.
        most_bytes: u64,
    },
    /// The file is no text.
    #[error("{}: line {line}: a byte that is not UTF-8; expected text", path.display())]
    NoText {
        /// The file.
        path: PathBuf,
        /// The line of the first such byte.
        line: usize,
    },
    /// The script is not of the language, or does what no policy may.
    #[error("{script}: {place}{problem}")]
    Compile {
        /// The script.
        script: String,
        /// Where in it.
        place: Place,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A function stopped without an answer.
    #[error("{script}: {place}{function}: {problem}")]
    Stopped {
        /// The script.
        script: String,
        /// Where in it.
        place: Place,
        /// The function that was asked.
        function: &'static str,
        /// What happened.
        problem: String,
    },
    /// A function answered what nobody offered.
    #[error("{script}: {place}{function} answered {found}; expected {expected}")]
    Answer {
        /// The script.
        script: String,
        /// Where the function begins.
        place: Place,
        /// The function that was asked.
        function: &'static str,
        /// What it answered.
        found: String,
        /// What would be right.
        expected: String,
    },
}
