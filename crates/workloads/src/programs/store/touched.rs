//! Set of heap pages that were touched, so that they have content.

use super::allocator::HEAP_END;
use crate::source::PAGE_BYTES;

/// Set of heap pages that were accessed since they were mapped or last returned to the operating system,
/// numbered downwards from the heap's end.
#[derive(Default)]
pub(super) struct Touched {
    bits: Vec<u64>,
    /// Number of heap pages in the set of touched pages.
    pub(super) pages: u64,
    /// Number of first accesses to heap pages so far. After a page was returned to the operating system, the
    /// next access is a first one again.
    pub(super) first_touches: u64,
}

impl Touched {
    fn number(address: u64) -> u64 {
        (HEAP_END - 1 - address) / PAGE_BYTES
    }

    /// Marks the page that contains this address as having content.
    #[inline]
    pub(super) fn add(&mut self, address: u64) {
        let number = Self::number(address);
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        if self.bits[word] & bit == 0 {
            self.bits[word] |= bit;
            self.pages += 1;
            self.first_touches += 1;
        }
    }

    /// Marks the pages of a range as empty, because they were returned to the operating system.
    pub(super) fn drop_range(&mut self, start: u64, length: u64) {
        for address in (start..start + length).step_by(PAGE_BYTES as usize) {
            let number = Self::number(address);
            let bit = 1 << (number % 64);
            if let Some(word) = self.bits.get_mut((number / 64) as usize)
                && *word & bit != 0
            {
                *word &= !bit;
                self.pages -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_once_until_they_are_dropped() {
        let mut touched = Touched::default();
        let last = HEAP_END - PAGE_BYTES;
        for address in [last, last + 7, HEAP_END - 1, last - 100 * PAGE_BYTES] {
            touched.add(address);
        }
        assert_eq!((touched.pages, touched.first_touches), (2, 2));
        touched.drop_range(last - PAGE_BYTES, 2 * PAGE_BYTES);
        assert_eq!((touched.pages, touched.first_touches), (1, 2));
        touched.add(last);
        assert_eq!((touched.pages, touched.first_touches), (2, 3));
    }
}
