//! Simulated physical memory that the walker reads: page-table nodes and hole bitmaps, as 64-bit
//! words at physical addresses.

use perforate_types::{Frame, PageTableEntry, PhysicalAddress};

/// Number of frames in a group. A two-level index finds a frame's storage: by group, then by frame
/// in the group.
const GROUP: usize = 1024;
/// Storage index of a frame that was never written, or was cleared.
const ABSENT: u32 = u32::MAX;
/// Bit in the storage index of a frame that is stored as [`FewWords`].
const IS_FEW: u32 = 1 << 31;
/// Maximum number of written words in a frame that is stored as [`FewWords`].
const MOST_FEW: usize = 7;

/// Sparse memory of 64-bit words. Frames that were never written read as zero and take no memory of
/// the simulating computer. A frame with up to seven written words, such as a page-table node with
/// up to seven entries, takes 72 bytes. A frame with more takes 4KB.
#[derive(Default)]
pub struct TableMemory {
    groups: Vec<Option<Box<[u32; GROUP]>>>,
    whole: Pool<[u64; 512]>,
    few: Pool<FewWords>,
}

/// A frame in which at most [`MOST_FEW`] words were written. All other words are zero.
#[derive(Clone, Copy, Default)]
struct FewWords {
    words: [u64; MOST_FEW],
    /// Index in the frame (0–511) of each element of `words`.
    indices: [u16; MOST_FEW],
    count: u16,
}

impl FewWords {
    #[inline]
    fn find(&self, index: usize) -> Option<usize> {
        let known = &self.indices[..usize::from(self.count)];
        known.iter().position(|&known| usize::from(known) == index)
    }

    /// Returns the position of word `index` in `words`, added if it is new; `None` if there is no
    /// room.
    #[inline]
    fn find_or_add(&mut self, index: usize) -> Option<usize> {
        self.find(index).or_else(|| {
            let place = usize::from(self.count);
            *self.indices.get_mut(place)? = index as u16;
            self.count += 1;
            Some(place)
        })
    }
}

/// Storage for all frames of one representation (few words or 4KB each). Indices of cleared frames
/// are used again.
struct Pool<T> {
    contents: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { contents: Vec::new(), free: Vec::new() }
    }
}

impl<T> Pool<T> {
    fn add(&mut self, content: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.contents[place as usize] = content;
            return place;
        }
        if self.contents.len() == self.contents.capacity() {
            // Grows by a quarter, because doubling gigabytes would reserve much memory that is
            // never used.
            self.contents.reserve_exact(self.contents.len() / 4 + 16);
        }
        self.contents.push(content);
        self.contents.len() as u32 - 1
    }
}

/// Index of the 64-bit word at `address` in its frame, 0–511.
#[inline]
const fn index_in_frame(address: PhysicalAddress) -> usize {
    (address.value() as usize & 0xfff) / 8
}

impl TableMemory {
    /// Creates a memory in which every word is zero.
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn place(&self, frame: Frame) -> u32 {
        let number = frame.number() as usize;
        match self.groups.get(number / GROUP) {
            Some(Some(group)) => group[number % GROUP],
            _ => ABSENT,
        }
    }

    /// The aligned 64-bit word at `address`.
    #[inline]
    pub fn word(&self, address: PhysicalAddress) -> u64 {
        let (place, index) = (self.place(address.page()), index_in_frame(address));
        if place & IS_FEW == 0 {
            return self.whole.contents[place as usize][index];
        }
        if place == ABSENT {
            return 0;
        }
        let few = &self.few.contents[(place & !IS_FEW) as usize];
        few.find(index).map_or(0, |place| few.words[place])
    }

    /// Writes the aligned 64-bit word at `address`.
    #[inline]
    pub fn set_word(&mut self, address: PhysicalAddress, value: u64) {
        *self.word_mut(address) = value;
    }

