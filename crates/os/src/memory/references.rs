//! Reference counts of frames. A frame in use has one mapping unless this table records more, so
//! only shared memory takes space here: 2KB per 2MB block with shared frames.

use std::collections::HashMap;

use perforate_types::{Frame, PageSize};

struct Block {
    /// Number of mappings beyond the first, for each frame of a 2MB block.
    extra: [u32; 512],
    total: u64,
}

/// Reference counts of frames that several pages map.
#[derive(Default)]
pub(super) struct References {
    blocks: HashMap<u64, Box<Block>>,
}

impl References {
    /// Counts a further mapping of a frame in use.
    pub(super) fn add(&mut self, frame: Frame) {
        let block = self
            .blocks
            .entry(frame.align_down(PageSize::Size2M).number())
            .or_insert_with(|| Box::new(Block { extra: [0; 512], total: 0 }));
        block.extra[frame.index_in(PageSize::Size2M)] += 1;
        block.total += 1;
    }

    /// Counts the removal of a mapping of a frame; returns true if it was the last mapping.
    pub(super) fn remove(&mut self, frame: Frame) -> bool {
        let number = frame.align_down(PageSize::Size2M).number();
        let Some(block) = self.blocks.get_mut(&number) else { return true };
        let extra = &mut block.extra[frame.index_in(PageSize::Size2M)];
        if *extra == 0 {
            return true;
        }
        *extra -= 1;
        block.total -= 1;
        if block.total == 0 {
            self.blocks.remove(&number);
        }
        false
    }

    /// Number of mappings beyond the first, added up over all frames.
    pub(super) fn total(&self) -> u64 {
        self.blocks.values().map(|block| block.total).sum()
    }

    /// True if the frame has several mappings.
    pub(super) fn is_shared(&self, frame: Frame) -> bool {
        let number = frame.align_down(PageSize::Size2M).number();
        self.blocks
            .get(&number)
            .is_some_and(|block| block.extra[frame.index_in(PageSize::Size2M)] > 0)
    }

    /// True if any frame of the block has several mappings.
    pub(super) fn has_shared(&self, block: Frame) -> bool {
        self.blocks.contains_key(&block.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_shared_until_its_last_but_one_mapping_goes() {
        let mut references = References::default();
        let (first, second, other) = (Frame::new(512), Frame::new(1023), Frame::new(1024));
        assert!(references.remove(first), "one mapping needs no record");
        references.add(first);
        references.add(first);
        references.add(second);
        assert_eq!(references.total(), 3);
        assert_eq!([first, second, other].map(|it| references.is_shared(it)), [true, true, false]);
        assert_eq!([first, other].map(|it| references.has_shared(it)), [true, false]);
        assert!(!references.remove(first) && references.is_shared(first));
        assert!(!references.remove(first) && !references.is_shared(first));
        assert!(references.remove(first), "it is the last");
        assert!(references.has_shared(Frame::new(512)), "the other frame of its block is shared");
        assert!(!references.remove(second));
        assert!(!references.has_shared(Frame::new(512)));
        assert_eq!(references.total(), 0);
    }
}
