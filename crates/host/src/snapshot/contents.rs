//! Statistics of page contents by hash: numbers of zero pages and of copies.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of hashes of page contents in memory (512MB). Beyond it, half of the contents are
/// dropped.
const MAX_HASHES: usize = 1 << 26;

/// Hashes of page contents, which count copies.
///
/// If there are too many hashes, only a sample remains: all pages with some of the *contents*,
/// chosen by hash, so that copies stay together.
#[derive(Clone, Debug)]
pub struct PageContents {
    hashes: Vec<u64>,
    zero: u64,
    pages: u64,
    max: usize,
    /// Base-2 logarithm of the sampling period: one of 2^shift page contents is kept.
    shift: u32,
}

impl Default for PageContents {
    fn default() -> Self {
        Self { hashes: Vec::new(), zero: 0, pages: 0, max: MAX_HASHES, shift: 0 }
    }
}

impl PageContents {
    /// Counts a page with this content.
    pub fn add(&mut self, page: &[u8]) {
        self.pages += 1;
        if page.iter().all(|&byte| byte == 0) {
            self.zero += 1;
            return;
        }
        let hash = xxh3_64(page);
        if self.keeps(hash) {
            self.hashes.push(hash);
        }
        while self.hashes.len() > self.max {
            self.shift += 1;
            let mask = self.mask();
            self.hashes.retain(|hash| hash & mask == 0);
        }
    }

    fn mask(&self) -> u64 {
        (1 << self.shift.min(63)) - 1
    }

    fn keeps(&self, hash: u64) -> bool {
        hash & self.mask() == 0
    }

    /// Number of pages whose contents were added.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Number of added pages that contain only zeros.
    pub fn zero_pages(&self) -> u64 {
        self.zero
    }

    /// Sampling period of page contents: one of this number is kept. 1 without sampling.
    pub fn sampled_one_in(&self) -> u64 {
        self.mask() + 1
    }

    /// Number of pages by content hash, for the sampled contents other than zeros.
    pub fn by_hash(&self) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        self.hashes.iter().for_each(|&hash| *counts.entry(hash).or_default() += 1);
        counts
    }

    /// Returns the number of pages that share their content with other pages, the number of such
    /// contents, and the number of pages with the most frequent content. Zero pages are excluded.
    /// Estimates if contents are sampled.
    pub fn duplicates(&self) -> (u64, u64, u64) {
        let mut sorted = self.hashes.clone();
        sorted.sort_unstable();
        let (mut pages, mut contents, mut most) = (0, 0, 0);
        for copies in sorted.chunk_by(|a, b| a == b).map(|run| run.len() as u64) {
            if copies > 1 {
                pages += copies;
                contents += 1;
                most = most.max(copies);
            }
        }
        let scale = self.sampled_one_in();
        (pages * scale, contents * scale, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u64) -> Vec<u8> {
        let mut page = vec![0; 4096];
        page[100..108].copy_from_slice(&number.to_le_bytes());
        page
    }

    #[test]
    fn copies_are_counted() {
        let mut contents = PageContents::default();
        // Pages of zeros three times; content 1 twice, 2 four times, 3 once.
        for number in [0, 1, 2, 2, 0, 1, 2, 3, 2, 0] {
            contents.add(&page(number));
        }
        assert_eq!((contents.pages(), contents.zero_pages()), (10, 3));
        assert_eq!(contents.duplicates(), (6, 2, 4));
        assert_eq!(contents.by_hash().values().sum::<u64>(), 7);
    }

    /// Adds 4000 contents of four pages each, with room for 1000 hashes: about one content in
    /// sixteen remains.
    #[test]
    fn a_sample_keeps_copies_together() {
        let mut contents = PageContents { max: 1000, ..PageContents::default() };
        for number in 0..16_000 {
            contents.add(&page(1 + number % 4000));
        }
        assert!(contents.sampled_one_in() >= 16 && contents.hashes.len() <= 1000);
        let (pages, different, most) = contents.duplicates();
        assert_eq!((most, pages), (4, 4 * different));
        // 4000 random choices with probability 1/16 to 1/32: within five standard deviations.
        assert!((2500..5500).contains(&different), "{different}");
    }
}
