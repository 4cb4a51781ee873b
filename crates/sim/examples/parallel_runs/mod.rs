//! Runs of examples that print claims, as many at once as there are processors.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use perforate_sim::SimError;

/// What all jobs come to, in their order; progress goes to standard error if that is a terminal.
///
/// # Errors
/// The first job's that went wrong.
pub fn run<J: Sync, T: Send>(
    what: &str,
    jobs: &[J],
    run_one: impl Fn(&J) -> Result<T, SimError> + Sync,
) -> Result<Vec<T>, SimError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcomes: Vec<Mutex<Option<Result<T, SimError>>>> =
        jobs.iter().map(|_| Mutex::new(None)).collect();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let is_shown = std::io::stderr().is_terminal();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let outcome = run_one(job);
                    let place = &outcomes[index];
                    *place.lock().expect("no run panics") = Some(outcome);
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if is_shown {
                        eprint!("\r\x1b[K{what}: {done} of {} runs", jobs.len());
                        let _ = std::io::stderr().flush();
                    }
                }
            });
        }
    });
    if is_shown {
        eprint!("\r\x1b[K");
    }
    let done = outcomes.into_iter().map(|place| place.into_inner().expect("no run panics"));
    done.map(|outcome| outcome.expect("every job was run")).collect()
}
