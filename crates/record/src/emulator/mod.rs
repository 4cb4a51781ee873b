//! Management of the running emulator: start, transfer of the records from the shared ring buffers (one per
//! virtual CPU) to a queue, and replies to requests of the plugins.

pub mod executable;
pub mod launch;
pub mod loaded;
pub mod program;
pub mod questions;
pub mod reception;
pub mod shared;
pub mod spool;
