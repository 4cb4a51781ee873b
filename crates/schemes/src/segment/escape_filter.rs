//! The escape filter of a direct segment: a Bloom filter of escaped pages (D §V).

use perforate_types::{Random, VirtualPage};

use crate::SchemeError;

/// Number of bytes of a page number that are hashed: 40 bits, for 52-bit addresses.
const BYTES: usize = 5;
/// Seed of the random words of the hash functions, which are fixed in hardware.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Geometry of a machine's escape filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EscapeFilterConfig {
    /// Total number of bits of one escape filter.
    pub bits: usize,
    /// Number of hash functions, each with a separate bank of bits.
    pub functions: usize,
}

impl Default for EscapeFilterConfig {
    /// Returns the geometry of the escape filter that D §IX.C evaluates.
    fn default() -> Self {
        Self { bits: 256, functions: 4 }
    }
}

impl EscapeFilterConfig {
    /// Checks that this geometry is possible.
    ///
    /// # Errors
    /// If the bits cannot be divided among the functions.
    pub fn validate(self) -> Result<(), SchemeError> {
        let Self { bits, functions } = self;
        match EscapeFilter::is_possible(bits, functions) {
            true => Ok(()),
            false => Err(SchemeError::EscapeFilter { bits, functions }),
        }
    }
}

/// A Bloom filter in parallel banks, one for each hash function. The functions are of class H3: the
/// exclusive-or of one random word for each set bit of the page number.
///
/// With `n` pages in a filter of `m` bits and `k` functions, another page is a false positive with
/// probability (1 − (1 − k/m)ⁿ)ᵏ.
#[derive(Clone)]
pub struct EscapeFilter {
    banks: Vec<Bank>,
    escaped: u64,
}

/// One hash function of an escape filter, and its bank of bits.
#[derive(Clone)]
struct Bank {
    bits: Vec<u64>,
    /// Exclusive-or of the hash function's random words, precomputed for each value of each byte of
    /// the page number.
    words: Box<[[u32; 256]; BYTES]>,
}

impl Bank {
    fn new(bits: usize, random: &mut Random) -> Self {
        let mut words = Box::new([[0; 256]; BYTES]);
        for table in words.iter_mut() {
            let rows: [u32; 8] = std::array::from_fn(|_| random.next() as u32 & (bits as u32 - 1));
            for (value, word) in table.iter_mut().enumerate() {
                let set = (0..8).filter(|bit| value >> bit & 1 != 0);
                *word = set.fold(0, |word, bit| word ^ rows[bit]);
            }
        }
        Self { bits: vec![0; bits.div_ceil(64)], words }
    }

    #[inline]
    fn hash(&self, page: VirtualPage) -> usize {
        let bytes = page.number().to_le_bytes();
        let word = (0..BYTES).fold(0, |word, byte| word ^ self.words[byte][bytes[byte] as usize]);
        word as usize
    }

    #[inline]
    fn holds(&self, page: VirtualPage) -> bool {
        let hash = self.hash(page);
        self.bits[hash / 64] >> (hash % 64) & 1 != 0
    }
}

impl EscapeFilter {
    /// Creates an empty filter of `bits` bits, divided among `functions` hash functions.
    ///
    /// # Panics
    /// If the geometry is not possible ([`Self::is_possible`]).
    pub fn new(bits: usize, functions: usize) -> Self {
        assert!(Self::is_possible(bits, functions), "no filter has {bits} bits, {functions} banks");
        let mut random = Random::new(SEED);
        let banks = (0..functions).map(|_| Bank::new(bits / functions, &mut random)).collect();
        Self { banks, escaped: 0 }
    }

    /// True if an escape filter can have this geometry: 1 to 64 banks, each with a power of two of
    /// bits.
    pub fn is_possible(bits: usize, functions: usize) -> bool {
        (1..=64).contains(&functions)
            && bits <= 1 << 24
            && bits.is_multiple_of(functions)
            && (bits / functions).is_power_of_two()
    }

    /// Adds an escaped page to the escape filter.
    pub fn insert(&mut self, page: VirtualPage) {
        self.escaped += 1;
        for bank in &mut self.banks {
            let hash = bank.hash(page);
            bank.bits[hash / 64] |= 1 << (hash % 64);
        }
    }

    /// True if no page was added to the filter.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.escaped == 0
    }

    /// True if the page has escaped, or is a false positive of the filter.
    #[inline]
    pub fn contains(&self, page: VirtualPage) -> bool {
        !self.is_empty() && self.banks.iter().all(|bank| bank.holds(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_escaped_are_never_missed() {
        let mut filter = EscapeFilter::new(256, 4);
        assert!(!filter.contains(VirtualPage::new(7)));
        let mut random = Random::new(1);
        let pages: Vec<_> = (0..64).map(|_| VirtualPage::new(random.next() >> 28)).collect();
        pages.iter().for_each(|&page| filter.insert(page));
        assert!(pages.iter().all(|&page| filter.contains(page)));
    }

    /// Over many sets of pages, the rate of false positives agrees with the formula at
    /// [`EscapeFilter`].
    #[test]
    fn false_positives_follow_the_closed_form() {
        for (bits, functions, escaped) in [(256, 4, 16), (256, 4, 48), (1024, 2, 32), (64, 1, 5)] {
            let (mut random, mut passed) = (Random::new(11), 0u32);
            let (sets, probes) = (400, 2_000);
            for _ in 0..sets {
                let mut filter = EscapeFilter::new(bits, functions);
                let base = random.next() >> 30 << 2;
                (0..escaped).for_each(|_| {
                    filter.insert(VirtualPage::new(base + random.next() % (1 << 20)));
                });
                let probe = |_| VirtualPage::new(base + (1 << 20) + random.next() % (1 << 21));
                passed +=
                    (0..probes).map(probe).filter(|&page| filter.contains(page)).count() as u32;
            }
            let rate = f64::from(passed) / f64::from(sets * probes);
            let kept = 1.0 - functions as f64 / bits as f64;
            let expected = (1.0 - kept.powi(escaped)).powi(functions as i32);
            assert!((rate / expected - 1.0).abs() < 0.1, "{rate} is not near {expected}");
        }
    }

    #[test]
    fn shapes() {
        let most = 1 << 24;
        for (bits, functions) in [(256, 4), (192, 3), (1, 1), (64, 64), (most, 1), (most, 64)] {
            assert!(EscapeFilter::is_possible(bits, functions), "{bits} {functions}");
            assert!(EscapeFilterConfig { bits, functions }.validate().is_ok());
        }
        for (bits, functions) in
            [(0, 4), (256, 0), (250, 4), (96, 4), (65, 65), (2 * most, 1), (2 * most, 64), (2, 4)]
        {
            assert!(!EscapeFilter::is_possible(bits, functions), "{bits} {functions}");
            assert_eq!(
                EscapeFilterConfig { bits, functions }.validate().unwrap_err().to_string(),
                format!(
                    "virtualization.escape_filter_bits: {bits} bits in {functions} functions are no \
                     filter; each function needs a power of two bits of its own"
                )
            );
        }
        let EscapeFilterConfig { bits, functions } = EscapeFilterConfig::default();
        assert_eq!((bits, functions), (256, 4));
    }
}
