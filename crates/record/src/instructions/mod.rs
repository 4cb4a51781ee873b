//! Instructions and their memory accesses, from the code and the accesses that the emulator reports.

pub mod accesses;
pub mod blocks;
pub mod decode;
pub mod execution;
pub mod registers;
