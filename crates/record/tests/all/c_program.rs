//! C programs that tests record.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::emulator_is_missing;

/// A compiled C program in its own folder. Dropping the value deletes the folder.
pub struct CProgram {
    folder: TempDir,
    path: String,
}

impl CProgram {
    /// Compiles a program to record. `None`, with a printed reason, if the compiler or the emulator is
    /// missing.
    pub fn new(source: &str, flags: &[&str]) -> Option<Self> {
        if emulator_is_missing() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = compile(folder.path(), source, flags)?;
        Some(Self { folder, path })
    }

    /// Path of the program.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Folder of the program, which may also contain its recordings.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Compiles a C program in a folder. `None`, with a printed reason, if there is no compiler.
pub fn compile(folder: &Path, source: &str, flags: &[&str]) -> Option<String> {
    let (file, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&file, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(flags).arg("-O1").arg("-o").arg(&program).arg(&file);
    if !compiler.status().is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler");
        return None;
    }
    Some(program.to_str().unwrap().to_owned())
}
