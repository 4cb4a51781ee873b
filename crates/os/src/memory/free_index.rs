//! Index of free memory that a mechanism maintains in addition to the buddy allocator.

use std::any::Any;
use std::ops::Range;

use perforate_types::Frame;

/// Index of free memory in aligned blocks of 2ⁿ frames, at most 64 frames each, which a mechanism such as
/// gap-tolerant superpages keeps. The allocator notifies the index of every change.
pub trait FreeIndex: Any + Send {
    /// log2 of the number of frames in a block of the index.
    fn block_order(&self) -> u32;

    /// Notifies the index that at least one of these frames was allocated.
    fn taken(&mut self, frames: Range<u64>);

    /// Notifies the index that all frames of these blocks, numbered by frame ÷ 2^`block_order`, are free.
    fn freed(&mut self, blocks: Range<u64>);

    /// Checks the index against the allocator. `is_free` takes the first frame of a block, and returns true
    /// if the whole block is free.
    ///
    /// # Errors
    /// A description of the first disagreement.
    fn check(&self, is_free: &dyn Fn(Frame) -> bool) -> Result<(), String>;
}
