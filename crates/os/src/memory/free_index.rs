//! Index of free memory that a mechanism maintains beside the buddy allocator.

use std::any::Any;
use std::ops::Range;

use perforate_types::Frame;

/// An index of free memory in aligned blocks of 2ⁿ frames, at most 64. The allocator notifies it of
/// every change.
pub trait FreeIndex: Any + Send {
    /// log2 of the number of frames of a block.
    fn block_order(&self) -> u32;

    /// Notes that these frames are no longer all free.
    fn taken(&mut self, frames: Range<u64>);

    /// Notes that all frames of these blocks are free.
    fn freed(&mut self, blocks: Range<u64>);

    /// Checks the index. `is_free` tells, for the first frame of a block, whether all of the block
    /// is free.
    ///
    /// # Errors
    /// Describes the first disagreement.
    fn check(&self, is_free: &dyn Fn(Frame) -> bool) -> Result<(), String>;
}
