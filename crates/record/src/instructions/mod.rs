//! Decoding of the code and memory accesses that the emulator reports.

pub mod accesses;
pub mod blocks;
pub mod decode;
pub mod execution;
mod registers;