    #[inline]
    fn word_mut(&mut self, address: PhysicalAddress) -> &mut u64 {
        let (place, index) = (self.place(address.page()), index_in_frame(address));
        if place & IS_FEW == 0 {
            return &mut self.whole.contents[place as usize][index];
        }
        self.word_of_few(address.page(), place, index)
    }

    /// Returns a word of a frame that is absent or stored as [`FewWords`]. The eighth word moves
    /// the frame to storage of 4KB.
    fn word_of_few(&mut self, frame: Frame, mut place: u32, index: usize) -> &mut u64 {
        if place == ABSENT {
            place = self.few.add(FewWords::default()) | IS_FEW;
            self.set_place(frame, place);
        }
        let number = place & !IS_FEW;
        match self.few.contents[number as usize].find_or_add(index) {
            Some(found) => &mut self.few.contents[number as usize].words[found],
            None => {
                let few = self.few.contents[number as usize];
                self.few.free.push(number);
                let mut whole = [0; 512];
                for (index, word) in few.indices.into_iter().zip(few.words) {
                    whole[usize::from(index)] = word;
                }
                let place = self.whole.add(whole);
                self.set_place(frame, place);
                &mut self.whole.contents[place as usize][index]
            }
        }
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

    /// Writes the page-table entry at `address`; returns the previous entry.
    pub fn replace_entry(
        &mut self,
        address: PhysicalAddress,
        entry: PageTableEntry,
    ) -> PageTableEntry {
        let before = std::mem::replace(self.word_mut(address), entry.bits());
        PageTableEntry::from_bits(before)
    }

    /// Sets all words of a frame to zero, and frees its storage for other frames.
    pub fn clear_frame(&mut self, frame: Frame) {
        let place = self.place(frame);
        if place == ABSENT {
            return;
        }
        match place & IS_FEW {
            0 => self.whole.free.push(place),
            _ => self.few.free.push(place & !IS_FEW),
        }
        self.set_place(frame, ABSENT);
    }

    #[cold]
    fn set_place(&mut self, frame: Frame, place: u32) {
        let number = frame.number() as usize;
        if self.groups.len() <= number / GROUP {
            self.groups.resize_with(number / GROUP + 1, || None);
        }
        let group = self.groups[number / GROUP].get_or_insert_with(|| Box::new([ABSENT; GROUP]));
        group[number % GROUP] = place;
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

    #[test]
    fn a_frame_takes_host_memory_for_what_it_holds() {
        let mut memory = TableMemory::new();
        let at = |frame: u64, word: u64| PhysicalAddress::new(frame * 4096 + word * 8);
        for frame in 0..1000 {
            for word in 0..MOST_FEW as u64 {
                memory.set_word(at(frame, word * 70), frame + word);
            }
        }
        assert_eq!((memory.few.contents.len(), memory.whole.contents.len()), (1000, 0));
        assert!(size_of::<FewWords>() <= 80);
        memory.set_word(at(5, 511), 9);
        assert_eq!((memory.few.free.len(), memory.whole.contents.len()), (1, 1));
        for word in 0..MOST_FEW as u64 {
            assert_eq!(memory.word(at(5, word * 70)), 5 + word);
            assert_eq!(memory.word(at(5, word * 70 + 1)), 0);
        }
        assert_eq!(memory.word(at(5, 511)), 9);
        // Storage of both kinds is reused, and starts with zeros.
        memory.clear_frame(Frame::new(5));
        memory.clear_frame(Frame::new(6));
        assert_eq!((memory.word(at(5, 511)), memory.word(at(6, 70))), (0, 0));
        memory.set_word(at(2000, 1), 1);
        (0..8).for_each(|word| memory.set_word(at(2001, word), 1));
        assert_eq!((memory.word(at(2000, 70)), memory.word(at(2001, 511))), (0, 0));
        assert_eq!((memory.few.contents.len(), memory.whole.contents.len()), (1000, 1));
    }
}
