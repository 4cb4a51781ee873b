//! The page walker and what it reads: simulated memory, and caches of the entries that led there.

mod caches;
mod table_memory;
mod walker;

pub use caches::WalkCaches;
pub(crate) use caches::{Cached, Directory, WalkStart};
pub use table_memory::TableMemory;
pub use walker::{Node, Walker};
