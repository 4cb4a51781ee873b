//! Long work on a thread of its own. The thread that called waits without the interpreter's lock, hears
//! of Ctrl-C, and tells of progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use perforate_commands::{Failure, catching};
use perforate_host::Reporter;
use perforate_sim::Progress;
use pyo3::prelude::*;

use crate::errors::{exception, failed};

/// Time between two looks for signals.
const LOOK: Duration = Duration::from_millis(50);
/// Time that work has to end once it is told to. Memory that is being set up hears nothing; its thread
/// is left alone and ends when it listens again.
const PATIENCE: Duration = Duration::from_millis(500);

/// What work says while it runs, and is told.
#[derive(Clone, Default)]
pub struct Talk {
    /// Set once the result is no longer wanted.
    pub stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    total: Arc<AtomicU64>,
}

/// Unwinds work that is no longer wanted, where it cannot be told.
struct Unwanted;

impl Talk {
    /// Says how far the work is.
    pub fn show(&self, progress: Progress) {
        self.done.store(progress.done, Ordering::Relaxed);
        self.total.store(progress.total.unwrap_or(0), Ordering::Relaxed);
    }
}

/// Measurements have no flag that ends them: they are unwound.
impl Reporter for Talk {
    fn stage(&mut self, _: &str, _: &'static str) {
        self.progress(Progress { done: 0, total: None });
    }

    fn progress(&mut self, progress: Progress) {
        if self.stop.load(Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new(Unwanted));
        }
        self.show(progress);
    }
}

/// Does the work; `progress` is called with what is done, and of how much where that is known, while it
/// changes. Ctrl-C, and exceptions of `progress`, stop the work.
pub fn work<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&Talk) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let talk = Talk::default();
    let (sender, receiver) = channel();
    let own = talk.clone();
    let spawned = thread::Builder::new().name("perforate".into()).spawn(move || {
        let outcome = catching(|| job(&own));
        // Whoever asked may have gone.
        let _ = sender.send(outcome);
    });
    spawned.map_err(|error| exception(py, "RunError", format!("starting a thread: {error}")))?;
    let receiver = Mutex::new(receiver);
    let mut shown = (0, 0);
    loop {
        match py.detach(|| wait(&receiver, LOOK)) {
            Ok(outcome) => return outcome.map_err(|failure| failed(py, &failure)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(exception(py, "InternalError", "a thread ended without a word".into()));
            }
        }
        let now = (talk.done.load(Ordering::Relaxed), talk.total.load(Ordering::Relaxed));
        let heard = py.check_signals().and_then(|()| match progress.filter(|_| now != shown) {
            Some(progress) => progress.call1((now.0, (now.1 > 0).then_some(now.1))).map(|_| ()),
            None => Ok(()),
        });
        shown = now;
        if let Err(error) = heard {
            talk.stop.store(true, Ordering::Relaxed);
            // Whatever comes of it is not wanted.
            drop(py.detach(|| wait(&receiver, PATIENCE)));
            return Err(error);
        }
    }
}

/// Waits for what is sent to the one thread that has the receiver.
pub fn wait<T>(receiver: &Mutex<Receiver<T>>, time: Duration) -> Result<T, RecvTimeoutError> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time)
}

/// Does short work on this thread; a panic becomes an exception.
pub fn guarded<T>(py: Python<'_>, job: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catching(|| Ok(job())).unwrap_or_else(|failure| Err(failed(py, &failure)))
}
