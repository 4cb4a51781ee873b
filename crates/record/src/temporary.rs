//! A recording that is deleted after use.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use crate::{RecordError, stop_on_interrupt};

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
        let folder = tempfile::Builder::new().prefix("perforate-").tempdir();
        let folder = folder.map_err(|error| {
            RecordError::file(std::env::temp_dir(), format!("cannot be written: {error}"))
        })?;
        let path = folder.path().join(file_name);
        Ok(Self { folder: Some(folder), path, stop: stop_on_interrupt()? })
    }

    /// The flag that Ctrl-C and SIGTERM set, for [`RecordOptions::stop`](crate::RecordOptions).
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// The path of the trace.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Forgets a Ctrl-C that ended the recording.
    pub fn forget_interrupt(&self) {
        self.stop.store(false, Ordering::Relaxed);
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
