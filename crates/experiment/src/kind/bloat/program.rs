//! What the store does to memory, seen from outside: events and accesses.

use perforate_sim::SimError;
use perforate_types::{AccessKind, ProgramEvent};

/// Bytes of a 4KB page.
pub use super::super::case_study::PAGE_BYTES;

/// Whoever hears what the program does.
pub trait Program {
    /// The program asks the operating system for something.
    ///
    /// # Errors
    /// What the simulated system cannot do.
    fn event(&mut self, event: &ProgramEvent) -> Result<(), SimError>;

    /// The program touches the page at this address.
    ///
    /// # Errors
    /// Out of memory.
    fn access(&mut self, kind: AccessKind, address: u64) -> Result<(), SimError>;

    /// The program goes through `length` bytes: one access for each page. More accesses to a page
    /// at once would hit the first-level TLB and change nothing that is counted here.
    ///
    /// # Errors
    /// As [`Self::access`].
    fn pass_over(&mut self, kind: AccessKind, start: u64, length: u64) -> Result<(), SimError> {
        let mut address = start;
        while address < start + length {
            self.access(kind, address)?;
            address = (address / PAGE_BYTES + 1) * PAGE_BYTES;
        }
        Ok(())
    }

    /// The program copies `length` bytes: one access for each page, as above.
    ///
    /// # Errors
    /// As [`Self::access`].
    fn copy_by_pages(&mut self, from: u64, to: u64, length: u64) -> Result<(), SimError> {
        self.pass_over(AccessKind::Read, from, length)?;
        self.pass_over(AccessKind::Write, to, length)
    }

    /// The program copies `length` bytes.
    ///
    /// # Errors
    /// As [`Self::access`].
    fn copy(&mut self, from: u64, to: u64, length: u64) -> Result<(), SimError> {
        self.copy_by_pages(from, to, length)
    }
}
