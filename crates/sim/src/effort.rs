//! A bound on what events may ask of the operating system where no instructions run: a few kilobytes
//! of a trace can ask for years of it.

use perforate_types::PageSize;

use crate::{MemoryState, SimError};

/// Pages that events may have the kernel look at without instructions, besides [`MEMORY_SHARE`].
const PAGES: u64 = 1 << 23;
/// How often they may have it look at all of the memory. Programs bring it in once.
const MEMORY_SHARE: u64 = 2;
/// Pages more for every instruction. A program that does nothing but fork and wait, with 1GB of 4KB
/// pages, takes some thousand instructions for each time.
const PAGES_PER_INSTRUCTION: u64 = 256;

/// What events have asked for, and what they may.
pub(crate) struct Effort {
    /// Pages looked at.
    pages: u64,
    /// Pages that no instruction is needed for.
    free: u64,
    events: u64,
}

impl Effort {
    /// Nothing was asked for.
    pub(crate) fn new(memory: &MemoryState) -> Self {
        let free = PAGES + MEMORY_SHARE * (memory.kernel.memory_bytes / PageSize::Size4K.bytes());
        Self { pages: 0, free, events: 0 }
    }

    /// So many instructions were passed over, whose events come all the same.
    pub(crate) fn skip(&mut self, instructions: u64) {
        self.free = self.free.saturating_add(of_instructions(instructions));
    }

    /// Adds an event that comes after so many instructions, and the pages that it asks for.
    ///
    /// # Errors
    /// If it is too much.
    pub(crate) fn add(&mut self, pages: u64, instruction: u64) -> Result<(), SimError> {
        self.pages = self.pages.saturating_add(pages);
        self.events += 1;
        let most = self.free.saturating_add(of_instructions(instruction));
        if self.pages <= most {
            return Ok(());
        }
        let (workload, event) = (String::new(), self.events);
        Err(SimError::TooMuchAsked { workload, event, instruction, most })
    }
}

/// The pages that so many instructions may ask for.
fn of_instructions(instructions: u64) -> u64 {
    instructions.saturating_mul(PAGES_PER_INSTRUCTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64MB are 16,384 pages.
    const FREE: u64 = (1 << 23) + 2 * 16_384;

    #[test]
    fn instructions_done_or_skipped_make_up_for_pages() {
        let effort = || Effort::new(&MemoryState::of(64 << 20));
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
