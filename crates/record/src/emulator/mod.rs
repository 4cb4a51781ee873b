//! Management of the running emulator: it is started, its rings are drained into the spool, and the
//! plugin's questions are answered.

pub mod executable;
pub mod launch;
pub mod loaded;
pub mod program;
pub mod questions;
pub mod reception;
pub mod shared;
pub mod spool;
