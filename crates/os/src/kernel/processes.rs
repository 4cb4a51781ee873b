//! Living processes: creation, exit, and the process that each processor runs.

use std::collections::BTreeMap;

use perforate_types::{ProcessId, SpaceId};

use super::{Core, Kernel, range};
use crate::OsError;
use crate::space::{ALL_PAGES, Departure};

/// Living processes and their address spaces.
pub(super) struct Processes {
    spaces: BTreeMap<ProcessId, SpaceId>,
    current: SpaceId,
    /// Processor that [`Kernel::run_on`] selected last; it runs address space `current`.
    processor: usize,
    /// Address space that each processor runs; `None` if the processor has run nothing, or if another
    /// processor has ended its process.
    running: Vec<Option<SpaceId>>,
}

impl Processes {
    /// Creates the record of processes with process 0 only, which runs in address space `space`.
    pub(super) fn new(space: SpaceId) -> Self {
        let running = vec![Some(space)];
        Self { spaces: [(ProcessId(0), space)].into(), current: space, processor: 0, running }
    }

    /// Address space of a living process; `None` if no such process lives.
    pub(super) fn space(&self, process: ProcessId) -> Option<SpaceId> {
        self.spaces.get(&process).copied()
    }
}

/// Processes and address spaces of the kernel.
impl Kernel {
    /// Address space of the running process.
    pub fn current(&self) -> SpaceId {
        self.processes.current
    }

    /// Selects the processor that the following calls act on, with the process that it runs. If the
    /// processor has run nothing, a [`ProgramEvent::Switch`](perforate_types::ProgramEvent::Switch)
    /// must follow.
    pub fn run_on(&mut self, processor: usize) {
        let Processes { running, current, .. } = &mut self.processes;
        if running.len() <= processor {
            running.resize(processor + 1, None);
        }
        *current = running[processor].unwrap_or(*current);
        self.processes.processor = processor;
    }

    /// Address space that a processor runs; `None` if the processor has run nothing, or if another processor
    /// has ended its process.
    pub fn running(&self, processor: usize) -> Option<SpaceId> {
        self.processes.running.get(processor).copied().flatten()
    }

    /// Living processes and their address spaces.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, SpaceId)> + '_ {
        self.processes.spaces.iter().map(|(&process, &space)| (process, space))
    }

    /// Switches to a process. A process that was not forked is created with an empty address space.
    pub(super) fn switch(&mut self, process: ProcessId) -> Result<(), OsError> {
        let Self { core, processes, .. } = self;
        let before = processes.running[processes.processor];
        let had_registers = before.is_some_and(|before| core.has_registers(before));
        processes.current = match processes.spaces.get(&process) {
            Some(&space) => space,
            None => {
                let space = core.create_space()?;
                processes.spaces.insert(process, space);
                space
            }
        };
        processes.running[processes.processor] = Some(processes.current);
        // A processor that has run nothing has no registers to save.
        let is_other = before.is_some_and(|before| before != processes.current);
        let with_registers = is_other && (had_registers || core.has_registers(processes.current));
        core.ledger.done.context_switches += u64::from(is_other);
        core.ledger.done.segment_registers_loaded += u64::from(with_registers);
        Ok(())
    }

    /// fork: creates a child with a copy of its parent's memory. Both share frames; private pages
    /// are read-only until a write copies them. If memory runs out, no child is created.
    pub(super) fn fork(&mut self, parent: SpaceId, child: ProcessId) -> Result<(), OsError> {
        if self.processes.spaces.get(&child) == Some(&parent) {
            return Ok(());
        }
        let space = &mut self.core.space_mut(parent)?;
        space.leave_overlay(&ALL_PAGES, Departure::Forked)?;
        self.exit(child)?;
        let core = &mut self.core;
        // The child's tables need as many frames as the parent's. Memory is reclaimed before,
        // because reclaim cannot interrupt a fork.
        let tables = core.space(parent)?.table_frames();
        core.make_room(core.memory.high_watermark() + tables, None);
        let format = core.space(parent)?.tables();
        let space = core.create_space_with(format)?;
        self.processes.spaces.insert(child, space);
        core.contents.fork(parent, space);
        let mut copy = core.spaces[usize::from(space.0)].take().expect("just created");
        let copied = core.space_mut(parent)?.copy_to(&mut copy);
        core.spaces[usize::from(space.0)] = Some(copy);
        if copied.is_err() {
            self.exit(child)?;
        }
        copied
    }

    /// Ends a process. An unknown process is ignored, since it may have started before the trace.
    pub(super) fn exit(&mut self, process: ProcessId) -> Result<(), OsError> {
        match self.processes.space(process) {
            Some(space) => self.destroy_space(space),
            None => Ok(()),
        }
    }

    /// Unmaps everything in an address space and frees its number for reuse.
    pub fn destroy_space(&mut self, space: SpaceId) -> Result<(), OsError> {
        let Self { core, processes, .. } = self;
        core.note_peak();
        let result = clear_space(core, space);
        core.ledger.send();
        result?;
        core.spaces[usize::from(space.0)] = None;
        self.backers.forget(space);
        processes.spaces.retain(|_, of_process| *of_process != space);
        let others = processes.running.iter_mut().enumerate();
        let others = others.filter(|(other, _)| *other != processes.processor);
        others.filter(|(_, runs)| **runs == Some(space)).for_each(|(_, runs)| *runs = None);
        Ok(())
    }
}

/// Unmaps everything in an address space, as exec and exit do.
pub(super) fn clear_space(core: &mut Core, id: SpaceId) -> Result<(), OsError> {
    range::unmap(core, id, ALL_PAGES)?;
    let space = &mut core.space_mut(id)?;
    assert_eq!(space.table_frames(), 0, "a node outlived its mappings");
    space.areas = Default::default();
    space.heap_end = None;
    space.touched.clear();
    Ok(())
}
