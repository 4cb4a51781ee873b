//! The running program: its file, and the command that starts it again.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The running program: the executable of this process, or a module of an interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// File with the program's code: the executable, or the library of the module.
    pub file: PathBuf,
    /// Command line that starts the program, up to the program's arguments.
    pub command: Vec<OsString>,
}

static EMBEDDED: OnceLock<Program> = OnceLock::new();

impl Program {
    /// Declares that this program is embedded in another process. Only the first call has an effect.
    pub fn set(self) {
        let _ = EMBEDDED.set(self);
    }

    /// The program that was declared by [`Self::set`], or the executable of this process.
    ///
    /// # Errors
    /// The path of the executable is unknown.
    pub fn own() -> io::Result<Self> {
        match EMBEDDED.get() {
            Some(program) => Ok(program.clone()),
            None => {
                let file = env::current_exe()?;
                Ok(Self { command: vec![file.clone().into()], file })
            }
        }
    }
}
