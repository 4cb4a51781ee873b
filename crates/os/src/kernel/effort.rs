//! How much work an event asks for, before it is done: for whoever bounds it.

use perforate_types::{Advice, ProgramEvent, SpaceId, VirtualAddress};

use super::populate::{POPULATE_READ, POPULATE_WRITE};
use super::{Core, Kernel, areas};
use crate::memory::FRAME_BYTES;

/// Address spaces that are looked at in the time that a page takes.
const SPACES_PER_PAGE: u64 = 16;

impl Kernel {
    /// The pages and areas that an event may have the kernel look at, about, and one for itself. Empty
    /// address ranges count for nothing, however long.
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
            ProgramEvent::Brk { .. } | ProgramEvent::Exec => of_space(core, id),
            // The child may be one that lives, which ends.
            ProgramEvent::Fork { child } => 2 * of_space(core, id) + of_process(child),
            ProgramEvent::Exit { process } => of_process(process),
            ProgramEvent::Switch { .. } | ProgramEvent::Gap { .. } | ProgramEvent::Phase { .. } => {
                0
            }
        };
        1 + asked + core.spaces.len() as u64 / SPACES_PER_PAGE
    }
}

/// Pages in so many bytes.
fn pages(length: u64) -> u64 {
    areas::page_range(VirtualAddress::new(0), length).map_or(0, |pages| pages.end)
}

/// What an address space has: pages in memory and in swap, areas.
fn of_space(core: &Core, id: SpaceId) -> u64 {
    let Ok(space) = core.space(id) else { return 0 };
    space.usage().mapped_pages() + space.swapped_count() + space.areas.count()
}

/// The same in a range of this length, at most.
fn of_range(core: &Core, id: SpaceId, length: u64) -> u64 {
    pages(length).min(of_space(core, id))
}

/// Pages that are touched in a range of this length, at most: memory ends before others.
fn of_populating(core: &Core, length: u64) -> u64 {
    let memory = (core.config.memory_bytes + core.config.swap_bytes) / FRAME_BYTES;
    pages(length).min(memory)
}
