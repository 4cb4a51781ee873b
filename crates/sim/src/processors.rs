//! Account of the threads that simulate on this computer. Processors without a thread can take over
//! part of a run's work, which does not change its results.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// Number of threads that this process has reserved for simulating.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Reservation of simulating threads, released on drop. The field is their number.
pub(crate) struct Threads(usize);

impl Threads {
    /// Reserves `threads` threads, even if there are fewer processors.
    pub(crate) fn needed(threads: usize) -> Self {
        BUSY.fetch_add(threads, Ordering::Relaxed);
        Self(threads)
    }

    /// Reserves `threads` more threads if there are free processors for all of them; returns true
    /// on success.
    pub(crate) fn more_if_spare(&mut self, threads: usize) -> bool {
        let processors = available_parallelism().map_or(1, NonZero::get);
        let with_them = |busy: usize| busy.checked_add(threads).filter(|&all| all <= processors);
        let is_spare = BUSY.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_them).is_ok();
        self.0 += if is_spare { threads } else { 0 };
        is_spare
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        BUSY.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_all_processors_to_spare() {
        let mut threads = Threads::needed(1);
        assert!(!threads.more_if_spare(usize::MAX), "they cannot be counted");
        assert!(!threads.more_if_spare(1 << 20));
        assert_eq!(threads.0, 1);
        let processors = available_parallelism().map_or(1, NonZero::get);
        let mut others = Threads::needed(processors);
        assert!(!others.more_if_spare(1));
        assert!(BUSY.load(Ordering::Relaxed) > processors);
    }
}
