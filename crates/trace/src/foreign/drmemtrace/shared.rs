//! State that the readers of all files of a drmemtrace trace share, bounded for all files together.

use std::collections::HashMap;

use super::encoding::Known;
use crate::foreign::foreign_source::{FillerLimit, SwitchTracker};

/// Maximum number of threads for which the reader remembers the process.
const MAX_THREADS: usize = 1 << 16;

/// Threads, processes and code of a trace, as far as its files have been read.
pub(super) struct Shared {
    pub(super) running: SwitchTracker,
    pub(super) known: Known,
    /// Limit on the bytes of time stamps and other markers, which produce no instruction.
    pub(super) filler: FillerLimit,
    /// Process of each thread, by thread number.
    processes: HashMap<u64, u64>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            running: SwitchTracker::default(),
            known: Known::default(),
            filler: FillerLimit::new("time stamps and other markers"),
            processes: HashMap::new(),
        }
    }
}

impl Shared {
    pub(super) fn process_of(&self, thread: u64) -> Option<u64> {
        self.processes.get(&thread).copied()
    }

    pub(super) fn note_process(&mut self, thread: u64, process: u64) {
        if self.processes.len() >= MAX_THREADS {
            self.processes.clear();
        }
        self.processes.insert(thread, process);
    }
}
