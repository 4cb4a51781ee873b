//! Index of free memory that a mechanism maintains in addition to the buddy allocator.

use std::any::Any;
use std::ops::Range;

use perforate_types::Frame;

/// Index of free memory in aligned blocks of 2ⁿ frames, at most 64 frames each. The allocator
/// notifies it of every change.
pub trait FreeIndex: Any + Send {
    /// log2 of the number of frames of a block.
    fn block_order(&self) -> u32;

    /// Notifies the index that at least one of these frames was allocated.
    fn taken(&mut self, frames: Range<u64>);

    /// Notifies the index that all frames of these blocks are free.
    fn freed(&mut self, blocks: Range<u64>);

    /// Checks the index. `is_free` takes the first frame of a block, and returns true if the whole
    /// block is free.
    ///
    /// # Errors
    /// A description of the first disagreement.
    fn check(&self, is_free: &dyn Fn(Frame) -> bool) -> Result<(), String>;
}
