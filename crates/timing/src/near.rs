//! Bitmap of the coming cycles in which something happens.

/// Number of cycles, from the current one on, that a bitmap or table of coming cycles covers.
pub(crate) const NEAR: u64 = 1024;
/// Bits in a word of the bitmap.
const WORD: usize = u64::BITS as usize;

/// Set of cycles, none [`NEAR`] or more ahead of now: one bit for each, at the cycle modulo [`NEAR`].
#[derive(Clone, Debug, Default)]
pub(crate) struct NearCycles {
    words: [u64; NEAR as usize / WORD],
    /// Bit *n* is set if word *n* is not 0.
    used: u16,
}

/// Index of a cycle in a table of [`NEAR`] cycles.
#[inline]
pub(crate) const fn place(time: u64) -> usize {
    (time % NEAR) as usize
}

impl NearCycles {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Adds a cycle; returns true if the set did not have it.
    #[inline]
    pub(crate) fn add(&mut self, time: u64) -> bool {
        let (word, bit) = (place(time) / WORD, 1 << (place(time) % WORD));
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.used |= 1 << word;
        is_new
    }

    #[inline]
    pub(crate) fn remove(&mut self, time: u64) {
        let word = place(time) / WORD;
        self.words[word] &= !(1 << (place(time) % WORD));
        if self.words[word] == 0 {
            self.used &= !(1 << word);
        }
    }

    /// First cycle of the set from `now` on.
    #[inline]
    pub(crate) fn first(&self, now: u64) -> Option<u64> {
        let (word, bit) = (place(now) / WORD, place(now) % WORD);
        let rest = self.words[word] >> bit;
        if rest != 0 {
            return Some(now + u64::from(rest.trailing_zeros()));
        }
        if self.used == 0 {
            return None;
        }
        // Once around: what lies before now in its own word comes last.
        let further = 1 + self.used.rotate_right(word as u32 + 1).trailing_zeros() as usize;
        let bits = self.words[(word + further) % self.words.len()];
        let ahead = further * WORD + bits.trailing_zeros() as usize - bit;
        Some(now + ahead as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_found_around_the_corner() {
        for now in [0, 1, 63, 64, 1000, 5_000_003] {
            for ahead in [0, 1, 40, 63, 64, 65, 900, 1023] {
                let mut cycles = NearCycles::default();
                assert_eq!(cycles.first(now), None);
                assert!(cycles.add(now + ahead) && !cycles.add(now + ahead));
                cycles.add(now + NEAR - 1);
                assert_eq!(cycles.first(now), Some(now + ahead), "{now} {ahead}");
                cycles.remove(now + ahead);
                cycles.remove(now + NEAR - 1);
                assert!(cycles.is_empty());
            }
        }
    }
}
