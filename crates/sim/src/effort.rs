//! Limit on the operating system's work for events between which no instructions run. Otherwise a
//! few kilobytes of a malicious trace could request work for years.

use perforate_types::PageSize;

use crate::{MemoryState, SimError};

/// Number of pages that a workload's events, such as mmap and fork, may make the kernel process
/// before any instruction runs, in addition to [`MEMORY_SHARE`].
const PAGES: u64 = 1 << 23;
/// Number of times that a workload's events may make the kernel process all of memory before any
/// instruction runs. Programs populate their memory once, so they stay below the limit.
const MEMORY_SHARE: u64 = 2;
/// Number of pages that events may make the kernel process for each executed instruction. A program
/// that only forks and waits, with 1GB of 4KB pages, executes some thousand instructions for each
/// fork of 262,144 pages.
const PAGES_PER_INSTRUCTION: u64 = 256;

/// Work that a workload's events, such as mmap and fork, have requested of the kernel so far, and
/// its limit.
pub(crate) struct WorkLimit {
    /// Number of pages that the kernel has processed for events so far.
    pages: u64,
    /// Number of pages that the kernel may process for events before any instruction runs; skipped
    /// instructions raise it.
    free_pages: u64,
    events: u64,
}

impl WorkLimit {
    /// Creates the limit for a memory of this size, before any event has requested work.
    pub(crate) fn new(memory: &MemoryState) -> Self {
        let free_pages =
            PAGES + MEMORY_SHARE * (memory.kernel.memory_bytes / PageSize::Size4K.bytes());
        Self { pages: 0, free_pages, events: 0 }
    }

    /// Raises the limit for skipped instructions, because their events are still carried out.
    pub(crate) fn skip(&mut self, instructions: u64) {
        self.free_pages = self.free_pages.saturating_add(pages_allowed_for(instructions));
    }

    /// Adds the `pages` pages that the kernel processes for an event. `instruction` is the number
    /// of instructions executed before the event, which determines the limit.
    ///
    /// # Errors
    /// [`SimError::TooMuchAsked`] if the limit is exceeded.
    pub(crate) fn add(&mut self, pages: u64, instruction: u64) -> Result<(), SimError> {
        self.pages = self.pages.saturating_add(pages);
        self.events += 1;
        let most = self.free_pages.saturating_add(pages_allowed_for(instruction));
        if self.pages <= most {
            return Ok(());
        }
        let (workload, event) = (String::new(), self.events);
        Err(SimError::TooMuchAsked { workload, event, instruction, most })
    }
}

/// Returns the number of pages by which `instructions` executed instructions raise the limit.
fn pages_allowed_for(instructions: u64) -> u64 {
    instructions.saturating_mul(PAGES_PER_INSTRUCTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limit, before any instruction has run, for 64MB of memory, which contain 16,384 pages.
    const FREE: u64 = (1 << 23) + 2 * 16_384;

    #[test]
    fn instructions_done_or_skipped_make_up_for_pages() {
        let effort = || WorkLimit::new(&MemoryState::of(64 << 20));
        assert!(effort().add(FREE, 0).is_ok());
        assert!(effort().add(FREE + 256, 1).is_ok());
        let mut effort = effort();
        effort.skip(10);
        assert!(effort.add(FREE, 0).is_ok());
        assert!(effort.add(2560, 0).is_ok());
        let error = effort.add(1, 0).unwrap_err().to_string();
        assert!(error.contains("event 3, at instruction 0: "), "{error}");
        assert!(error.contains(&format!("more than {} pages", FREE + 2560)), "{error}");
    }
}
