//! The program that runs: its own file, and the words that start it again.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A program that is not the executable of its process, such as a module in an interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file with its code.
    pub file: PathBuf,
    /// Words that start the program as a command, before the command's arguments.
    pub words: Vec<OsString>,
}

static HOSTED: OnceLock<Program> = OnceLock::new();

impl Program {
    /// Says that this program runs in another's process. The first that says so is it.
    pub fn set(self) {
        let _ = HOSTED.set(self);
    }

    /// The program that runs: the one that said so, else the executable of this process.
    ///
    /// # Errors
    /// The system does not tell which executable it is.
    pub fn own() -> io::Result<Self> {
        match HOSTED.get() {
            Some(program) => Ok(program.clone()),
            None => {
                let file = env::current_exe()?;
                Ok(Self { words: vec![file.clone().into()], file })
            }
        }
    }
}
