//! Preload libraries: their files, their report, and the variables that make a program load them.

use std::ffi::{CStr, OsString};
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use perforate_record::{MemoryFile, find_program, is_dynamically_linked};

use crate::HostError;

/// Size of a library's report file in bytes.
const REPORT_BYTES: usize = 1 << 14;
/// Maximum length in bytes of the parameters in an environment variable; the kernel accepts 128KB.
pub(crate) const MAX_PARAMETERS: usize = 120_000;

/// A preload library and its report, as files in memory (memfd).
pub(crate) struct PreloadLibrary {
    library: MemoryFile,
    report: MemoryFile,
}

impl PreloadLibrary {
    /// Prepares a library with this object file for a program, which must be dynamically linked. `purpose`
    /// says what the library does for programs: "layouts are given".
    ///
    /// # Errors
    /// If the program is not found, or is statically linked.
    pub fn new(
        program: &[OsString],
        name: &CStr,
        object: &[u8],
        purpose: &str,
    ) -> Result<Self, HostError> {
        let line = find_program(program)?;
        let path = line.program.display();
        match is_dynamically_linked(&line.program) {
            Ok(true) => {}
            Ok(false) => {
                return Err(HostError::Layout(format!(
                    "{path}: statically linked, and {purpose} by a library that is loaded before the \
                     program's own; expected a program that the dynamic linker starts"
                )));
            }
            Err(error) => return Err(HostError::file(&line.program, error.to_string())),
        }
        Ok(Self {
            library: MemoryFile::with_content(name, object)?,
            report: MemoryFile::with_content(c"perforate-report", &[0; REPORT_BYTES])?,
        })
    }

    /// Variable that makes a program load the library before those that the user preloads.
    pub fn variable(&self) -> (String, OsString) {
        let mut libraries = self.library.path().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        ("LD_PRELOAD".into(), libraries)
    }

    /// Path of the report file for the library.
    pub fn report_path(&self) -> PathBuf {
        self.report.path()
    }

    /// Clears the library's report of the previous run.
    pub fn clear_report(&self) -> Result<(), HostError> {
        // The size of the file is sealed, so the bytes are overwritten.
        let file = fs::OpenOptions::new().write(true).open(self.report.path());
        let cleared = file.and_then(|mut file| file.write_all(&[0; REPORT_BYTES]));
        cleared.map_err(HostError::system("clearing the report of a preload library"))
    }

    /// Words of the library's current report.
    pub fn report(&self) -> Result<Vec<u64>, HostError> {
        let bytes = fs::read(self.report.path());
        let bytes = bytes.map_err(HostError::system("reading the report of a preload library"))?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
    }
}
