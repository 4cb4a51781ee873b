//! Cache of recent translations, which makes checks fast enough to accompany a simulation.

use perforate_types::{Frame, PageRun, PageSize, Permissions, SpaceId, VirtualPage};

use crate::oracle::Mapping;

/// Number of 2MB regions in the cache, a power of two. At 4KB each, the cache takes at most 64MB of
/// host memory.
const PLACES: u64 = 1 << 14;

/// Direct-mapped cache of the oracle's translations of single pages, grouped by 2MB region. A
/// change of the mapping invalidates its pages; misses are resolved by the ordered map.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    places: Vec<Option<Box<Region>>>,
}

#[derive(Debug)]
struct Region {
    space: SpaceId,
    number: u64,
    answers: [Answer; 512],
}

/// Cached translation of one page, or 0 if it is unknown. Bit 0 marks a known translation, bit 1 a
/// mapped page; the other bits hold frame and permissions.
#[derive(Clone, Copy, Debug)]
struct Answer(u64);

impl Answer {
    const UNKNOWN: Self = Self(0);

    fn new(mapping: Option<Mapping>) -> Self {
        let Some((frame, permissions)) = mapping else { return Self(1) };
        let Permissions { write, execute, user } = permissions;
        let flags = u64::from(write) << 2 | u64::from(execute) << 3 | u64::from(user) << 4;
        Self(3 | flags | frame.number() << 5)
    }

    fn get(self) -> Option<Option<Mapping>> {
        let bit = |place: u32| self.0 >> place & 1 != 0;
        let permissions = Permissions { write: bit(2), execute: bit(3), user: bit(4) };
        let mapping = (Frame::new(self.0 >> 5), permissions);
        bit(0).then(|| bit(1).then_some(mapping))
    }
}

impl Recent {
    /// Returns the cached translation of a page. The outer `None` means that the page is not
    /// cached, the inner `None` that it is not mapped.
    pub(crate) fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Option<Mapping>> {
        let number = region(page);
        let found = self.places.get(place(space, number))?.as_deref()?;
        let same = found.number == number && found.space == space;
        if same { found.answers[page.index_in(PageSize::Size2M)].get() } else { None }
    }

    /// Caches the translation of a page, or the fact that the page is not mapped.
    pub(crate) fn fill(&mut self, space: SpaceId, page: VirtualPage, answer: Option<Mapping>) {
        if self.places.is_empty() {
            self.places.resize_with(PLACES as usize, || None);
        }
        let number = region(page);
        let answers = [Answer::UNKNOWN; 512];
        let slot = &mut self.places[place(space, number)];
        let found = slot.get_or_insert_with(|| Box::new(Region { space, number, answers }));
        if found.number != number || found.space != space {
            **found = Region { space, number, answers };
        }
        found.answers[page.index_in(PageSize::Size2M)] = Answer::new(answer);
    }

    /// Invalidates, in this cache, the translations of the pages of a run.
    pub(crate) fn invalidate(&mut self, run: PageRun) {
        let regions = region(run.page)..region(run.end().add(PageSize::Size2M.pages() - 1));
        if regions.end - regions.start >= PLACES {
            return self.places.clear();
        }
        for number in regions {
            let Some(slot) = self.places.get_mut(place(run.space, number)) else { return };
            let Some(found) = slot.as_deref_mut() else { continue };
            if found.number == number && found.space == run.space {
                found.invalidate(&run);
            }
        }
    }
}

impl Region {
    /// Invalidates the cached translations of the pages of this 2MB region that are in the run.
    fn invalidate(&mut self, run: &PageRun) {
        let first = self.number * PageSize::Size2M.pages();
        let index = |page: VirtualPage| page.number().saturating_sub(first).min(512) as usize;
        self.answers[index(run.page)..index(run.end())].fill(Answer::UNKNOWN);
    }
}

fn region(page: VirtualPage) -> u64 {
    page.number() / PageSize::Size2M.pages()
}

fn place(space: SpaceId, region: u64) -> usize {
    ((region ^ u64::from(space.0).wrapping_mul(0x9e37)) % PLACES) as usize
}
