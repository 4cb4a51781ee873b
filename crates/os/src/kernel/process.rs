//! Address spaces and processes coming and going.

use perforate_types::{ProcessId, SpaceId, Update};

use super::Kernel;
use crate::OsError;
use crate::PartialChange;
use crate::space::{ALL_PAGES, AddressSpace, Mechanism, PerforatedPages};

impl Kernel {
    /// An empty address space that belongs to no process.
    ///
    /// # Errors
    /// If all 65536 tags are in use.
    pub fn create_space(&mut self) -> Result<SpaceId, OsError> {
        let free = self.spaces.iter().position(Option::is_none).unwrap_or(self.spaces.len());
        let id = SpaceId(u16::try_from(free).map_err(|_| OsError::TooManySpaces)?);
        let space = AddressSpace::new(id, self.config.tables, self.holes());
        if free == self.spaces.len() {
            self.spaces.push(None);
        }
        self.spaces[free] = Some(Box::new(space));
        self.contents.add_space(id);
        Ok(id)
    }

    /// The mechanism for 2MB pages of which a page is detached, if the policy does not split them.
    fn holes(&self) -> Option<&'static dyn Mechanism> {
        match self.policy.partial_change() {
            PartialChange::Split => None,
            PartialChange::Punch => Some(&PerforatedPages),
        }
    }

    /// Unmaps everything in an address space and forgets it; its tag may be used again.
    ///
    /// # Errors
    /// If there is no such address space.
    pub fn destroy_space(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.note_peak();
        let result = self.clear_space(space, updates);
        self.ledger.send();
        result?;
        self.spaces[usize::from(space.0)] = None;
        self.processes.retain(|_, of_process| *of_process != space);
        Ok(())
    }

    /// The program of the address space was replaced: nothing is mapped any more.
    pub(super) fn clear_space(
        &mut self,
        id: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.drop_range(id, ALL_PAGES, updates)?;
        let (space, _) = self.parts(id, updates)?;
        assert_eq!(space.table_frames(), 0, "a node outlived its mappings");
        space.areas = Default::default();
        space.heap_end = None;
        space.touched.clear();
        Ok(())
    }

    /// Ends a process; one that is not known is ignored, as its start was before the trace's.
    pub(super) fn exit(
        &mut self,
        process: ProcessId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        match self.processes.get(&process) {
            Some(&space) => self.destroy_space(space, updates),
            None => Ok(()),
        }
    }

    /// Another process runs now; one that no fork made starts empty.
    pub(super) fn switch(&mut self, process: ProcessId) -> Result<(), OsError> {
        let before = self.current;
        let had_registers = self.has_registers(before);
        self.current = match self.processes.get(&process) {
            Some(&space) => space,
            None => {
                let space = self.create_space()?;
                self.processes.insert(process, space);
                space
            }
        };
        let is_other = self.current != before;
        let with_registers = is_other && (had_registers || self.has_registers(self.current));
        self.ledger.done.context_switches += u64::from(is_other);
        self.ledger.done.segment_registers_loaded += u64::from(with_registers);
        Ok(())
    }
}
