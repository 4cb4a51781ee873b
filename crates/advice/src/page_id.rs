//! Numbers of 4KB pages of all processes in 31 bits.
//!
//! Every aligned 1GB of one process in which there was an access has a number, its *group*. The id of a page
//! is its group and its 18-bit number within the 1GB. So `id >> n` numbers the aligned blocks of 2ⁿ pages for
//! every order up to 18, and the lowest bits of an id are those of the page number, which select the set of a
//! TLB.

use std::collections::HashMap;

use perforate_types::ProcessId;

use crate::PageOrder;

/// Number of bits of an id that number the pages of one group.
const GROUP_SHIFT: u32 = PageOrder::HUGE.0 as u32;
/// Number of groups that ids distinguish, 8TB.
const GROUPS: usize = 1 << (31 - GROUP_SHIFT);
/// Number of elements of the direct-mapped cache of groups.
const RECENT: usize = 16;

/// Id of a 4KB page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageId(pub(crate) u32);

impl PageId {
    /// Number of the aligned block of 2ⁿ pages that contains the page; unique among blocks of that order.
    #[inline]
    pub(crate) const fn block(self, order: PageOrder) -> u32 {
        self.0 >> order.0
    }
}

/// Ids of the pages that programs touch.
pub(crate) struct PageIds {
    /// Process and address ÷ 1GB of each group.
    groups: Vec<(ProcessId, u64)>,
    numbers: HashMap<(ProcessId, u64), u32>,
    recent: [Option<(ProcessId, u64, u32)>; RECENT],
}

impl PageIds {
    pub(crate) fn new() -> Self {
        Self { groups: Vec::new(), numbers: HashMap::new(), recent: [None; RECENT] }
    }

    /// Returns the id of a page, which may be new; `None` if there are no more ids.
    #[inline]
    pub(crate) fn id(&mut self, process: ProcessId, page: u64) -> Option<PageId> {
        let gigabyte = page >> GROUP_SHIFT;
        let group = match self.recent[gigabyte as usize % RECENT] {
            Some((owner, number, group)) if (owner, number) == (process, gigabyte) => group,
            _ => self.search(process, gigabyte)?,
        };
        Some(PageId(group << GROUP_SHIFT | (page & ((1 << GROUP_SHIFT) - 1)) as u32))
    }

    #[cold]
    fn search(&mut self, process: ProcessId, gigabyte: u64) -> Option<u32> {
        let next = self.groups.len() as u32;
        let group = match self.numbers.get(&(process, gigabyte)) {
            Some(&group) => group,
            None if self.groups.len() == GROUPS => return None,
            None => {
                self.groups.push((process, gigabyte));
                self.numbers.insert((process, gigabyte), next);
                next
            }
        };
        self.recent[gigabyte as usize % RECENT] = Some((process, gigabyte, group));
        Some(group)
    }

    /// Process of a page, and page number in its address space.
    pub(crate) fn page(&self, id: PageId) -> (ProcessId, u64) {
        let (process, gigabyte) = self.groups[(id.0 >> GROUP_SHIFT) as usize];
        (process, gigabyte << GROUP_SHIFT | u64::from(id.0 & ((1 << GROUP_SHIFT) - 1)))
    }

    /// Address ÷ 1GB of each group, by number of the group.
    pub(crate) fn gigabytes(&self) -> impl ExactSizeIterator<Item = u64> {
        self.groups.iter().map(|(_, gigabyte)| *gigabyte)
    }

    /// Number of ids up to the last of the last group.
    pub(crate) fn len(&self) -> usize {
        self.groups.len() << GROUP_SHIFT
    }

    /// Ids of a range of pages, as ranges within groups. Pages of groups without accesses have none.
    pub(crate) fn ranges(
        &self,
        process: ProcessId,
        pages: &std::ops::Range<u64>,
    ) -> Vec<std::ops::Range<u32>> {
        let within = |gigabyte: u64, group: u32| {
            let first = gigabyte << GROUP_SHIFT;
            let start = pages.start.saturating_sub(first) as u32;
            let end = (pages.end - first).min(1 << GROUP_SHIFT) as u32;
            (group << GROUP_SHIFT) + start..(group << GROUP_SHIFT) + end
        };
        if pages.is_empty() {
            return Vec::new();
        }
        let gigabytes = pages.start >> GROUP_SHIFT..((pages.end - 1) >> GROUP_SHIFT) + 1;
        if gigabytes.end - gigabytes.start > self.groups.len() as u64 {
            // A range of many gigabytes, of which programs touch few.
            let groups = (0..).zip(&self.groups);
            let own = groups.filter(|(_, (owner, at))| *owner == process && gigabytes.contains(at));
            return own.map(|(group, (_, gigabyte))| within(*gigabyte, group)).collect();
        }
        let numbered = gigabytes.filter_map(|it| Some((it, *self.numbers.get(&(process, it))?)));
        numbered.map(|(gigabyte, group)| within(gigabyte, group)).collect()
    }
}

