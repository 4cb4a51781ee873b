//! Compulsory misses: misses that a second-level TLB of any size would also have (Hill and Smith's
//! "three Cs", IEEE Transactions on Computers 38(12), 1989).
//!
//! A miss is compulsory if no walk has translated the page since the run began, or since the
//! translation was invalidated. All other misses are capacity or conflict misses, in which a TLB
//! that never evicts would hit. A walk marks all pages that it translates, so the first walk to a
//! 2MB page is one compulsory miss for all 512 pages.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_types::SpaceId;

/// Number of 4KB pages in a chunk of an address space. A chunk has one bit per page.
const CHUNK_PAGES: u64 = 32_768;
const CHUNK_WORDS: usize = CHUNK_PAGES as usize / 64;

/// Pages of a chunk that a second-level TLB of unlimited size would hold.
#[derive(Clone)]
struct Chunk {
    /// Bitmap of the pages that a walk has translated since the run began. The invalidation of a
    /// page clears its bit.
    in_run: [u64; CHUNK_WORDS],
    /// Bitmap of the pages that a walk has translated since the last reset of the counters. The
    /// invalidation of a page clears its bit.
    in_measured_part: [u64; CHUNK_WORDS],
}

impl Chunk {
    const EMPTY: Self = Self { in_run: [0; CHUNK_WORDS], in_measured_part: [0; CHUNK_WORDS] };
}

/// Classification of a second-level miss as the first walk to its page or a repeated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstWalk {
    /// True for the first walk since the run began or since the translation was invalidated.
    pub(crate) in_run: bool,
    /// True if `in_run`, or for the first walk since the last reset of the counters.
    pub(crate) in_measured_part: bool,
}

/// Address space and chunk number: first page ÷ [`CHUNK_PAGES`].
type Key = (SpaceId, u64);

/// Number of elements of `recent`, a direct-mapped cache that finds the chunk of a page without a
/// search of `places`. The lowest bits of the chunk number select the element.
const RECENT: usize = 16;

/// Contents of a second-level TLB of unlimited size that walks fill, for counting compulsory
/// misses.
#[derive(Clone, Default)]
pub(crate) struct WalkedPages {
    /// Indices into `chunks` by address space and chunk number.
    places: BTreeMap<Key, u32>,
    chunks: Vec<Chunk>,
    recent: [Option<(Key, u32)>; RECENT],
}

impl WalkedPages {
    /// True if a walk has translated the page since the last reset of the counters, so
    /// [`Self::walk`] would have no effect. May also be false for such a page, because the page is
    /// searched only in recently used chunks.
    #[inline]
    pub(crate) fn is_known(&self, space: SpaceId, page: u64) -> bool {
        let key = (space, page / CHUNK_PAGES);
        let (word, bit) = position(page);
        match self.recent[key.1 as usize % RECENT] {
            Some((recent, place)) if recent == key => {
                self.chunks[place as usize].in_measured_part[word] & bit != 0
            }
            _ => false,
        }
    }

    /// Records a walk after a miss of `page`; the walk translated all pages of `translated`. The
    /// result shows whether it was the first walk to `page`.
    pub(crate) fn walk(&mut self, space: SpaceId, page: u64, translated: Range<u64>) -> FirstWalk {
        let (word, bit) = position(page);
        let chunk = self.chunk((space, page / CHUNK_PAGES));
        let first = FirstWalk {
            in_run: chunk.in_run[word] & bit == 0,
            in_measured_part: chunk.in_measured_part[word] & bit == 0,
        };
        if first.in_measured_part {
            if translated.end - translated.start == 1 {
                chunk.in_run[word] |= bit;
                chunk.in_measured_part[word] |= bit;
            } else {
                self.note(space, translated);
            }
        }
        first
    }

    /// Marks the pages of `translated` as translated by a walk.
    fn note(&mut self, space: SpaceId, translated: Range<u64>) {
        for number in chunks_of(&translated) {
            let chunk = self.chunk((space, number));
            for (word, mask) in masks(&translated, number) {
                chunk.in_run[word] |= mask;
                chunk.in_measured_part[word] |= mask;
            }
        }
    }

    /// Marks these pages as invalidated: the next walk to such a page is a first walk again.
    pub(crate) fn invalidate(&mut self, space: SpaceId, pages: &Range<u64>) {
        for number in chunks_of(pages) {
            let Some(&place) = self.places.get(&(space, number)) else { continue };
            let chunk = &mut self.chunks[place as usize];
            for (word, mask) in masks(pages, number) {
                chunk.in_run[word] &= !mask;
                chunk.in_measured_part[word] &= !mask;
            }
        }
    }

