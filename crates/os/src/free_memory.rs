//! Fragmentation of free memory: two indices that Linux reports for each order.

use crate::{Buddy, Zones};

const ORDERS: usize = Buddy::MAX_ORDER as usize + 1;

/// Number of free blocks of each order at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeMemory {
    /// Free blocks of exactly 2^order frames, by order (Linux: `/proc/buddyinfo`).
    pub blocks: [u64; ORDERS],
}

impl FreeMemory {
    /// Order of a 2MB block.
    pub const LARGE_ORDER: u32 = 9;

    /// Counts the free blocks of all zones.
    pub fn of(zones: &Zones) -> Self {
        Self { blocks: std::array::from_fn(|order| zones.free_blocks(order as u32)) }
    }

    /// Number of free frames: Σ blocks × 2^order.
    pub fn frames(&self) -> u64 {
        (0..).zip(self.blocks).map(|(order, blocks): (u32, u64)| blocks << order).sum()
    }

    /// Share of free memory that an allocation of 2^`order` frames cannot use, in thousandths
    /// (Linux: `extfrag/unusable_index`, `unusable_free_index` in mm/vmstat.c):
    ///
    /// (free frames − suitable blocks × 2^order) × 1000 ÷ free frames, rounded down,
    ///
    /// where a free block of order *o* ≥ `order` counts as 2^(*o* − `order`) suitable ones.
    /// 0: all free memory is usable. 1000: none is usable, or no memory is free.
    pub fn unusable_thousandths(&self, order: u32) -> u32 {
        let free = self.frames();
        if free == 0 {
            return 1000;
        }
        let unusable = free - (self.suitable(order) << order);
        (u128::from(unusable) * 1000 / u128::from(free)) as u32
    }

    /// Cause of the failure of an allocation of 2^`order` frames, in thousandths (Linux:
    /// `extfrag/extfrag_index`, `__fragmentation_index` in mm/vmstat.c):
    ///
    /// 1000 − (1000 + free frames × 1000 ÷ 2^order) ÷ free blocks of all orders,
    ///
    /// each division rounded down. Values near 0: too little memory is free. Values near 1000: free
    /// memory is in pieces that are too small. The value is 0 without any free memory, and slightly
    /// negative if a single block is free. `None` if the allocation would succeed (Linux shows
    /// −1.000).
    pub fn fragmentation_thousandths(&self, order: u32) -> Option<i64> {
        let blocks: u64 = self.blocks.iter().sum();
        if blocks == 0 {
            return Some(0);
        }
        if self.suitable(order) > 0 {
            return None;
        }
        let wanted = (u128::from(self.frames()) * 1000) >> order;
        // No block is suitable, so each has fewer than 2^order frames.
        Some(1000 - ((1000 + wanted) / u128::from(blocks)) as i64)
    }

    /// Number of blocks of exactly 2^`order` frames into which free memory could be split.
    fn suitable(&self, order: u32) -> u64 {
        (0..)
            .zip(self.blocks)
            .skip(order as usize)
            .map(|(from, blocks)| blocks << (from - order))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::Frame;

    use super::*;
    use crate::ZoneLayout;

    fn free(blocks: &[(usize, u64)]) -> FreeMemory {
        let mut all = [0; ORDERS];
        blocks.iter().for_each(|&(order, count)| all[order] = count);
        FreeMemory { blocks: all }
    }

    #[test]
    fn unusable_is_what_lies_in_smaller_blocks() {
        // 512 single frames, one 2MB block, one 4MB block: 2048 frames, of which 512 are unusable.
        let memory = free(&[(0, 512), (9, 1), (10, 1)]);
        assert_eq!(memory.frames(), 2048);
        assert_eq!(memory.unusable_thousandths(9), 250);
        assert_eq!(memory.unusable_thousandths(10), 500, "the 2MB block will not do for 4MB");
        assert_eq!(memory.unusable_thousandths(0), 0);
        // A third, rounded down: 2 of 3 frames lie in the block of order 1.
        assert_eq!(free(&[(0, 1), (1, 1)]).unusable_thousandths(1), 333);
        assert_eq!(free(&[]).unusable_thousandths(9), 1000);
    }

    #[test]
    fn the_fragmentation_index_tells_small_pieces_from_little_memory() {
        // 1024 single frames are twice the frames of a 2MB page:
        // 1000 − (1000 + 1024 × 1000 ÷ 512) ÷ 1024 = 1000 − 3000 ÷ 1024 = 1000 − 2.
        assert_eq!(free(&[(0, 1024)]).fragmentation_thousandths(9), Some(998));
        // Three blocks of 256 frames: 1000 − (1000 + 1500) ÷ 3 = 1000 − 833.
        assert_eq!(free(&[(8, 3)]).fragmentation_thousandths(9), Some(167));
        // Two single frames: 1000 − (1000 + 3) ÷ 2 = 1000 − 501: little memory is free.
        assert_eq!(free(&[(0, 2)]).fragmentation_thousandths(9), Some(499));
        // One single frame: 1000 − (1000 + 1) = −1, as in Linux.
        assert_eq!(free(&[(0, 1)]).fragmentation_thousandths(9), Some(-1));
        assert_eq!(free(&[]).fragmentation_thousandths(9), Some(0));
        assert_eq!(free(&[(0, 1024), (10, 1)]).fragmentation_thousandths(9), None);
    }

    #[test]
    fn an_allocator_is_counted_by_order() {
        let mut zones = Zones::new(2048, ZoneLayout::Single);
        assert!(zones.take(Frame::new(512)));
        // Without frame 512, its 4MB block has 1 + 2 + 4 + … + 256 free frames above it and 512
        // below.
        let memory = FreeMemory::of(&zones);
        assert_eq!(memory.blocks, [1; ORDERS]);
        assert_eq!(memory.frames(), 2047);
        // 511 of 2047 free frames lie in blocks below 2MB: 0.2496.
        assert_eq!(memory.unusable_thousandths(9), 249);
    }
}
