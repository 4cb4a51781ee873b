//! How many more 2MB regions could be mapped large, if the kernel knew perforated pages.

use perforate_capture::native::MemoryFrames;
use perforate_os::{BlockUse, Policy};
use serde_json::{Value, json};

/// The blocks of a memory by what could be made of them. Blocks that are one page already are
/// counted as that and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Blocks of the memory.
    pub blocks: u64,
    /// Blocks that are one 2MB page, whoever has it.
    pub large: u64,
    /// Blocks of nothing but free frames.
    pub free: u64,
    /// Blocks, among the rest, that become whole once what is movable in them is moved.
    pub whole_if_moved: u64,
    /// Blocks that the policy perforates once what is movable in them is moved: what stays is
    /// holes.
    pub perforated_if_moved: u64,
    /// Blocks that the policy perforates as they are: all that is neither free nor ours is holes.
    pub perforated_at_once: u64,
    /// Blocks in which our 4KB pages lie.
    pub with_ours: u64,
    /// 2MB regions of the request that are in 4KB pages.
    pub regions: u64,
}

impl Outlook {
    /// Judges every block under the policy; `regions` of the request are in 4KB pages.
    pub fn of(memory: &MemoryFrames, policy: &dyn Policy, regions: u64) -> Self {
        let mut sums = Self { regions, blocks: memory.blocks.len() as u64, ..Self::default() };
        for block in &memory.blocks {
            if block.is_large {
                sums.large += 1;
                continue;
            }
            sums.with_ours += u64::from(!block.ours.is_empty());
            let is_perforated = |block_use| matches!(block_use, BlockUse::Perforated(_));
            let others = block.others();
            if others.is_empty() && block.ours.is_empty() {
                sums.free += 1;
            } else if block.fixed.is_empty() {
                sums.whole_if_moved += 1;
            } else if is_perforated(policy.use_block(&block.fixed)) {
                sums.perforated_if_moved += 1;
            }
            sums.perforated_at_once += u64::from(is_perforated(policy.use_block(&others)));
        }
        sums
    }

    /// Blocks in which too much stays.
    pub fn neither(&self) -> u64 {
        self.blocks - self.large - self.free - self.whole_if_moved - self.perforated_if_moved
    }

    /// Regions of the request that could be perforated with nothing moved but our own pages. A
    /// region's frames make room for what its new block holds, so blocks are what is short.
    pub fn regions_at_once(&self) -> u64 {
        self.regions.min(self.perforated_at_once)
    }

    /// Regions that could be perforated where movable frames are moved too.
    pub fn regions_if_moved(&self) -> u64 {
        self.regions.min(self.perforated_if_moved)
    }

    /// Regions that compaction could give whole blocks.
    pub fn regions_whole(&self) -> u64 {
        self.regions.min(self.free + self.whole_if_moved)
    }

    pub fn json(&self) -> Value {
        json!({
            "blocks": self.blocks,
            "blocks_large": self.large,
            "blocks_free": self.free,
            "blocks_whole_if_moved": self.whole_if_moved,
            "blocks_perforated_if_moved": self.perforated_if_moved,
            "blocks_too_fragmented": self.neither(),
            "blocks_perforated_at_once": self.perforated_at_once,
            "blocks_with_ours": self.with_ours,
            "regions_in_small_pages": self.regions,
            "regions_whole_if_moved": self.regions_whole(),
            "regions_perforated_if_moved": self.regions_if_moved(),
            "regions_perforated_at_once": self.regions_at_once(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use perforate_capture::native::BlockFrames;
    use perforate_os::parse_policy;
    use perforate_types::HoleSet;

    use super::*;

    fn set(frames: Range<usize>) -> HoleSet {
        frames.collect()
    }

    fn block(free: Range<usize>, ours: Range<usize>, fixed: Range<usize>) -> BlockFrames {
        BlockFrames { free: set(free), ours: set(ours), fixed: set(fixed), is_large: false }
    }

    /// The policy of P §III.C on one block of each kind.
    #[test]
    fn blocks_of_every_kind() {
        let blocks = vec![
            BlockFrames { is_large: true, ..BlockFrames::default() },
            block(0..512, 0..0, 0..0),
            // Free, ours, and 112 frames of others that can be moved: 22 % in two regions.
            block(0..200, 200..400, 0..0),
            // 10 frames stay and 500 can be moved.
            block(0..2, 0..0, 502..512),
            // 128 frames stay: 25 % is not less than 25 %.
            block(128..512, 0..0, 0..128),
            // 5 frames in 5 regions: one region too many.
            BlockFrames {
                fixed: [0, 64, 128, 192, 256].into_iter().collect(),
                ..BlockFrames::default()
            },
        ];
        let memory = MemoryFrames { blocks, free_frames: 0 };
        let policy = parse_policy(super::super::SELECTIVE).unwrap();
        let outlook = Outlook::of(&memory, policy.as_ref(), 3);
        let expected = Outlook {
            blocks: 6,
            large: 1,
            free: 1,
            whole_if_moved: 1,
            perforated_if_moved: 1,
            perforated_at_once: 1,
            with_ours: 1,
            regions: 3,
        };
        assert_eq!(outlook, expected);
        assert_eq!(outlook.neither(), 2);
        assert_eq!(outlook.regions_at_once(), 1);
        assert_eq!(outlook.regions_if_moved(), 1);
        assert_eq!(outlook.regions_whole(), 2);
        assert_eq!(Outlook { regions: 0, ..outlook }.regions_whole(), 0);
    }
}
