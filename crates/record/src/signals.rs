//! Signal handlers that begin and end recordings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::RecordError;

/// Exit code of the program after Ctrl-C, as in shells.
pub const INTERRUPTED: i32 = 130;

/// Returns a flag that is set at the first Ctrl-C (SIGINT) or SIGTERM, for
/// [`RecordOptions::stop`](crate::RecordOptions::stop).
///
/// # Errors
/// If the operating system refuses the signal handler.
pub fn stop_on_interrupt() -> Result<Arc<AtomicBool>, RecordError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        set_on_signal(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Returns a flag that SIGUSR1 sets, for [`Begin::WhenSet`](crate::Begin::WhenSet); SIGUSR2 sets the
/// flag `stop`.
///
/// # Errors
/// If the operating system refuses the signal handlers.
pub fn set_on_signals(stop: &Arc<AtomicBool>) -> Result<Arc<AtomicBool>, RecordError> {
    let begin = Arc::new(AtomicBool::new(false));
    for (signal, flag) in [(libc::SIGUSR1, &begin), (libc::SIGUSR2, stop)] {
        set_on_signal(signal, Arc::clone(flag))?;
    }
    Ok(begin)
}

/// Makes a write beyond the file-size limit (`ulimit -f`) fail like a write to a full disk. Otherwise,
/// the signal SIGXFSZ would kill the process. Programs that the process starts are not affected.
///
/// # Errors
/// If the operating system refuses the signal handler.
pub fn fail_at_file_size_limit() -> Result<(), RecordError> {
    set_on_signal(libc::SIGXFSZ, Arc::default())
}

/// Returns a flag that is set at the first Ctrl-C (SIGINT) or SIGTERM. The second signal ends the
/// process at once.
///
/// # Errors
/// If the operating system refuses the signal handler.
pub fn stop_or_end_on_interrupt() -> Result<Arc<AtomicBool>, RecordError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let flag = Arc::clone(&stop);
        let act = move || {
            if flag.swap(true, Ordering::SeqCst) {
                // SAFETY: `_exit` is async-signal-safe and runs no exit handlers.
                unsafe { libc::_exit(INTERRUPTED) }
            }
        };
        // SAFETY: the handler only swaps an atomic value and calls `_exit`: both are async-signal-safe.
        unsafe { register(signal, act) }?;
    }
    Ok(stop)
}

/// Registers a handler that sets `flag` when the process receives `signal`. Handlers that were
/// registered for the signal before stay.
fn set_on_signal(signal: i32, flag: Arc<AtomicBool>) -> Result<(), RecordError> {
    let act = move || flag.store(true, Ordering::SeqCst);
    // SAFETY: the handler only stores an atomic value, which is async-signal-safe.
    unsafe { register(signal, act) }
}

/// Registers `act` as a handler of `signal`, in addition to earlier handlers.
///
/// # Safety
/// `act` must be async-signal-safe.
unsafe fn register(signal: i32, act: impl Fn() + Sync + Send + 'static) -> Result<(), RecordError> {
    // SAFETY: promised by the caller.
    let registered = unsafe { signal_hook_registry::register(signal, act) };
    registered.map(drop).map_err(RecordError::system("handling signals"))
}
