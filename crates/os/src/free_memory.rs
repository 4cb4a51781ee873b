//! How fragmented free memory is: the two indices that Linux shows per order.

use crate::Buddy;

const ORDERS: usize = Buddy::MAX_ORDER as usize + 1;

/// Free blocks of each order at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeMemory {
    /// Free blocks of exactly 2^order frames, by order (Linux: `/proc/buddyinfo`).
    pub blocks: [u64; ORDERS],
}

impl FreeMemory {
    /// Order of a 2MB block.
    pub const LARGE_ORDER: u32 = 9;

    /// The free blocks of an allocator.
    pub fn of(buddy: &Buddy) -> Self {
        Self { blocks: std::array::from_fn(|order| buddy.free_blocks(order as u32)) }
    }

    /// Free frames: Σ blocks × 2^order.
    pub fn frames(&self) -> u64 {
        (0..).zip(self.blocks).map(|(order, blocks): (u32, u64)| blocks << order).sum()
    }

    /// Share of free memory that an allocation of 2^`order` frames cannot use, in thousandths
    /// (Linux: `extfrag/unusable_index`, `unusable_free_index` in mm/vmstat.c):
    ///
    /// (free frames − suitable blocks × 2^order) × 1000 ÷ free frames, rounded down,
    ///
    /// where a free block of order *o* ≥ `order` counts as 2^(*o* − `order`) suitable ones.
    /// 0: all free memory will do; 1000: none of it, or there is none.
    pub fn unusable_thousandths(&self, order: u32) -> u32 {
        let free = self.frames();
        if free == 0 {
            return 1000;
        }
        let unusable = free - (self.suitable(order) << order);
        (u128::from(unusable) * 1000 / u128::from(free)) as u32
    }

    /// Why an allocation of 2^`order` frames would fail, in thousandths (Linux:
    /// `extfrag/extfrag_index`, `__fragmentation_index` in mm/vmstat.c):
    ///
    /// 1000 − (1000 + free frames × 1000 ÷ 2^order) ÷ free blocks of all orders,
    ///
    /// each division rounded down. Towards 0: for lack of memory; towards 1000: because what is
    /// free lies in small pieces. 0 without any free memory; a little under 0 where there is one
    /// free block. `None` where the allocation would not fail, for which Linux shows −1.000.
    pub fn fragmentation_thousandths(&self, order: u32) -> Option<i64> {
        let blocks: u64 = self.blocks.iter().sum();
        if blocks == 0 {
            return Some(0);
        }
        if self.suitable(order) > 0 {
            return None;
        }
        let wanted = (u128::from(self.frames()) * 1000) >> order;
        // No block is suitable, so there are less than 2^order frames for each.
        Some(1000 - ((1000 + wanted) / u128::from(blocks)) as i64)
    }

    /// Blocks of exactly 2^`order` frames that free memory could be cut into.
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

    fn free(blocks: &[(usize, u64)]) -> FreeMemory {
        let mut all = [0; ORDERS];
        blocks.iter().for_each(|&(order, count)| all[order] = count);
        FreeMemory { blocks: all }
    }

    #[test]
    fn unusable_is_what_lies_in_smaller_blocks() {
        // 512 single frames, one 2MB block, one 4MB block: 2048 frames, 512 of them unusable.
        let memory = free(&[(0, 512), (9, 1), (10, 1)]);
        assert_eq!(memory.frames(), 2048);
        assert_eq!(memory.unusable_thousandths(9), 250);
        assert_eq!(memory.unusable_thousandths(10), 500, "the 2MB block will not do for 4MB");
        assert_eq!(memory.unusable_thousandths(0), 0);
        // A third, rounded down: 2 of 3 frames lie in the pair.
        assert_eq!(free(&[(0, 1), (1, 1)]).unusable_thousandths(1), 333);
        assert_eq!(free(&[]).unusable_thousandths(9), 1000);
    }

    #[test]
    fn the_fragmentation_index_tells_small_pieces_from_little_memory() {
        // 1024 single frames are twice what 2MB need:
        // 1000 − (1000 + 1024 × 1000 ÷ 512) ÷ 1024 = 1000 − 3000 ÷ 1024 = 1000 − 2.
        assert_eq!(free(&[(0, 1024)]).fragmentation_thousandths(9), Some(998));
        // Three blocks of 256 frames: 1000 − (1000 + 1500) ÷ 3 = 1000 − 833.
        assert_eq!(free(&[(8, 3)]).fragmentation_thousandths(9), Some(167));
        // Two single frames: 1000 − (1000 + 3) ÷ 2 = 1000 − 501: there is little memory at all.
        assert_eq!(free(&[(0, 2)]).fragmentation_thousandths(9), Some(499));
        // One: 1000 − (1000 + 1) = −1, as in Linux.
        assert_eq!(free(&[(0, 1)]).fragmentation_thousandths(9), Some(-1));
        assert_eq!(free(&[]).fragmentation_thousandths(9), Some(0));
        assert_eq!(free(&[(0, 1024), (10, 1)]).fragmentation_thousandths(9), None);
    }

    #[test]
    fn an_allocator_is_counted_by_order() {
        let mut buddy = Buddy::new(2048);
        assert!(buddy.take(Frame::new(512)));
        // Without frame 512 its chunk has 1 + 2 + 4 + … + 256 frames above it and 512 below.
        let memory = FreeMemory::of(&buddy);
        assert_eq!(memory.blocks, [1; ORDERS]);
        assert_eq!(memory.frames(), 2047);
        // 511 of 2047 frames lie in blocks below 2MB: 0.2496.
        assert_eq!(memory.unusable_thousandths(9), 249);
    }
}
