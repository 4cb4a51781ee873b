//! Free blocks inside one pageblock of 2MB: a bitmap per order, 1023 bits in all.

use perforate_types::HoleSet;

use super::migrate_type::PAGEBLOCK_FRAMES;

/// Order of a whole pageblock.
pub(super) const PAGEBLOCK_ORDER: u32 = 9;

/// End of memory (lowest or highest address) from which an allocation takes its pageblock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Lowest,
    Highest,
}

/// Free blocks of a pageblock that has free frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pageblock {
    /// Bit sets of free blocks in the pageblock: order 0 in bits 0–511, order 1 in 512–767, …, order 9 in bit
    /// 1022.
    bits: [u64; 16],
    /// Number of free blocks of each order in the pageblock.
    counts: [u16; PAGEBLOCK_ORDER as usize + 1],
    /// Number of free blocks of all orders in the pageblock.
    blocks: u16,
}

const fn first_bit(order: u32) -> usize {
    1024 - (1024 >> order)
}

impl Pageblock {
    /// A pageblock without free frames.
    pub(super) const FULL: Self =
        Self { bits: [0; 16], counts: [0; PAGEBLOCK_ORDER as usize + 1], blocks: 0 };

    /// A pageblock that is a single free block.
    pub(super) fn whole() -> Self {
        let mut pageblock = Self::FULL;
        pageblock.set(PAGEBLOCK_ORDER, 0);
        pageblock
    }

    /// True if no frame of the pageblock is free.
    pub(super) fn is_full(&self) -> bool {
        self.blocks == 0
    }

    /// Number of free blocks of one order in the pageblock.
    pub(super) fn count(&self, order: usize) -> u16 {
        self.counts[order]
    }

    /// Number of free blocks of each order in the pageblock.
    pub(super) fn counts(&self) -> [u16; PAGEBLOCK_ORDER as usize + 1] {
        self.counts
    }

    /// True if all frames of the pageblock are free.
    pub(super) fn is_whole(&self) -> bool {
        self.counts[PAGEBLOCK_ORDER as usize] == 1
    }

    /// Number of free frames in the pageblock.
    pub(super) fn free_frames(&self) -> u64 {
        (0..).zip(self.counts).map(|(order, count)| u64::from(count) << order).sum()
    }

    /// Indices of the free frames in the pageblock.
    pub(super) fn free_set(&self) -> HoleSet {
        let mut words = [0; 8];
        words.copy_from_slice(&self.bits[..8]);
        let orders = (1..=PAGEBLOCK_ORDER).filter(|&order| self.counts[order as usize] > 0);
        for (order, block) in
            orders.flat_map(|order| self.blocks_of(order).map(move |b| (order, b)))
        {
            let (first, frames) = (block << order, 1 << order);
            match frames {
                64.. => words[first / 64..(first + frames) / 64].fill(u64::MAX),
                _ => words[first / 64] |= ((1 << frames) - 1) << (first % 64),
            }
        }
        HoleSet::from_words(words)
    }

    /// Free blocks of one order in the pageblock, by their index among the blocks of that order.
    fn blocks_of(&self, order: u32) -> impl Iterator<Item = usize> + '_ {
        let start = first_bit(order);
        let end = start + (PAGEBLOCK_FRAMES as usize >> order);
        (start / 64..end.div_ceil(64)).flat_map(move |word| {
            // The last word has bits of several orders.
            let (from, to) = (start.max(word * 64), end.min(word * 64 + 64));
            let mut left = self.bits[word] & u64::MAX >> (64 - (to - from)) << (from % 64);
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| word * 64 + left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(bit - start)
            })
        })
    }

    /// Takes the lowest block of `order` out of the pageblock's lowest free block of `from_order`. Returns
    /// its index among the blocks of `order`.
    pub(super) fn allocate(&mut self, from_order: u32, order: u32) -> usize {
        let mut index = self.find(from_order).expect("a free block of that order");
        self.clear(from_order, index);
        for order in (order..from_order).rev() {
            index *= 2;
            self.set(order, index + 1);
        }
        index
    }

    /// The order of the free block that covers frame `index`, if it is free.
    pub(super) fn free_order(&self, index: usize) -> Option<u32> {
        (0..=PAGEBLOCK_ORDER).find(|&order| self.get(order, index >> order))
    }

    /// Allocates the frame with this index in the pageblock, which must be free. Returns the order of the
    /// free block that contained the frame.
    pub(super) fn take(&mut self, index: usize) -> u32 {
        let found = self.free_order(index).expect("a free frame");
        self.clear(found, index >> found);
        for order in (0..found).rev() {
            self.set(order, (index >> order) ^ 1);
        }
        found
    }

    /// Frees block `index` of `order` in the pageblock and merges it with free buddies. Returns the order of
    /// the merged block.
    pub(super) fn free(&mut self, order: u32, index: usize) -> u32 {
        assert_eq!(self.free_order(index << order), None, "freed twice");
        let (mut order, mut index) = (order, index);
        while order < PAGEBLOCK_ORDER && self.get(order, index ^ 1) {
            self.clear(order, index ^ 1);
            index >>= 1;
            order += 1;
        }
        self.set(order, index);
        order
    }

    fn find(&self, order: u32) -> Option<usize> {
        let (first, blocks) = (first_bit(order), PAGEBLOCK_FRAMES as usize >> order);
        // Small orders fill whole words; all other orders share the last word.
        if blocks < 64 {
            let word = self.bits[15] >> (first % 64) & ((1 << blocks) - 1);
            return (word != 0).then(|| word.trailing_zeros() as usize);
        }
        let words = &self.bits[first / 64..][..blocks / 64];
        let place = words.iter().position(|&word| word != 0)?;
        Some(64 * place + words[place].trailing_zeros() as usize)
    }

    fn get(&self, order: u32, index: usize) -> bool {
        let bit = first_bit(order) + index;
        self.bits[bit / 64] >> (bit % 64) & 1 != 0
    }

    fn set(&mut self, order: u32, index: usize) {
        let bit = first_bit(order) + index;
        self.bits[bit / 64] |= 1 << (bit % 64);
        self.counts[order as usize] += 1;
        self.blocks += 1;
    }

    fn clear(&mut self, order: u32, index: usize) {
        let bit = first_bit(order) + index;
        self.bits[bit / 64] &= !(1 << (bit % 64));
        self.counts[order as usize] -= 1;
        self.blocks -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_set_has_the_blocks_of_all_orders() {
        let mut block = Pageblock::whole();
        assert_eq!(block.free_set(), HoleSet::FULL);
        assert_eq!(Pageblock::FULL.free_set(), HoleSet::EMPTY);
        // The remaining free blocks have every order below the whole.
        let mut taken = HoleSet::EMPTY;
        for index in [0, 130, 131, 389, 511, 64, 257] {
            block.take(index);
            taken.insert(index);
            assert!((0..HoleSet::SUBPAGES).all(|index| {
                let is_free = block.free_set().contains(index);
                is_free != taken.contains(index) && is_free == block.free_order(index).is_some()
            }));
        }
        assert!(block.counts()[..7].iter().all(|&count| count > 0), "{:?}", block.counts());
    }
}
