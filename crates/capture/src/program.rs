//! Finding the program to record and the emulator to run it in.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::CaptureError;
use crate::elf::{self, Kind};

const EMULATOR: &str = "qemu-x86_64";
const STATIC_EMULATOR: &str = "qemu-x86_64-static";

/// Finds a program as a shell does (the emulator itself does not search PATH) and makes sure
/// that it can be recorded.
pub fn find_program(name: &OsStr) -> Result<PathBuf, CaptureError> {
    let in_path = !name.as_encoded_bytes().contains(&b'/');
    let found = if in_path { search_path(name) } else { Some(PathBuf::from(name)) };
    let not_found =
        || CaptureError::ProgramNotFound { name: name.to_string_lossy().into_owned(), in_path };
    let path = found.ok_or_else(not_found)?;
    let problem = |problem: String| CaptureError::Program { path: path.clone(), problem };
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_found()),
        Err(error) => return Err(problem(error.to_string())),
    };
    if metadata.is_dir() {
        return Err(problem("a directory, not a program".into()));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(problem("not executable (chmod +x makes it so)".into()));
    }
    let mut start = Vec::new();
    File::open(&path)
        .and_then(|file| file.take(256).read_to_end(&mut start))
        .map_err(|error| problem(error.to_string()))?;
    match elf::kind(&start) {
        Kind::X86_64 => Ok(path),
        Kind::Script(interpreter) => Err(problem(format!(
            "a script; record its interpreter: -- {interpreter} {}",
            path.display()
        ))),
        Kind::OtherElf(what) => Err(problem(format!("{what}; expected one for Linux on x86-64"))),
        Kind::Other => Err(problem("not a program; expected an ELF file for x86-64".into())),
    }
}

/// Finds an emulator that takes plugins: `given`, or the one in PATH.
pub fn find_emulator(given: Option<&Path>) -> Result<PathBuf, CaptureError> {
    let Some(path) = given.map(Path::to_owned).or_else(|| search_path(OsStr::new(EMULATOR))) else {
        return Err(match search_path(OsStr::new(STATIC_EMULATOR)) {
            Some(path) => CaptureError::EmulatorWithoutPlugins { path },
            None => CaptureError::EmulatorMissing,
        });
    };
    let help = Command::new(&path).arg("-help").stdin(Stdio::null()).output();
    let help = help.map_err(|_| CaptureError::EmulatorMissing)?.stdout;
    if String::from_utf8_lossy(&help).contains("-plugin") {
        Ok(path)
    } else {
        Err(CaptureError::EmulatorWithoutPlugins { path })
    }
}

fn search_path(name: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &OsStr) -> String {
        find_program(name).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_recorded_gets_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8], mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path.into_os_string()
        };
        let script = write("script", b"#!/bin/sh\n", 0o755);
        assert!(message(&script).contains("a script; record its interpreter: -- /bin/sh "));
        assert!(message(&write("text", b"hello", 0o755)).contains("not a program"));
        assert!(message(&write("plain", b"#!/bin/sh\n", 0o644)).contains("not executable"));
        assert!(message(folder.path().as_os_str()).contains("a directory"));
        let missing = folder.path().join("missing").into_os_string();
        assert!(message(&missing).ends_with("missing: not found"));
        assert_eq!(message(OsStr::new("no-such-program")), "no-such-program: not found in PATH");
    }

    #[test]
    fn the_shell_is_found() {
        assert!(find_program(OsStr::new("sh")).unwrap().ends_with("sh"));
    }

    #[test]
    fn an_emulator_without_plugins_is_refused() {
        let error = find_emulator(Some(Path::new("/bin/true"))).unwrap_err();
        assert!(error.to_string().ends_with("/bin/true has none; apt-get install qemu-user"));
        let error = find_emulator(Some(Path::new("/no/qemu"))).unwrap_err().to_string();
        assert!(error.ends_with("not installed; apt-get install qemu-user"));
    }
}
