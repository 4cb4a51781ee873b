//! What a mechanism keeps about free memory, beside the buddy allocator.

use std::any::Any;
use std::ops::Range;

use perforate_types::Frame;

/// An index of free memory in aligned blocks of a power of two of frames, at most 64. Whatever the
/// allocator does to frames is told to it.
pub trait FreeIndex: Any + Send {
    /// log2 of the frames of a block.
    fn block_order(&self) -> u32;

    /// Not all of these frames are free any more.
    fn taken(&mut self, frames: Range<u64>);

    /// All frames of these blocks are free.
    fn freed(&mut self, blocks: Range<u64>);

    /// Checks what it keeps, where `is_free` tells whether all of a block is free, by its first
    /// frame.
    ///
    /// # Errors
    /// A description of what is wrong.
    fn check(&self, is_free: &dyn Fn(Frame) -> bool) -> Result<(), String>;
}
