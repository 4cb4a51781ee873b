//! The policies "thp" and "thp-madvise"; "ideal" is "thp" on unfragmented memory.

use perforate_types::HoleSet;

use super::{BlockUse, Policy};

/// Transparent large pages: 2MB where a whole block can be had, else 4KB.
pub struct Thp {
    /// Its name.
    pub name: &'static str,
    /// Whether the program has to ask for them (Linux: `enabled` is `madvise`, not `always`).
    pub needs_advice: bool,
}

impl Thp {
    /// Large pages always.
    pub const fn new(name: &'static str) -> Self {
        Self { name, needs_advice: false }
    }
}

impl Policy for Thp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs_advice(&self) -> bool {
        self.needs_advice
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        if holes.is_empty() { BlockUse::Large } else { BlockUse::Pages }
    }
}
