//! Preload libraries: their files, their report, and the variables that make a program load them.

use std::ffi::{CStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use perforate_record::{MemoryFile, find_program, is_dynamically_linked};
use rustix::process::{getgid, getuid};

use crate::HostError;

/// Size of a library's report file in bytes.
const REPORT_BYTES: usize = 1 << 14;
/// Maximum length in bytes of the parameters in an environment variable; the kernel accepts 128KB.
pub(crate) const MAX_PARAMETERS: usize = 120_000;

/// Checks that a program loads preload libraries. `purpose` says what they do for programs: "layouts are given".
///
/// # Errors
/// If the program is not found, is statically linked, or has the privileges of another user (setuid).
pub(crate) fn check_preloading(program: &[OsString], purpose: &str) -> Result<(), HostError> {
    let line = find_program(program)?;
    let of_file = |error: io::Error| HostError::file(&line.program, error.to_string());
    let by_library =
        format!("and {purpose} by a library that is loaded before the program's own; expected");
    let problem = if !is_dynamically_linked(&line.program).map_err(of_file)? {
        format!("statically linked, {by_library} a program that the dynamic linker starts")
    } else if is_privileged(&line.program.metadata().map_err(of_file)?) {
        format!(
            "has the privileges of another user (setuid, setgid), {by_library} a program without them"
        )
    } else {
        return Ok(());
    };
    Err(HostError::Layout(format!("{}: {problem}", line.program.display())))
}

/// True if the kernel runs this file with the privileges of another user or group: then the dynamic linker
/// loads no library that the environment names.
fn is_privileged(file: &fs::Metadata) -> bool {
    let (mode, user, group) = (file.mode(), getuid().as_raw(), getgid().as_raw());
    mode & libc::S_ISUID != 0 && file.uid() != user
        || mode & libc::S_ISGID != 0 && file.gid() != group
}

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
    /// As for [`check_preloading`].
    pub fn new(
        program: &[OsString],
        name: &CStr,
        object: &[u8],
        purpose: &str,
    ) -> Result<Self, HostError> {
        check_preloading(program, purpose)?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    /// Files of another user, which only the superuser can make.
    #[test]
    fn programs_with_privileges_of_their_own_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let check = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            check_preloading(&[path.clone().into()], "advice is given").map_err(|e| e.to_string())
        };
        assert_eq!(check(0o4755), Ok(()), "the same user");
        if chown(&path, Some(getuid().as_raw() + 1), Some(getgid().as_raw() + 1)).is_err() {
            return println!("SKIPPED: only the superuser gives files away");
        }
        for mode in [0o4755, 0o2755] {
            let problem = check(mode).unwrap_err();
            assert!(problem.contains("has the privileges of another user"), "{problem}");
        }
        assert_eq!(check(0o755), Ok(()));
    }
}