/// A set of page ids, or of blocks of pages by number.
#[derive(Clone, Default)]
pub(crate) struct BitSet(Vec<u64>);

impl BitSet {
    #[inline]
    pub(crate) fn contains(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// Adds a number. Returns true if it was absent.
    #[inline]
    pub(crate) fn insert(&mut self, number: usize) -> bool {
        if number / 64 >= self.0.len() {
            self.0.resize((number / 64 + 1).next_multiple_of(4096), 0);
        }
        let word = &mut self.0[number / 64];
        let is_absent = *word >> (number % 64) & 1 == 0;
        *word |= 1 << (number % 64);
        is_absent
    }

    pub(crate) fn remove(&mut self, number: usize) -> bool {
        let is_present = self.contains(number);
        if is_present {
            self.0[number / 64] &= !(1 << (number % 64));
        }
        is_present
    }

    /// Removes all numbers of a range.
    pub(crate) fn remove_range(&mut self, range: std::ops::Range<usize>) {
        let end = range.end.min(self.0.len() * 64);
        let mut at = range.start;
        while at < end {
            if at.is_multiple_of(64) && end - at >= 64 {
                self.0[at / 64] = 0;
                at += 64;
            } else {
                self.0[at / 64] &= !(1 << (at % 64));
                at += 1;
            }
        }
    }

    /// Numbers of the set within a range, in order.
    pub(crate) fn within(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let words = range.start / 64..range.end.div_ceil(64).min(self.0.len());
        words
            .flat_map(move |index| bits(self.0[index]).map(move |bit| index * 64 + bit))
            .filter(move |number| range.contains(number))
    }
}

/// Numbers of the set bits of a word, in order.
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Range;

    use super::*;

    const GIGABYTE: u64 = 1 << GROUP_SHIFT;

    /// Ids of a range are those of its pages in the groups of the process, and an empty range has none.
    #[test]
    fn ranges_of_ids_are_those_of_their_pages() {
        let (own, other) = (ProcessId(1), ProcessId(2));
        let mut ids = PageIds::new();
        for (process, gigabyte) in [(own, 3), (other, 2), (own, 0), (own, 9), (own, 2)] {
            ids.id(process, gigabyte * GIGABYTE + 7).unwrap();
        }
        let ends = [0, 5, GIGABYTE - 1, GIGABYTE, 2 * GIGABYTE, 2 * GIGABYTE + 7, 3 * GIGABYTE + 1]
            .into_iter()
            .chain([9 * GIGABYTE + 2, 40 * GIGABYTE]);
        for start in ends.clone() {
            for end in ends.clone().filter(|&end| end >= start) {
                let pages = |ids_of: &Range<u32>| {
                    let (process, first) = ids.page(PageId(ids_of.start));
                    let (_, last) = ids.page(PageId(ids_of.end - 1));
                    assert_eq!(
                        (process, last - first),
                        (own, u64::from(ids_of.end - ids_of.start) - 1)
                    );
                    first..last + 1
                };
                let mut found: Vec<_> = ids.ranges(own, &(start..end)).iter().map(pages).collect();
                found.sort_by_key(|range| range.start);
                let groups = [0, 2, 3, 9].map(|it| it * GIGABYTE..(it + 1) * GIGABYTE);
                let parts = groups.map(|group| group.start.max(start)..group.end.min(end));
                let expected: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                assert_eq!(found, expected, "{start}..{end}");
            }
        }
    }

    #[test]
    fn a_set_has_the_numbers_of_an_ordinary_set() {
        let (mut set, mut ordinary) = (BitSet::default(), BTreeSet::new());
        let mut state = 1_u64;
        let mut below = |limit: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) as usize % limit
        };
        // Numbers close together, and far apart: the set grows as its numbers do.
        for round in 0..2_400 {
            let step = if round < 2_000 { 1 } else { 2_003 };
            let (number, start, length) = (below(400) * step, below(400) * step, below(200));
            match below(8) {
                0 => {
                    set.remove_range(start..start + length);
                    ordinary.retain(|number| !(start..start + length).contains(number));
                }
                1 => assert_eq!(set.remove(number), ordinary.remove(&number)),
                _ => assert_eq!(set.insert(number), ordinary.insert(number)),
            }
            assert_eq!(set.contains(number), ordinary.contains(&number));
            assert!(
                set.within(start..start + length)
                    .eq(ordinary.range(start..start + length).copied())
            );
        }
    }
}
