//! Estimate of the work that an event will cause, made before the work is done. Callers use it to
//! bound the work.

use perforate_types::{Advice, ProgramEvent, SpaceId, VirtualAddress};

use super::{Core, Kernel, areas};
use crate::memory::FRAME_BYTES;

/// Estimated cost of visiting a memory area, an address space or a swapped page, in visited pages.
const PAGES_PER_RECORD: u64 = 16;

impl Kernel {
    /// Estimated number of pages that the kernel visits for an event; memory areas and address spaces count
    /// as several pages each. Address ranges without mappings cost nothing, however long they are.
    pub fn effort_of(&self, event: &ProgramEvent) -> u64 {
        let core = &self.core;
        let id = self.current();
        let of_range = |length: u64| of_range(core, id, length);
        let of_process =
            |process| self.processes.space(process).map_or(0, |id| space_cost(core, id));
        let cost = match *event {
            ProgramEvent::Map { length, populate, .. } => {
                of_range(length) + if populate { populate_cost(core, length) } else { 0 }
            }
            ProgramEvent::Advise { length, advice, .. } => match advice {
                Advice::POPULATE_READ | Advice::POPULATE_WRITE | Advice::COLLAPSE => {
                    populate_cost(core, length)
                }
                _ => of_range(length),
            },
            ProgramEvent::Unmap { length, .. } | ProgramEvent::Protect { length, .. } => {
                of_range(length)
            }
            ProgramEvent::Remap { from_length, to_length, .. } => {
                of_range(from_length) + of_range(to_length)
            }
            ProgramEvent::Brk { start, end } => heap_cost(core, id, start, end),
            ProgramEvent::Exec => space_cost(core, id),
            // The child's process number may be in use; that process then ends.
            ProgramEvent::Fork { child } => 2 * space_cost(core, id) + of_process(child),
            ProgramEvent::Exit { process } => of_process(process),
            ProgramEvent::Switch { .. }
            | ProgramEvent::Gap { .. }
            | ProgramEvent::Phase { .. }
            | ProgramEvent::Name { .. } => 0,
        };
        1 + cost + core.spaces.len() as u64 * PAGES_PER_RECORD
    }
}

/// Number of pages in `length` bytes.
fn pages(length: u64) -> u64 {
    areas::page_range(VirtualAddress::new(0), length).map_or(0, |pages| pages.end)
}

/// Estimated cost of visiting an address space, in visited pages: mapped pages, memory areas, swapped pages.
fn space_cost(core: &Core, id: SpaceId) -> u64 {
    pages_cost(core, id, u64::MAX)
}

/// Upper bound of the cost of visiting `length` bytes of an address space, in visited pages.
fn of_range(core: &Core, id: SpaceId, length: u64) -> u64 {
    pages_cost(core, id, pages(length))
}

fn pages_cost(core: &Core, id: SpaceId, pages: u64) -> u64 {
    let Ok(space) = core.space(id) else { return 0 };
    let records = pages.min(space.areas.count()) + pages.min(space.swapped_count());
    pages.min(space.usage().mapped_pages()) + records * PAGES_PER_RECORD
}

/// Estimated cost of moving the end of the heap, in visited pages: the pages gained or lost.
fn heap_cost(core: &Core, id: SpaceId, start: VirtualAddress, end: VirtualAddress) -> u64 {
    let before = core.space(id).ok().and_then(|space| space.heap_end);
    let before = before.map_or(start.value(), |page| page * FRAME_BYTES);
    pages_cost(core, id, end.value().abs_diff(before).div_ceil(FRAME_BYTES))
}

/// Upper bound of the pages touched when `length` bytes are populated: more would exhaust memory and swap.
fn populate_cost(core: &Core, length: u64) -> u64 {
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
    fn only_existing_mappings_cost_work() {
        let config = KernelConfig::new(64 << 20);
        let mut kernel = Kernel::new(config, Box::new(BasePages)).unwrap();
        let own = 1 + PAGES_PER_RECORD;
        assert_eq!(kernel.effort_of(&map(1 << 46, false)), own);
        assert_eq!(kernel.effort_of(&map(1 << 46, true)), own + (64 << 20) / 4096);
        kernel.event(&map(1 << 20, true)).unwrap();
        let cost_of_all = 256 + PAGES_PER_RECORD;
        let unmap = |length| ProgramEvent::Unmap { start: BASE, length };
        assert_eq!(kernel.effort_of(&unmap(1 << 40)), own + cost_of_all);
        assert_eq!(kernel.effort_of(&unmap(8192)), own + 2 + PAGES_PER_RECORD);
        let fork = ProgramEvent::Fork { child: ProcessId(1) };
        assert_eq!(kernel.effort_of(&fork), own + 2 * cost_of_all);
        let end = VirtualAddress::new(BASE.value() + 4096);
        assert_eq!(kernel.effort_of(&ProgramEvent::Brk { start: BASE, end }), own + 17);
    }

    #[test]
    fn the_work_of_every_event_is_estimated() {
        let config =
            KernelConfig { swap: perforate_config::Size(4096), ..KernelConfig::new(1 << 20) };
        let mut kernel = Kernel::new(config, Box::new(BasePages)).unwrap();
        kernel.event(&map(65_536, true)).unwrap();
        let start = BASE;
        let second = VirtualAddress::new(2 << 30);
        let heap = |end| ProgramEvent::Brk { start: second, end: VirtualAddress::new(end) };
        kernel.event(&heap(second.value() + 5 * 4096)).unwrap();
        // 16 mapped pages, two areas: 16 + 2 × 16 for all, and at most a page and a record for one page.
        let (all, one) = (48, 1 + 16);
        let permissions = Permissions::READ;
        let length = 4096;
        let advise = |advice| ProgramEvent::Advise { start, length: 1 << 40, advice };
        let process = |process| ProgramEvent::Exit { process: ProcessId(process) };
        for (event, cost) in [
            (ProgramEvent::Protect { start, length, permissions, accessible: true }, one),
            (ProgramEvent::Unmap { start, length: 4097 }, 2 + 2 * 16),
            (ProgramEvent::Unmap { start, length: 0 }, 0),
            // A length without an end in the address space costs nothing, as it is refused.
            (ProgramEvent::Unmap { start, length: u64::MAX }, 0),
            (advise(Advice::DontNeed), all),
            (advise(Advice::Other(24)), all),
            // Memory and swap have 257 pages.
            (advise(Advice::Other(22)), 257),
            (advise(Advice::Other(23)), 257),
            (advise(Advice::Other(25)), 257),
            (map(4096, true), one + 1),
            (
                ProgramEvent::Remap {
                    from: start,
                    from_length: length,
                    to: second,
                    to_length: 1 << 40,
                },
                one + all,
            ),
            (heap(second.value() + 5 * 4096), 0),
            (heap(second.value() + 4 * 4096), one),
            (heap(second.value() + 6 * 4096), one),
            (ProgramEvent::Exec, all),
            (process(0), all),
            (process(9), 0),
            (ProgramEvent::Fork { child: ProcessId(9) }, 2 * all),
            (ProgramEvent::Fork { child: ProcessId(0) }, 3 * all),
            (ProgramEvent::Gap { instructions: 5 }, 0),
        ] {
            assert_eq!(kernel.effort_of(&event), 1 + cost + PAGES_PER_RECORD, "{event:?}");
        }
        kernel.create_space().unwrap();
        assert_eq!(kernel.effort_of(&process(9)), 1 + 2 * PAGES_PER_RECORD, "a second space");
    }
}
