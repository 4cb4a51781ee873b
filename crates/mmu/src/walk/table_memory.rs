//! The part of simulated physical memory that the walker reads: page-table nodes and hole
//! bitmaps, as real 64-bit words at real physical addresses.

use perforate_types::{Frame, PageTableEntry, PhysicalAddress};

/// Frames per group of the two-level index.
const GROUP: usize = 1024;
/// Index of a frame that holds nothing.
const ABSENT: u32 = u32::MAX;

/// Sparse memory of 64-bit words. Frames never written read as zero and take no host memory.
#[derive(Default)]
pub struct TableMemory {
    groups: Vec<Option<Box<[u32; GROUP]>>>,
    contents: Vec<[u64; 512]>,
    free: Vec<u32>,
}

impl TableMemory {
    /// Empty memory.
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn place(&self, frame: Frame) -> Option<usize> {
        let number = frame.number() as usize;
        let group = self.groups.get(number / GROUP)?.as_ref()?;
        let place = group[number % GROUP];
        (place != ABSENT).then_some(place as usize)
    }

    /// The aligned 64-bit word at `address`.
    #[inline]
    pub fn word(&self, address: PhysicalAddress) -> u64 {
        let word = (address.value() as usize & 0xfff) / 8;
        self.place(address.page()).map_or(0, |place| self.contents[place][word])
    }

    /// Writes the aligned 64-bit word at `address`.
    #[inline]
    pub fn set_word(&mut self, address: PhysicalAddress, value: u64) {
        *self.word_mut(address) = value;
    }

    #[inline]
    fn word_mut(&mut self, address: PhysicalAddress) -> &mut u64 {
        let place = self.place(address.page()).unwrap_or_else(|| self.allocate(address.page()));
        &mut self.contents[place][(address.value() as usize & 0xfff) / 8]
    }

    /// The page-table entry at `address`.
    #[inline]
    pub fn entry(&self, address: PhysicalAddress) -> PageTableEntry {
        PageTableEntry::from_bits(self.word(address))
    }

    /// Writes the page-table entry at `address`.
    #[inline]
    pub fn set_entry(&mut self, address: PhysicalAddress, entry: PageTableEntry) {
        self.set_word(address, entry.bits());
    }

    /// Writes the page-table entry at `address`; returns what was there.
    pub fn replace_entry(
        &mut self,
        address: PhysicalAddress,
        entry: PageTableEntry,
    ) -> PageTableEntry {
        let before = std::mem::replace(self.word_mut(address), entry.bits());
        PageTableEntry::from_bits(before)
    }

    /// Sets a whole frame to zero.
    pub fn clear_frame(&mut self, frame: Frame) {
        if let Some(place) = self.place(frame) {
            let number = frame.number() as usize;
            let group = self.groups[number / GROUP].as_mut().expect("the frame has a place");
            group[number % GROUP] = ABSENT;
            self.contents[place] = [0; 512];
            self.free.push(place as u32);
        }
    }

    #[cold]
    fn allocate(&mut self, frame: Frame) -> usize {
        let number = frame.number() as usize;
        if self.groups.len() <= number / GROUP {
            self.groups.resize_with(number / GROUP + 1, || None);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.contents.push([0; 512]);
            self.contents.len() as u32 - 1
        });
        let group = self.groups[number / GROUP].get_or_insert_with(|| Box::new([ABSENT; GROUP]));
        group[number % GROUP] = place;
        place as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_where_they_were_written() {
        let mut memory = TableMemory::new();
        let address = PhysicalAddress::new((1 << 40) + 4096 + 24);
        assert_eq!(memory.word(address), 0);
        memory.set_word(address, 7);
        assert_eq!(memory.word(address), 7);
        assert_eq!(memory.word(address.add(8)), 0);
        memory.clear_frame(address.page());
        assert_eq!(memory.word(address), 0);
        memory.set_word(PhysicalAddress::new(0), 9);
        assert_eq!(memory.word(PhysicalAddress::new(8)), 0, "a reused place starts empty");
    }
}
