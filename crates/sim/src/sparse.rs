//! Workloads that never access the unallocated holes of fragmented 2MB regions.

use perforate_os::Fragmentation;
use perforate_trace::{Source, SourceMetadata, TraceError, Truncation};
use perforate_types::{Chunk, HoleSet, MemoryAccess, PageSize, VirtualAddress};

/// Number of 2MB regions whose holes are cached.
const CACHED_REGIONS: usize = 4096;

/// Source of instructions whose accesses avoid holes without a frame, because a program does not
/// access memory that is not allocated (P §VII.B). Such an access goes to another sub-page of the
/// region instead; its address determines which. The source is shared by all schemes, so all have
/// the same accesses, including the ideal scheme.
pub(crate) struct Sparse<S> {
    source: S,
    fragmentation: Fragmentation,
    seed: u64,
    cache: Vec<Option<(u64, Option<Box<Detour>>)>>,
}

/// Holes of one 2MB region, and the sub-pages that are accessed instead.
struct Detour {
    holes: HoleSet,
    in_place: Vec<u16>,
}

impl<S: Source> Sparse<S> {
    pub(crate) fn new(source: S, fragmentation: Fragmentation, seed: u64) -> Self {
        let cache = (0..CACHED_REGIONS).map(|_| None).collect();
        Self { source, fragmentation, seed, cache }
    }

    fn detour(&mut self, region: u64) -> Option<&Detour> {
        let place = &mut self.cache[region as usize % CACHED_REGIONS];
        if place.as_ref().is_none_or(|(known, _)| *known != region) {
            let detour = self.fragmentation.holes(self.seed, region).map(|holes| {
                let in_place = (0..HoleSet::SUBPAGES as u16)
                    .filter(|&index| !holes.contains(usize::from(index)))
                    .collect();
                Box::new(Detour { holes, in_place })
            });
            *place = Some((region, detour));
        }
        place.as_ref().and_then(|(_, detour)| detour.as_deref())
    }

    fn redirect(&mut self, access: &mut MemoryAccess) {
        let page = access.address.page();
        let first = page.align_down(PageSize::Size2M);
        let Some(detour) = self.detour(page.number() / PageSize::Size2M.pages()) else { return };
        let index = page.index_in(PageSize::Size2M);
        if detour.holes.contains(index) && !detour.in_place.is_empty() {
            let choice = detour.in_place[index * 257 % detour.in_place.len()];
            let offset = access.address.offset(PageSize::Size4K);
            let moved = first.add(u64::from(choice)).address().add(offset);
            access.address = VirtualAddress::new(moved.value());
        }
    }
}

impl<S: Source> Source for Sparse<S> {
    fn metadata(&self) -> &SourceMetadata {
        self.source.metadata()
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        let more = self.source.next_chunk(chunk)?;
        for access in &mut chunk.accesses {
            self.redirect(access);
        }
        Ok(more)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        self.source.skip(instructions)
    }

    fn truncated(&self) -> Option<&Truncation> {
        self.source.truncated()
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::read;
    use perforate_types::{AccessKind, Instruction, ProgramEvent};

    use super::*;

    /// Source of one chunk with a load of each address, which has a length of 40 and skips one more.
    struct Loads(SourceMetadata, Vec<u64>);

    impl Source for Loads {
        fn metadata(&self) -> &SourceMetadata {
            &self.0
        }

        fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
            chunk.clear();
            chunk.push_event(ProgramEvent::Exec);
            for address in &self.1 {
                let (address, kind) = (VirtualAddress::new(*address), AccessKind::Write);
                let access = MemoryAccess { address, size: 8, kind };
                chunk.push(Instruction::default(), &[access]);
            }
            Ok(false)
        }

        fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
            Ok(instructions + 1)
        }
    }

    /// Addresses in regions of both kinds, some of which have one place in the cache, and twice each.
    #[test]
    fn accesses_avoid_holes_and_keep_their_offset() {
        let fragmentation: Fragmentation =
            read("portion=50%,holes=25%,clustered,unallocated").unwrap();
        let regions = [0u64, 1, 2, 3, 4096, 4097, 4098, 4099, 0, 1, 2, 3];
        let addresses: Vec<u64> = regions
            .iter()
            .flat_map(|region| (0..512).map(move |page| region << 21 | page << 12 | 0x123))
            .collect();
        let metadata = SourceMetadata { instructions: Some(40), ..SourceMetadata::default() };
        let source = Loads(metadata, addresses.clone());
        let mut sparse = Sparse::new(source, fragmentation, 7);
        assert_eq!(sparse.metadata().instructions, Some(40));
        assert_eq!((sparse.skip(3).unwrap(), sparse.truncated().is_none()), (4, true));
        let mut chunk = Chunk::default();
        assert!(!sparse.next_chunk(&mut chunk).unwrap(), "it is the last");
        assert_eq!(chunk.accesses.len(), addresses.len());
        let (mut moved, mut whole) = (0, 0);
        for (before, after) in addresses.iter().zip(&chunk.accesses) {
            let after = after.address.value();
            let holes = fragmentation.holes(7, before >> 21);
            let index = |address: u64| (address >> 12) as usize % 512;
            let is_hole = holes.is_some_and(|holes| holes.contains(index(*before)));
            assert_eq!((after >> 21, after & 0xfff), (before >> 21, 0x123));
            if is_hole {
                moved += 1;
                assert!(!holes.unwrap().contains(index(after)), "{before:#x} to {after:#x}");
            } else {
                assert_eq!(after, *before);
            }
            whole += u64::from(holes.is_none());
        }
        assert!(moved > 0 && moved % 128 == 0 && whole > 0, "{moved} {whole}");
    }

    /// A region of nothing but holes has no other place for an access.
    #[test]
    fn accesses_of_regions_of_holes_stay() {
        let fragmentation: Fragmentation =
            read("portion=100%,holes=100%,clustered,unallocated").unwrap();
        let source = Loads(SourceMetadata::default(), vec![0x5123]);
        let mut chunk = Chunk::default();
        Sparse::new(source, fragmentation, 7).next_chunk(&mut chunk).unwrap();
        assert_eq!(chunk.accesses[0].address.value(), 0x5123);
    }
}
