//! The page walker and what it reads: simulated memory, and caches of the entries that led there.

mod caches;
mod table_memory;
mod walker;

pub(crate) use caches::{Cached, WalkStart};
pub use caches::{Directory, WalkCaches};
pub use table_memory::TableMemory;
pub(crate) use walker::purpose_of;
pub use walker::{Node, Walker};
