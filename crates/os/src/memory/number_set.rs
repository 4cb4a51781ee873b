//! A set of small numbers that finds its least and greatest member in a few steps.

/// Levels of the tree at most: numbers below 64⁵ fit.
const MOST_LEVELS: usize = 5;

/// Members are bits; each level above has one bit per word of the level below that is not zero.
/// There are as many levels as the greatest number ever inserted needs: the top is one word.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberSet {
    /// Lowest level first.
    levels: [Vec<u64>; MOST_LEVELS],
    height: usize,
}

impl NumberSet {
    /// Adds a number, which may be in the set already.
    pub(super) fn insert(&mut self, number: u64) {
        let mut index = number as usize;
        if self.levels[0].len() <= index / 64 {
            self.grow(index);
        }
        for words in &mut self.levels[..self.height] {
            let word = &mut words[index / 64];
            let others = *word != 0;
            *word |= 1 << (index % 64);
            if others {
                return; // The levels above know of this word.
            }
            index /= 64;
        }
    }

    /// Makes room for a number: words on every level, and levels.
    #[cold]
    fn grow(&mut self, number: usize) {
        let mut words = (number / 64 + 1).next_power_of_two();
        for level in 0.. {
            self.levels[level].resize(words, 0);
            if level == self.height {
                self.height += 1;
                // A new level above what was the top: one word, of which it has a bit.
                if level > 0 && self.levels[level - 1][0] != 0 {
                    self.levels[level][0] = 1;
                }
            }
            if words == 1 {
                return;
            }
            words = words.div_ceil(64);
        }
    }

    /// Removes a number, which need not be in the set.
    #[inline]
    pub(super) fn remove(&mut self, number: u64) {
        let mut index = number as usize;
        for words in &mut self.levels[..self.height] {
            let Some(word) = words.get_mut(index / 64) else { return };
            *word &= !(1 << (index % 64));
            if *word != 0 {
                return;
            }
            index /= 64;
        }
    }

    /// The least number.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        self.descend(|word| word.trailing_zeros() as usize)
    }

    /// The greatest number.
    #[inline]
    pub(super) fn last(&self) -> Option<u64> {
        self.descend(|word| 63 - word.leading_zeros() as usize)
    }

    #[inline]
    fn descend(&self, pick: impl Fn(u64) -> usize) -> Option<u64> {
        let levels = &self.levels[..self.height];
        if *levels.last()?.first()? == 0 {
            return None;
        }
        let down = |index: usize, words: &Vec<u64>| index * 64 + pick(words[index]);
        Some(levels.iter().rev().fold(0, down) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), 0u64..70_000), 1..400)) {
            let (mut set, mut model) = (NumberSet::default(), BTreeSet::new());
            for (add, number) in steps {
                // Few numbers of each size, so that the same ones come again.
                let number = if number % 3 == 0 { number } else { number % 100 };
                if add {
                    set.insert(number);
                    model.insert(number);
                } else {
                    set.remove(number);
                    model.remove(&number);
                }
                prop_assert_eq!(set.first(), model.first().copied());
                prop_assert_eq!(set.last(), model.last().copied());
            }
        }
    }
}
