//! The page walker, its simulated memory, and its walk caches.

mod caches;
mod table_memory;
mod walker;

pub(crate) use caches::{Cached, WalkStart};
pub use caches::{Directory, WalkCaches};
pub use table_memory::TableMemory;
pub(crate) use walker::purpose_of;
pub use walker::{Node, Walker};
