//! Page tables that a hypervisor keeps besides those of its address spaces: shadow tables.

use perforate_types::{Frame, TableOperation, Update};

use super::Kernel;
use crate::OsError;

impl Kernel {
    /// A frame for a table of the kernel's own. It counts as a page table and stays where it is.
    ///
    /// # Errors
    /// If there is no free frame.
    pub(crate) fn take_table(&mut self) -> Result<Frame, OsError> {
        let frame = self.memory.allocate_nodes(0).map_err(|error| self.with_estimate(error))?;
        self.own_tables.insert(frame);
        Ok(frame)
    }

    /// Gives the frame of such a table back.
    ///
    /// # Panics
    /// If it is none.
    pub(crate) fn give_back_table(&mut self, frame: Frame) {
        assert!(self.own_tables.remove(&frame), "{frame:?} holds no table of the kernel's own");
        self.memory.free(frame, 0);
    }

    /// Counts an operation on such tables as work done.
    pub(crate) fn note_operation(&mut self, operation: &TableOperation) {
        self.ledger.table(operation);
    }

    /// Takes memory from programs if it is short, so that tables find room.
    pub(crate) fn make_room_for_tables(&mut self, updates: &mut Vec<Update>) {
        self.relieve(None, updates);
        self.conclude(updates);
    }
}
