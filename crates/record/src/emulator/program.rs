//! Search for the program to record and for the emulator.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::launch::plain_emulator;
use crate::RecordError;
use crate::file_kind::{FileKind, MAX_INTERPRETERS, START_BYTES, identify};

const EMULATOR: &str = "qemu-x86_64";
const STATIC_EMULATOR: &str = "qemu-x86_64-static";

/// Command line of a program; a script is replaced by its interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Path of the executable file that is loaded.
    pub program: PathBuf,
    /// Argument 0, the name under which the program is called.
    pub name: OsString,
    /// Arguments that follow argument 0.
    pub arguments: Vec<OsString>,
}

impl CommandLine {
    /// Appends the program's command line to the options of a command for an emulator.
    pub(crate) fn add_to(&self, emulator: &mut Command) {
        emulator.arg("-0").arg(&self.name).arg(&self.program).args(&self.arguments);
    }

    /// Makes a command that runs the program natively.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg0(&self.name).args(&self.arguments);
        command
    }
}

/// Finds a program as a shell does (the emulator itself does not search PATH) and checks that it can be
/// recorded. A script is replaced by its interpreter, with the script as an argument.
///
/// # Errors
/// If there is no such program, or it is not for Linux on x86-64.
pub fn find_program(words: &[OsString]) -> Result<CommandLine, RecordError> {
    let [name, arguments @ ..] = words else { return Err(RecordError::NoProgram) };
    let program = find_file(name)?;
    let mut line = CommandLine { program, name: name.clone(), arguments: arguments.to_vec() };
    for _ in 0..MAX_INTERPRETERS {
        let start = read_start(&line.program)?;
        let problem = |problem: String| RecordError::file(&line.program, problem);
        let FileKind::Script { interpreter, argument } = identify(&start).map_err(problem)? else {
            return Ok(line);
        };
        line.name = OsString::from_vec(interpreter.to_vec());
        let script = std::mem::replace(&mut line.program, find_file(&line.name)?);
        let argument = argument.map(|argument| OsString::from_vec(argument.to_vec()));
        let before = argument.into_iter().chain([script.into_os_string()]);
        line.arguments.splice(..0, before);
    }
    let problem = format!("a script of a script, more than {MAX_INTERPRETERS} times");
    Err(RecordError::file(line.program, problem))
}

fn read_start(path: &Path) -> Result<Vec<u8>, RecordError> {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(START_BYTES).read_to_end(&mut start));
    read.map_err(|error| RecordError::file(path, error.to_string()))?;
    Ok(start)
}

/// Finds the executable file with this path, or with this name in PATH.
fn find_file(name: &OsStr) -> Result<PathBuf, RecordError> {
    let in_path = !name.as_encoded_bytes().contains(&b'/');
    let found = if in_path { search_path(name) } else { Some(PathBuf::from(name)) };
    let problem = if in_path { "not found in PATH" } else { "not found" };
    let not_found = || RecordError::file(name, problem);
    let path = found.ok_or_else(not_found)?;
    let problem = |problem: &str| RecordError::file(&path, problem);
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_found()),
        Err(error) => return Err(problem(&error.to_string())),
    };
    if metadata.is_dir() {
        return Err(problem("a directory, not a program"));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(problem("not executable (chmod +x makes it so)"));
    }
    Ok(path)
}

/// Finds an emulator that supports plugins, at the path `given` by the user or otherwise in PATH.
pub fn find_emulator(given: Option<&Path>) -> Result<PathBuf, RecordError> {
    let Some(path) = given.map(Path::to_owned).or_else(|| search_path(OsStr::new(EMULATOR))) else {
        return Err(match search_path(OsStr::new(STATIC_EMULATOR)) {
            Some(path) => RecordError::EmulatorWithoutPlugins(path),
            None => RecordError::EmulatorMissing,
        });
    };
    let help = plain_emulator(&path).arg("-help").stdin(Stdio::null()).output();
    let help = help.map_err(|_| RecordError::EmulatorMissing)?.stdout;
    if String::from_utf8_lossy(&help).contains("-plugin") {
        Ok(path)
    } else {
        Err(RecordError::EmulatorWithoutPlugins(path))
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

    fn find(name: &OsStr) -> Result<CommandLine, RecordError> {
        find_program(&[name.to_owned(), "argument".into()])
    }

    fn message(name: &OsStr) -> String {
        find(name).unwrap_err().to_string()
    }

    #[test]
    fn files_that_cannot_be_recorded_are_explained_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8], mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path.into_os_string()
        };
        let endless = write("endless", b"", 0o755);
        let line = [b"#!", endless.as_encoded_bytes()].concat();
        write("endless", &line, 0o755);
        let whole = |name: &OsStr, problem: &str| {
            assert_eq!(message(name), format!("{}: {problem}", name.display()));
        };
        whole(&endless, &format!("a script of a script, more than {MAX_INTERPRETERS} times"));
        let lost = write("lost", b"#!/no/such/interpreter -x\n", 0o755);
        assert_eq!(message(&lost), "/no/such/interpreter: not found");
        assert!(message(&write("text", b"hello", 0o755)).contains("not a program"));
        whole(&write("plain", b"#!/bin/sh\n", 0o644), "not executable (chmod +x makes it so)");
        whole(folder.path().as_os_str(), "a directory, not a program");
        whole(folder.path().join("missing").as_os_str(), "not found");
        whole(Path::new(&lost).join("child").as_os_str(), "Not a directory (os error 20)");
        assert_eq!(find_program(&[]).unwrap_err().to_string(), RecordError::NoProgram.to_string());
        assert_eq!(message(OsStr::new("no-such-program")), "no-such-program: not found in PATH");
    }

    #[test]
    fn the_shell_is_found_and_a_script_becomes_its_interpreter() {
        let shell = find(OsStr::new("sh")).unwrap();
        assert!(shell.program.ends_with("sh"));
        assert_eq!((shell.name.to_str(), shell.arguments.len()), (Some("sh"), 1));
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#! /bin/sh -e -u \nexit\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let line = find(script.as_os_str()).unwrap();
        assert_eq!((line.program.to_str(), line.name.to_str()), (Some("/bin/sh"), Some("/bin/sh")));
        assert_eq!(
            line.arguments,
            [OsStr::new("-e -u"), script.as_os_str(), OsStr::new("argument")]
        );
    }

    #[test]
    fn an_emulator_without_plugins_is_refused() {
        let error = find_emulator(Some(Path::new("/bin/true"))).unwrap_err();
        assert!(error.to_string().ends_with("/bin/true has none; apt-get install qemu-user"));
        let error = find_emulator(Some(Path::new("/no/qemu"))).unwrap_err().to_string();
        assert!(error.ends_with("not installed; apt-get install qemu-user"));
    }
}
