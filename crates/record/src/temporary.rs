//! Recordings that are deleted after use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use crate::signals::INTERRUPTED;
use crate::{RecordError, RecordOptions, stop_on_interrupt};

/// Path for a trace in a temporary folder, which is deleted when the value is dropped.
pub struct TemporaryTrace {
    folder: Option<TempDir>,
    path: PathBuf,
    stop: Arc<AtomicBool>,
}

impl TemporaryTrace {
    /// Makes a path that ends with this file name. From now on, Ctrl-C and SIGTERM only set the flag
    /// [`Self::stop`].
    ///
    /// # Errors
    /// If the folder cannot be made, or the signals cannot be handled.
    pub fn new(file_name: impl AsRef<Path>) -> Result<Self, RecordError> {
        Self::stopped_by(stop_on_interrupt()?, file_name)
    }

    /// Like [`TemporaryTrace::new`], for a caller that sets `stop` itself. Signals are not handled.
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

    /// Makes options for recording all of `program` to this trace, until Ctrl-C or SIGTERM. The program's
    /// output goes to standard error.
    pub fn options(&self, program: Vec<OsString>) -> RecordOptions {
        RecordOptions {
            stop: Arc::clone(&self.stop),
            is_kept_when_stopped: false,
            prints_to_stderr: true,
            ..RecordOptions::new(&self.path, program)
        }
    }

    /// Path of the temporary trace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flag that Ctrl-C and SIGTERM set, for long work that reports its own interruption.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Ends this process if Ctrl-C or SIGTERM was received. Long work on the trace must call this
    /// regularly, because these signals do not end the process any more.
    pub fn end_if_interrupted(&mut self) {
        if self.stop.load(Ordering::Relaxed) {
            drop(self.folder.take());
            std::process::exit(INTERRUPTED);
        }
    }
}
