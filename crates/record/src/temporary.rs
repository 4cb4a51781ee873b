//! A recording that is deleted after use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use crate::{RecordError, RecordOptions, stop_on_interrupt};

/// Exit code after Ctrl-C, as shells have it.
const INTERRUPTED: i32 = 130;

/// A path for a trace in a temporary folder, which is deleted with this value.
pub struct TemporaryTrace {
    folder: Option<TempDir>,
    path: PathBuf,
    stop: Arc<AtomicBool>,
}

impl TemporaryTrace {
    /// A path that ends with this file name. From now on Ctrl-C and SIGTERM only set a flag.
    ///
    /// # Errors
    /// If the folder cannot be made, or the signals cannot be handled.
    pub fn new(file_name: impl AsRef<Path>) -> Result<Self, RecordError> {
        Self::stopped_by(stop_on_interrupt()?, file_name)
    }

    /// Makes a path as [`TemporaryTrace::new`] does, for a caller that sets `stop` itself. Signals are not
    /// handled.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn stopped_by(
        stop: Arc<AtomicBool>,
        file_name: impl AsRef<Path>,
    ) -> Result<Self, RecordError> {
        let folder = tempfile::Builder::new().prefix("perforate-").tempdir();
        let folder = folder.map_err(|error| {
            RecordError::file(std::env::temp_dir(), format!("cannot be written: {error}"))
        })?;
        let path = folder.path().join(file_name);
        Ok(Self { folder: Some(folder), path, stop })
    }

    /// Records all of `program` to this trace, until Ctrl-C or SIGTERM. What the program prints goes to
    /// standard error.
    pub fn options(&self, program: Vec<OsString>) -> RecordOptions {
        RecordOptions {
            stop: Arc::clone(&self.stop),
            is_kept_when_stopped: false,
            prints_to_stderr: true,
            ..RecordOptions::new(&self.path, program)
        }
    }

    /// The path of the trace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A flag that Ctrl-C and SIGTERM set, for long work that can say itself how far it was.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Ends this process if Ctrl-C or SIGTERM came. Must be called regularly by long work on the
    /// trace, as the signals do not end the process by themselves any more.
    pub fn end_if_interrupted(&mut self) {
        if self.stop.load(Ordering::Relaxed) {
            drop(self.folder.take());
            std::process::exit(INTERRUPTED);
        }
    }
}
