//! How much work an event asks for, before it is done: for whoever bounds it.

use perforate_types::{Advice, ProgramEvent, SpaceId, VirtualAddress};

use super::populate::{POPULATE_READ, POPULATE_WRITE};
use super::{Core, Kernel, areas};
use crate::memory::FRAME_BYTES;

/// Pages that are looked at in the time that a record in an ordered map takes: an area, an address
/// space.
const PAGES_PER_RECORD: u64 = 16;

impl Kernel {
    /// The pages that an event may have the kernel look at, about, with areas and address spaces as so
    /// many pages. Address ranges without anything count for nothing, however long.
    pub fn effort_of(&self, event: &ProgramEvent) -> u64 {
        let core = &self.core;
        let id = self.current();
        let of_range = |length: u64| of_range(core, id, length);
        let of_process = |process| self.processes.space(process).map_or(0, |id| of_space(core, id));
        let asked = match *event {
            ProgramEvent::Map { length, populate, .. } => {
                of_range(length) + if populate { of_populating(core, length) } else { 0 }
            }
            ProgramEvent::Advise { length, advice, .. } => match advice {
                Advice::Other(POPULATE_READ | POPULATE_WRITE) => of_populating(core, length),
                _ => of_range(length),
            },
            ProgramEvent::Unmap { length, .. } | ProgramEvent::Protect { length, .. } => {
                of_range(length)
            }
            ProgramEvent::Remap { from_length, to_length, .. } => {
                of_range(from_length) + of_range(to_length)
            }
            ProgramEvent::Brk { start, end } => of_heap(core, id, start, end),
            ProgramEvent::Exec => of_space(core, id),
            // The child may be one that lives, which ends.
            ProgramEvent::Fork { child } => 2 * of_space(core, id) + of_process(child),
            ProgramEvent::Exit { process } => of_process(process),
            ProgramEvent::Switch { .. } | ProgramEvent::Gap { .. } | ProgramEvent::Phase { .. } => {
                0
            }
        };
        1 + asked + core.spaces.len() as u64 * PAGES_PER_RECORD
    }
}

/// Pages in so many bytes.
fn pages(length: u64) -> u64 {
    areas::page_range(VirtualAddress::new(0), length).map_or(0, |pages| pages.end)
}

/// What an address space has: pages in memory, areas and pages in swap.
fn of_space(core: &Core, id: SpaceId) -> u64 {
    of_pages(core, id, u64::MAX)
}

/// The same in a range of this length, at most.
fn of_range(core: &Core, id: SpaceId, length: u64) -> u64 {
    of_pages(core, id, pages(length))
}

fn of_pages(core: &Core, id: SpaceId, pages: u64) -> u64 {
    let Ok(space) = core.space(id) else { return 0 };
    let records = pages.min(space.areas.count()) + pages.min(space.swapped_count());
    pages.min(space.usage().mapped_pages()) + records * PAGES_PER_RECORD
}

/// The same of what a heap gains or loses.
fn of_heap(core: &Core, id: SpaceId, start: VirtualAddress, end: VirtualAddress) -> u64 {
    let before = core.space(id).ok().and_then(|space| space.heap_end);
    let before = before.map_or(start.value(), |page| page * FRAME_BYTES);
    of_pages(core, id, end.value().abs_diff(before).div_ceil(FRAME_BYTES))
}

/// Pages that are touched in a range of this length, at most: memory ends before others.
fn of_populating(core: &Core, length: u64) -> u64 {
    let memory = (core.config.memory_bytes + core.config.swap.0) / FRAME_BYTES;
    pages(length).min(memory)
}

#[cfg(test)]
mod tests {
    use perforate_types::{Backing, Permissions, ProcessId};

    use super::*;
    use crate::{BasePages, KernelConfig};

    const BASE: VirtualAddress = VirtualAddress::new(1 << 30);

    fn map(length: u64, populate: bool) -> ProgramEvent {
        ProgramEvent::Map {
            start: BASE,
            length,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate,
        }
    }

    #[test]
    fn what_is_there_counts_and_what_is_not_does_not() {
        let config = KernelConfig::new(64 << 20);
        let mut kernel = Kernel::new(config, Box::new(BasePages)).unwrap();
        let own = 1 + PAGES_PER_RECORD;
        assert_eq!(kernel.effort_of(&map(1 << 46, false)), own);
        assert_eq!(kernel.effort_of(&map(1 << 46, true)), own + (64 << 20) / 4096);
        kernel.event(&map(1 << 20, true), &mut Vec::new()).unwrap();
        let of_all = 256 + PAGES_PER_RECORD;
        let unmap = |length| ProgramEvent::Unmap { start: BASE, length };
        assert_eq!(kernel.effort_of(&unmap(1 << 40)), own + of_all);
        assert_eq!(kernel.effort_of(&unmap(8192)), own + 2 + PAGES_PER_RECORD);
        let fork = ProgramEvent::Fork { child: ProcessId(1) };
        assert_eq!(kernel.effort_of(&fork), own + 2 * of_all);
        let end = VirtualAddress::new(BASE.value() + 4096);
        assert_eq!(kernel.effort_of(&ProgramEvent::Brk { start: BASE, end }), own + 17);
    }
}
