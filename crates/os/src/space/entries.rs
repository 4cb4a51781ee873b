//! 4KB entries of a 2MB region, stored compactly if there are few.

use std::ops::Index;

use perforate_types::PageTableEntry;

/// Largest number of present entries of a node that are stored one by one; with more, all 512 are stored.
const MOST_FEW: usize = 16;

/// 4KB entries of a level-1 node, by index. An absent entry reads as [`PageTableEntry::ABSENT`]. An
/// entry takes 16 bytes of the host's memory, and a full node 4KB. The compact form pays off
/// because many programs touch only one page of some regions.
#[derive(Clone, Default)]
pub struct Entries {
    /// Present entries in order of their indices, if these are few; empty if `all` is in use.
    few: Vec<(u16, PageTableEntry)>,
    all: Option<Box<[PageTableEntry; 512]>>,
}

impl Entries {
    /// The present 4KB entries and their indices in the node, in ascending order.
    pub fn present(&self) -> impl Iterator<Item = (usize, PageTableEntry)> + '_ {
        let few = self.few.iter().map(|&(index, entry)| (usize::from(index), entry));
        let all = self.all.iter().flat_map(|all| all.iter().copied().enumerate());
        few.chain(all.filter(|(_, entry)| entry.is_present()))
    }

    /// Sets the 4KB entry with this index in the node, and returns the old one.
    pub fn replace(&mut self, index: usize, entry: PageTableEntry) -> PageTableEntry {
        if let Some(all) = &mut self.all {
            return std::mem::replace(&mut all[index], entry);
        }
        match (self.place(index), entry.is_present()) {
            (Ok(place), true) => std::mem::replace(&mut self.few[place].1, entry),
            (Ok(place), false) => self.few.remove(place).1,
            (Err(_), false) => PageTableEntry::ABSENT,
            (Err(place), true) if self.few.len() < MOST_FEW => {
                self.few.insert(place, (index as u16, entry));
                PageTableEntry::ABSENT
            }
            (Err(_), true) => {
                let mut all = Box::new([PageTableEntry::ABSENT; 512]);
                for (index, entry) in std::mem::take(&mut self.few) {
                    all[usize::from(index)] = entry;
                }
                all[index] = entry;
                self.all = Some(all);
                PageTableEntry::ABSENT
            }
        }
    }

    /// Removes the 4KB entry with this index in the node, and returns it.
    pub fn take(&mut self, index: usize) -> PageTableEntry {
        self.replace(index, PageTableEntry::ABSENT)
    }

    /// Position of an index in `few`, or where to insert it.
    fn place(&self, index: usize) -> Result<usize, usize> {
        self.few.binary_search_by_key(&(index as u16), |&(index, _)| index)
    }
}

impl Index<usize> for Entries {
    type Output = PageTableEntry;

    #[inline]
    fn index(&self, index: usize) -> &PageTableEntry {
        match &self.all {
            Some(all) => &all[index],
            None => self.place(index).map_or(&PageTableEntry::ABSENT, |place| &self.few[place].1),
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{Frame, PageSize, Permissions};

    use super::*;

    fn entry(frame: u64) -> PageTableEntry {
        PageTableEntry::leaf(Frame::new(frame), PageSize::Size4K, Permissions::READ_WRITE)
    }

    #[test]
    fn few_and_many_entries_are_the_same_to_read() {
        let mut entries = Entries::default();
        let indices: Vec<usize> = (0..40).map(|place| place * 173 % 512).collect();
        for (number, &index) in indices.iter().enumerate() {
            assert!(!entries[index].is_present());
            assert_eq!(entries.replace(index, entry(index as u64)), PageTableEntry::ABSENT);
            let mut known = indices[..=number].to_vec();
            known.sort();
            let expected: Vec<_> =
                known.iter().map(|&index| (index, entry(index as u64))).collect();
            assert_eq!(entries.present().collect::<Vec<_>>(), expected);
            assert_eq!(entries.all.is_some(), number >= MOST_FEW);
            assert_eq!(entries[511], PageTableEntry::ABSENT);
        }
        for &index in &indices {
            assert_eq!(entries.take(index), entry(index as u64));
            assert_eq!(entries.take(index), PageTableEntry::ABSENT);
        }
        assert_eq!(entries.present().count(), 0);
    }

    #[test]
    fn a_region_with_one_page_takes_little_memory() {
        let mut entries = Entries::default();
        entries.replace(7, entry(1));
        assert_eq!(entries.replace(7, entry(2)), entry(1));
        let bytes =
            size_of::<Entries>() + entries.few.capacity() * size_of::<(u16, PageTableEntry)>();
        assert!(bytes <= 128 && entries.all.is_none(), "{bytes}");
    }
}
