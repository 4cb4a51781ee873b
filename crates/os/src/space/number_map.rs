//! An ordered map from 2MB region numbers to values, for the look-ups of every fault. Values of one
//! gigabyte are stored together, so a look-up is a short search for the gigabyte and an index.

use std::collections::BTreeMap;
use std::ops::Range;

/// Number of keys in a group: the 512 2MB regions of 1GB.
const GROUP: u64 = 512;

/// Values by number of the 2MB region, in order. A number without neighbours costs about 4KB of host memory.
pub(crate) struct NumberMap<V> {
    /// Groups of values by 2MB region number ÷ 512; none is empty.
    groups: BTreeMap<u64, Box<Group<V>>>,
}

struct Group<V> {
    values: [Option<Box<V>>; GROUP as usize],
    used: u32,
}

impl<V> Default for Group<V> {
    fn default() -> Self {
        Self { values: [const { None }; GROUP as usize], used: 0 }
    }
}

impl<V> Default for NumberMap<V> {
    fn default() -> Self {
        Self { groups: BTreeMap::new() }
    }
}

fn split(number: u64) -> (u64, usize) {
    (number / GROUP, (number % GROUP) as usize)
}

impl<V> NumberMap<V> {
    /// Value of 2MB region `number`; `None` if it has none.
    #[inline]
    pub(crate) fn get(&self, number: &u64) -> Option<&V> {
        let (group, index) = split(*number);
        self.groups.get(&group)?.values[index].as_deref()
    }

    /// Value of 2MB region `number`, mutably; `None` if it has none.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: &u64) -> Option<&mut V> {
        let (group, index) = split(*number);
        self.groups.get_mut(&group)?.values[index].as_deref_mut()
    }

    /// True if 2MB region `number` has a value.
    pub(crate) fn contains_key(&self, number: &u64) -> bool {
        self.get(number).is_some()
    }

    /// Sets the value of 2MB region `number` and returns the old one.
    pub(crate) fn insert(&mut self, number: u64, value: V) -> Option<V> {
        let (key, index) = split(number);
        let group = self.groups.entry(key).or_default();
        let old = group.values[index].replace(Box::new(value));
        group.used += u32::from(old.is_none());
        old.map(|old| *old)
    }

    /// Removes the value of 2MB region `number` and returns it.
    pub(crate) fn remove(&mut self, number: &u64) -> Option<V> {
        let (key, index) = split(*number);
        let group = self.groups.get_mut(&key)?;
        let old = group.values[index].take()?;
        group.used -= 1;
        if group.used == 0 {
            self.groups.remove(&key);
        }
        Some(*old)
    }

    /// Removes the values of all 2MB regions.
    pub(crate) fn clear(&mut self) {
        self.groups.clear();
    }

    /// Numbers of the 2MB regions that have a value, and the values, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.range(0..u64::MAX)
    }

    /// Values in ascending order of the numbers of their 2MB regions.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Numbers of the 2MB regions in this range that have a value, and the values, in ascending order.
    pub(crate) fn range(&self, numbers: Range<u64>) -> impl Iterator<Item = (u64, &V)> {
        let groups = self.groups.range(numbers.start / GROUP..numbers.end.div_ceil(GROUP));
        groups.flat_map(move |(&key, group)| {
            let first = key * GROUP;
            let from = numbers.start.saturating_sub(first);
            let to = (numbers.end - first).min(GROUP);
            (from..to).filter_map(move |index| {
                Some((first + index, group.values[index as usize].as_deref()?))
            })
        })
    }
}

impl<V: Default> NumberMap<V> {
    /// Value of 2MB region `number`. Inserts the default value if it has none.
    #[inline]
    pub(crate) fn get_or_default(&mut self, number: u64) -> &mut V {
        let (key, index) = split(number);
        let group = self.groups.entry(key).or_default();
        group.values[index].get_or_insert_with(|| {
            group.used += 1;
            Box::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_btree_map(
            steps in prop::collection::vec((0u8..4, 0u64..2000, 0u64..2000), 1..200),
        ) {
            let (mut map, mut model) = (NumberMap::default(), BTreeMap::new());
            for (act, number, other) in steps {
                match act {
                    0 | 1 => prop_assert_eq!(
                        map.insert(number, other),
                        model.insert(number, other)
                    ),
                    2 => prop_assert_eq!(map.remove(&number), model.remove(&number)),
                    _ => {
                        *map.get_or_default(number) += 1;
                        *model.entry(number).or_default() += 1;
                    }
                }
                prop_assert_eq!(map.get(&other), model.get(&other));
                let range = number.min(other)..number.max(other);
                let found: Vec<_> = map.range(range.clone()).map(|(n, v)| (n, *v)).collect();
                let expected: Vec<_> = model.range(range).map(|(n, v)| (*n, *v)).collect();
                prop_assert_eq!(found, expected);
            }
            prop_assert!(map.values().eq(model.values()));
        }
    }
}
