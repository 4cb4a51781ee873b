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

#[cfg(test)]
mod tests {
    use super::*;

    /// The temporary folder belongs to the whole process, so the test runs itself with a missing one.
    #[test]
    fn an_error_names_the_temporary_folder_and_not_the_trace() {
        let missing = "/nowhere/perforate";
        if std::env::temp_dir() == Path::new(missing) {
            let made = TemporaryTrace::stopped_by(Arc::default(), "a.trace");
            let error = made.err().expect("no folder").to_string();
            let expected = format!("{missing}: cannot be written: No such file or directory");
            assert!(error.starts_with(&expected), "{error}");
            return;
        }
        let mut itself = std::process::Command::new(std::env::current_exe().expect("its path"));
        let name = "temporary::tests::an_error_names_the_temporary_folder_and_not_the_trace";
        let found = itself.args(["--exact", name]).env("TMPDIR", missing).output().expect("a test");
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));
        assert!(String::from_utf8_lossy(&found.stdout).contains("1 passed"));
    }

    #[test]
    fn options_record_all_of_a_program_until_the_stop() {
        let stop = Arc::<AtomicBool>::default();
        let trace = TemporaryTrace::stopped_by(Arc::clone(&stop), "a.trace").unwrap();
        let options = trace.options(vec!["program".into()]);
        assert_eq!((&*options.output, &options.program), (trace.path(), &vec!["program".into()]));
        assert_eq!((options.is_kept_when_stopped, options.prints_to_stderr), (false, true));
        stop.store(true, Ordering::Relaxed);
        assert!(options.stop.load(Ordering::Relaxed) && trace.stop().load(Ordering::Relaxed));
        let folder = trace.path().parent().unwrap().to_owned();
        assert!(folder.is_dir() && trace.path().ends_with("a.trace"));
        drop(trace);
        assert!(!folder.exists());
    }
}
