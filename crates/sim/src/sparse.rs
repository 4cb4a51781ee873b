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