    /// Marks all pages of an address space as invalidated.
    pub(crate) fn invalidate_space(&mut self, space: SpaceId) {
        for (_, &place) in self.places.range((space, 0)..=(space, u64::MAX)) {
            self.chunks[place as usize] = Chunk::EMPTY;
        }
    }

    /// Marks all pages of all address spaces as invalidated.
    pub(crate) fn invalidate_all(&mut self) {
        self.chunks.fill(Chunk::EMPTY);
    }

    /// Begins the measured part of the run: the next walk to each page is the first in that part.
    pub(crate) fn start_measuring(&mut self) {
        for chunk in &mut self.chunks {
            chunk.in_measured_part = [0; CHUNK_WORDS];
        }
    }

    #[inline]
    fn chunk(&mut self, key: Key) -> &mut Chunk {
        let place = match self.recent[key.1 as usize % RECENT] {
            Some((recent, place)) if recent == key => place,
            _ => self.search(key),
        };
        &mut self.chunks[place as usize]
    }

    #[cold]
    #[inline(never)]
    fn search(&mut self, key: Key) -> u32 {
        let chunks = &mut self.chunks;
        let place = *self.places.entry(key).or_insert_with(|| {
            chunks.push(Chunk::EMPTY);
            (chunks.len() - 1) as u32
        });
        self.recent[key.1 as usize % RECENT] = Some((key, place));
        place
    }
}

/// Returns the index of a page's word in its chunk, and the page's bit in the word.
fn position(page: u64) -> (usize, u64) {
    let place = page % CHUNK_PAGES;
    ((place / 64) as usize, 1 << (place % 64))
}

/// Returns the numbers of the chunks that contain these pages.
fn chunks_of(pages: &Range<u64>) -> Range<u64> {
    pages.start / CHUNK_PAGES..pages.end.div_ceil(CHUNK_PAGES)
}

/// Returns the indices of a chunk's words with bits of these pages, and the mask of the bits in
/// each word.
fn masks(pages: &Range<u64>, chunk: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
    let first = chunk * CHUNK_PAGES;
    let from = pages.start.saturating_sub(first);
    let until = (pages.end - first).min(CHUNK_PAGES);
    let words = (from / 64) as usize..(until.div_ceil(64)) as usize;
    words.map(move |word| {
        let start = word as u64 * 64;
        let low = from.max(start) - start;
        let high = until.min(start + 64) - start;
        (word, (u64::MAX >> (64 - (high - low))) << low)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId(3);
    const FIRST: FirstWalk = FirstWalk { in_run: true, in_measured_part: true };
    const AGAIN: FirstWalk = FirstWalk { in_run: false, in_measured_part: false };

    fn small(pages: &mut WalkedPages, page: u64) -> FirstWalk {
        pages.walk(SPACE, page, page..page + 1)
    }

    #[test]
    fn the_first_walk_to_a_page_is_compulsory_and_no_other() {
        let mut pages = WalkedPages::default();
        assert_eq!(
            [small(&mut pages, 7), small(&mut pages, 7), small(&mut pages, 8)],
            [FIRST, AGAIN, FIRST]
        );
        assert_eq!(pages.walk(SpaceId(4), 7, 7..8), FIRST, "another address space");
        // No 2MB page crosses the end of a chunk. A 1GB page fills 8 chunks.
        assert_eq!(pages.walk(SPACE, 262_144 + 9, 262_144..524_288), FIRST);
        assert_eq!(small(&mut pages, 524_287), AGAIN);
        assert_eq!(small(&mut pages, 524_288), FIRST);
    }

    #[test]
    fn the_first_walk_of_the_measured_part_is_counted_separately() {
        let mut pages = WalkedPages::default();
        pages.walk(SPACE, 512, 512..1024);
        pages.start_measuring();
        let known = FirstWalk { in_run: false, in_measured_part: true };
        assert_eq!([small(&mut pages, 700), small(&mut pages, 700)], [known, AGAIN]);
    }

    #[test]
    fn an_invalidated_translation_is_compulsory_again() {
        let mut pages = WalkedPages::default();
        pages.walk(SPACE, 4096, 4096..4608);
        pages.invalidate(SPACE, &(4160..4225));
        let walks = [4159, 4160, 4224, 4225].map(|page| small(&mut pages, page));
        assert_eq!(walks, [AGAIN, FIRST, FIRST, AGAIN]);
        pages.invalidate_space(SpaceId(2));
        assert_eq!(small(&mut pages, 4096), AGAIN);
        pages.invalidate_space(SPACE);
        assert_eq!(small(&mut pages, 4096), FIRST);
        pages.invalidate_all();
        assert_eq!(small(&mut pages, 4096), FIRST);
    }
}
