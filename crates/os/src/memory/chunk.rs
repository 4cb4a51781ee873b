//! Free blocks inside one 4MB chunk: a bitmap per order, 2047 bits in all.

/// Largest order of the buddy allocator: 1024 frames, 4MB.
pub(super) const MAX_ORDER: u32 = 10;
/// Frames of a chunk.
pub(super) const CHUNK_FRAMES: u64 = 1 << MAX_ORDER;

/// Which end of the memory an allocation is taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Lowest,
    Highest,
}

/// A partly free chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Order 0 in bits 0–1023, order 1 in 1024–1535, …, order 10 in bit 2046.
    bits: [u64; 32],
    /// Free blocks of each order.
    counts: [u16; MAX_ORDER as usize + 1],
}

const fn first_bit(order: u32) -> usize {
    2048 - (2048 >> order)
}

impl Chunk {
    /// A chunk without free frames.
    pub(super) const FULL: Self = Self { bits: [0; 32], counts: [0; MAX_ORDER as usize + 1] };

    /// A chunk that is one free block.
    pub(super) fn whole() -> Self {
        let mut chunk = Self::FULL;
        chunk.set(MAX_ORDER, 0);
        chunk
    }

    /// Bit *o* is set when there is a free block of order *o*.
    pub(super) fn orders(&self) -> u32 {
        (0..).zip(self.counts).fold(0, |mask, (order, count)| mask | u32::from(count > 0) << order)
    }

    /// Whether all frames are free.
    pub(super) fn is_whole(&self) -> bool {
        self.counts[MAX_ORDER as usize] == 1
    }

    /// Number of free blocks of exactly this order.
    pub(super) fn count(&self, order: u32) -> u64 {
        u64::from(self.counts[order as usize])
    }

    /// Takes a block of `order` out of a free block of `from_order`, at the given end.
    pub(super) fn allocate(&mut self, from_order: u32, order: u32, end: End) -> usize {
        let mut index = self.find(from_order, end).expect("a free block of that order");
        self.clear(from_order, index);
        for order in (order..from_order).rev() {
            index = 2 * index + usize::from(end == End::Highest);
            self.set(order, index ^ 1);
        }
        index
    }

    /// The order of the free block that covers frame `index`, if it is free.
    pub(super) fn free_order(&self, index: usize) -> Option<u32> {
        (0..=MAX_ORDER).find(|&order| self.get(order, index >> order))
    }

    /// Takes exactly frame `index`; returns whether it was free.
    pub(super) fn take(&mut self, index: usize) -> bool {
        let Some(found) = self.free_order(index) else { return false };
        self.clear(found, index >> found);
        for order in (0..found).rev() {
            self.set(order, (index >> order) ^ 1);
        }
        true
    }

    /// Gives back block `index` of `order`, merging it with its free buddies.
    pub(super) fn free(&mut self, order: u32, index: usize) {
        assert_eq!(self.free_order(index << order), None, "freed twice");
        let (mut order, mut index) = (order, index);
        while order < MAX_ORDER && self.get(order, index ^ 1) {
            self.clear(order, index ^ 1);
            index >>= 1;
            order += 1;
        }
        self.set(order, index);
    }

    fn find(&self, order: u32, end: End) -> Option<usize> {
        let (first, last) = (first_bit(order), first_bit(order + 1) - 1);
        let word = |place: usize| {
            let mut word = self.bits[place];
            if place == first / 64 {
                word &= u64::MAX << (first % 64);
            }
            if place == last / 64 {
                word &= u64::MAX >> (63 - last % 64);
            }
            word
        };
        let mut places = first / 64..=last / 64;
        let bit = match end {
            End::Lowest => places
                .find(|&place| word(place) != 0)
                .map(|place| 64 * place + word(place).trailing_zeros() as usize),
            End::Highest => places
                .rfind(|&place| word(place) != 0)
                .map(|place| 64 * place + 63 - word(place).leading_zeros() as usize),
        };
        bit.map(|bit| bit - first)
    }

    fn get(&self, order: u32, index: usize) -> bool {
        let bit = first_bit(order) + index;
        self.bits[bit / 64] >> (bit % 64) & 1 != 0
    }

    fn set(&mut self, order: u32, index: usize) {
        let bit = first_bit(order) + index;
        self.bits[bit / 64] |= 1 << (bit % 64);
        self.counts[order as usize] += 1;
    }

    fn clear(&mut self, order: u32, index: usize) {
        let bit = first_bit(order) + index;
        self.bits[bit / 64] &= !(1 << (bit % 64));
        self.counts[order as usize] -= 1;
    }
}
