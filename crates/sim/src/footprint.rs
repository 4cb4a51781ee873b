//! Amount of memory that a program touches, counted once for all schemes.

use std::collections::HashMap;

use perforate_types::{Chunk, HoleSet, PageSize, ProcessId, VirtualPage};

/// Number of bits of a 2MB region's number within an address space. The process number occupies the
/// bits above.
const REGION_BITS: u32 = 43;
/// Number of 2MB regions in the cache; an access to these needs no hash look-up.
const CACHED_REGIONS: usize = 4096;

/// Largest number of counted 2MB regions (8TB in all). There is a limit because a small trace may
/// touch regions all over the address space. Further regions are not counted.
const MOST_REGIONS: usize = 1 << 22;

/// Number of the first 4KB page above the largest address of a program, with page tables of five levels.
const USER_PAGES: u64 = 1 << (56 - 12);

/// Distinct 4KB pages of data that the programs have accessed, per process. Addresses of the kernel do not count.
pub(crate) struct Footprint {
    places: HashMap<u64, usize>,
    touched: Vec<HoleSet>,
    /// Direct-mapped cache of recently touched regions, with their index in `touched`.
    cache: Box<[(u64, usize); CACHED_REGIONS]>,
    pages: u64,
    /// The running process.
    process: ProcessId,
    /// Page that the running process touched last; `None` if another process ran since.
    latest: Option<VirtualPage>,
}

impl Footprint {
    pub(crate) fn new() -> Self {
        Self {
            places: HashMap::new(),
            touched: Vec::new(),
            cache: Box::new([(u64::MAX, 0); CACHED_REGIONS]),
            pages: 0,
            process: ProcessId(0),
            latest: None,
        }
    }

    /// Adds the accesses of a chunk of instructions. An access that crosses a page boundary touches
    /// both pages.
    pub(crate) fn add(&mut self, chunk: &Chunk) {
        let mut running = self.process;
        for (process, accesses) in chunk.accesses_by_process(&mut running) {
            (self.process, self.latest) = (process, None);
            for access in accesses {
                self.touch(access.address.page());
                let offset = access.address.offset(PageSize::Size4K);
                if offset + u64::from(access.size) > PageSize::Size4K.bytes() {
                    self.touch(access.address.page().add(1));
                }
            }
        }
        self.process = running;
    }

    #[inline]
    fn touch(&mut self, page: VirtualPage) {
        if self.latest != Some(page) {
            self.latest = Some(page);
            self.touch_other(page);
        }
    }

    fn touch_other(&mut self, page: VirtualPage) {
        let region = page.number() / PageSize::Size2M.pages();
        let region = region | u64::from(self.process.0) << REGION_BITS;
        let cached = self.cache[region as usize % CACHED_REGIONS];
        let place = match cached {
            _ if page.number() >= USER_PAGES => None,
            (of, place) if of == region => Some(place),
            _ => self.place(region),
        };
        if let Some(place) = place {
            let touched = &mut self.touched[place];
            self.pages += u64::from(touched.insert(page.index_in(PageSize::Size2M)));
        }
    }

    /// Index of a region in `touched`; `None` if it is not counted.
    #[cold]
    #[inline(never)]
    fn place(&mut self, region: u64) -> Option<usize> {
        if self.touched.len() >= MOST_REGIONS && !self.places.contains_key(&region) {
            return None;
        }
        let place = *self.places.entry(region).or_insert_with(|| {
            self.touched.push(HoleSet::EMPTY);
            self.touched.len() - 1
        });
        self.cache[region as usize % CACHED_REGIONS] = (region, place);
        Some(place)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.pages * PageSize::Size4K.bytes()
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{
        AccessKind, Instruction, MemoryAccess, ProgramEvent, ThreadId, VirtualAddress,
    };

    use super::*;

    #[test]
    fn pages_count_once_and_both_sides_of_a_boundary_count() {
        let mut chunk = Chunk::default();
        for address in [0x1000, 0x1ffc, 0x1ff8, 0x7f00_0000_0000] {
            let address = VirtualAddress::new(address);
            let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
            chunk.push(Instruction::default(), &[access]);
        }
        let mut footprint = Footprint::new();
        footprint.add(&chunk);
        footprint.add(&chunk);
        assert_eq!(footprint.bytes(), 3 * 4096, "pages 1, 2 and the far one");
        let last = (1 << 56) - 8;
        assert_eq!(touch(&mut footprint, &[(last, 8), (last + 8, 8), (u64::MAX - 7, 8)]), 4);
    }

    #[test]
    fn processes_have_pages_of_their_own_at_the_same_address() {
        let address = VirtualAddress::new(0x1000);
        let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
        let (mut first, mut second) = (Chunk::default(), Chunk::default());
        first.push(Instruction::default(), &[access, access]);
        first.push_event(ProgramEvent::Switch { process: ProcessId(1), thread: ThreadId(1) });
        first.push(Instruction::default(), &[access]);
        second.push(Instruction::default(), &[access]);
        second.push_event(ProgramEvent::Switch { process: ProcessId(0), thread: ThreadId(0) });
        let mut footprint = Footprint::new();
        footprint.add(&first);
        assert_eq!((footprint.bytes(), footprint.process), (2 * 4096, ProcessId(1)));
        footprint.add(&second);
        assert_eq!((footprint.bytes(), footprint.process), (2 * 4096, ProcessId(0)));
    }

    fn touch(footprint: &mut Footprint, accesses: &[(u64, u16)]) -> u64 {
        let mut chunk = Chunk::default();
        for &(address, size) in accesses {
            let address = VirtualAddress::new(address);
            chunk.push(
                Instruction::default(),
                &[MemoryAccess { address, size, kind: AccessKind::Write }],
            );
        }
        footprint.add(&chunk);
        footprint.bytes() / 4096
    }

    /// An access that ends with its page touches no other. Regions 4096 × 2MB apart have one place in the
    /// cache, and each keeps what was touched of it.
    #[test]
    fn pages_end_where_they_end_and_regions_keep_theirs() {
        let mut footprint = Footprint::new();
        assert_eq!(touch(&mut footprint, &[(0x1ff8, 8)]), 1);
        assert_eq!(touch(&mut footprint, &[(0x2ff9, 8)]), 3);
        let apart = 4096 << 21;
        let both = [(0x1000, 8), (apart + 0x1000, 8), (0x1000, 8), (apart + 0x2000, 8)];
        assert_eq!(touch(&mut footprint, &both), 5);
        assert_eq!(touch(&mut footprint, &both), 5);
        assert_eq!(touch(&mut footprint, &[((2 << 21) - 1, 2), (2 << 21, 1)]), 7);
    }
}
