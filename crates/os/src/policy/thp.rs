//! The policy "thp", which is also "ideal".

use perforate_types::HoleSet;

use super::{BlockUse, Policy};

/// Transparent large pages, always: 2MB where a whole block can be had, else 4KB.
pub struct Thp {
    /// The name it is registered under.
    pub name: &'static str,
}

impl Policy for Thp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        if holes.is_empty() { BlockUse::Large } else { BlockUse::Pages }
    }
}
