//! A set of small numbers that finds its least and greatest member in a few steps.

/// Levels of the tree: numbers below 64⁵ fit.
const LEVELS: usize = 5;

/// Members are bits; each level above has one bit per word of the level below that is not zero.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberSet {
    /// Lowest level first. They grow with the greatest number ever inserted.
    levels: [Vec<u64>; LEVELS],
}

impl NumberSet {
    /// Adds a number, which may be in the set already.
    pub(super) fn insert(&mut self, number: u64) {
        let mut index = number as usize;
        for words in &mut self.levels {
            if words.len() <= index / 64 {
                words.resize((index / 64 + 1).next_power_of_two(), 0);
            }
            words[index / 64] |= 1 << (index % 64);
            index /= 64;
        }
    }

    /// Removes a number, which need not be in the set.
    pub(super) fn remove(&mut self, number: u64) {
        let mut index = number as usize;
        for words in &mut self.levels {
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
        if *self.levels[LEVELS - 1].first()? == 0 {
            return None;
        }
        let down = |index: usize, words: &Vec<u64>| index * 64 + pick(words[index]);
        Some(self.levels.iter().rev().fold(0, down) as u64)
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
