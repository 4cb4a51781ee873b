//! A bound on what events may ask of the operating system where no instructions run: a few kilobytes
//! of a trace can ask for years of it.

use perforate_types::ProgramEvent;

use crate::{MemoryState, SimError, System};

/// Pages that events may have the kernel look at before the first instruction, besides
/// [`MEMORY_SHARE`].
const PAGES: u64 = 1 << 23;
/// How often they may have it look at all of the memory. Programs bring it in once.
const MEMORY_SHARE: u64 = 2;
/// Pages more for every instruction. A program that does nothing but fork and wait, with 1GB of 4KB
/// pages, takes some thousand instructions for each time.
const PAGES_PER_INSTRUCTION: u64 = 256;

/// What events have asked for, and what they may.
pub(crate) struct Effort {
    /// Pages looked at that no instruction has made up for.
    pages: u64,
    most: u64,
    /// Instructions that count already.
    instructions: u64,
    events: u64,
}

impl Effort {
    /// Nothing was asked for.
    pub(crate) fn new(memory: &MemoryState) -> Self {
        let most = PAGES + MEMORY_SHARE * (memory.memory_bytes / 4096);
        Self { pages: 0, most, instructions: 0, events: 0 }
    }

    /// Adds an event that comes after so many instructions.
    ///
    /// # Errors
    /// If it is too much.
    pub(crate) fn add(
        &mut self,
        event: &ProgramEvent,
        instructions: u64,
        system: &System,
    ) -> Result<(), SimError> {
        let paid = (instructions - self.instructions).saturating_mul(PAGES_PER_INSTRUCTION);
        self.instructions = instructions;
        self.pages = self.pages.saturating_sub(paid) + system.kernel().effort_of(event);
        self.events += 1;
        if self.pages <= self.most {
            return Ok(());
        }
        Err(SimError::TooMuchAsked {
            workload: String::new(),
            event: self.events,
            instruction: instructions,
            most: self.most,
        })
    }
}
