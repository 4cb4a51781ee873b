//! Long work on a separate thread. The calling thread waits without the interpreter's lock, checks for
//! Ctrl-C, and reports the progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use perforate_cli::actions::{Failure, catching};
use perforate_host::Reporter;
use perforate_sim::Progress;
use pyo3::prelude::*;

use crate::errors::failed;

/// Time between two checks for signals during the work.
const CHECK_PERIOD: Duration = Duration::from_millis(50);
/// Maximum time that is waited for the end of cancelled work. Work that does not check the flag meanwhile,
/// such as the set-up of memory, ends later.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);

/// Progress of work, and the request to cancel it, which the working and the waiting thread share.
#[derive(Clone, Default)]
pub struct WorkState {
    /// True if the work is to be cancelled.
    pub stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    total: Arc<AtomicU64>,
}

/// Panic payload that ends cancelled work.
struct Cancelled;

impl WorkState {
    /// Stores the progress, for the thread that reports it.
    pub fn show(&self, progress: Progress) {
        self.done.store(progress.done, Ordering::Relaxed);
        self.total.store(progress.total.unwrap_or(0), Ordering::Relaxed);
    }
}

/// Measurements do not check the flag `stop`: they are cancelled by unwinding.
impl Reporter for WorkState {
    fn stage(&mut self, _: &str, _: &'static str) {
        self.progress(Progress { done: 0, total: None });
    }

    fn progress(&mut self, progress: Progress) {
        if self.stop.load(Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new(Cancelled));
        }
        self.show(progress);
    }
}

/// Runs a job on a thread. Whenever the progress changes, `progress` is called with the amount done and the
/// total, or `None` if it is unknown. Ctrl-C and exceptions of `progress` cancel the job.
pub fn work<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&WorkState) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let state = WorkState::default();
    let (sender, receiver) = channel();
    let own = state.clone();
    let spawned = thread::Builder::new().name("perforate".into()).spawn(move || {
        let outcome = catching(|| job(&own));
        // The receiver is gone if the job was cancelled.
        let _ = sender.send(outcome);
    });
    spawned.map_err(|error| failed(py, &no_thread(error)))?;
    let receiver = Mutex::new(receiver);
    let mut shown = (0, 0);
    loop {
        match py.detach(|| wait(&receiver, CHECK_PERIOD)) {
            Ok(outcome) => return outcome.map_err(|failure| failed(py, &failure)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(lost_thread(py)),
        }
        let now = (state.done.load(Ordering::Relaxed), state.total.load(Ordering::Relaxed));
        let checked = py.check_signals().and_then(|()| match progress.filter(|_| now != shown) {
            Some(progress) => progress.call1((now.0, (now.1 > 0).then_some(now.1))).map(|_| ()),
            None => Ok(()),
        });
        shown = now;
        if let Err(error) = checked {
            state.stop.store(true, Ordering::Relaxed);
            drop(py.detach(|| wait(&receiver, CANCEL_TIMEOUT)));
            return Err(error);
        }
    }
}

/// Waits for a message from `receiver`, at most for `time`.
pub fn wait<T>(receiver: &Mutex<Receiver<T>>, time: Duration) -> Result<T, RecvTimeoutError> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time)
}

/// Runs a short job on this thread. A failure or a panic becomes an exception.
pub fn guarded<T>(py: Python<'_>, job: impl FnOnce() -> Result<T, Failure>) -> PyResult<T> {
    catching(job).map_err(|failure| failed(py, &failure))
}

/// Makes the failure that a thread cannot be started.
pub fn no_thread(source: std::io::Error) -> Failure {
    Failure::Machine { action: "starting a thread", source }
}

/// Makes the exception for a thread that ended without a result.
pub fn lost_thread(py: Python<'_>) -> PyErr {
    failed(py, &Failure::Internal("a thread ended without a result".into()))
}
