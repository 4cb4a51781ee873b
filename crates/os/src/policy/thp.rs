//! The policies "thp" and "thp-madvise"; "ideal" is "thp" on unfragmented memory.

use perforate_types::HoleSet;

use super::{BlockUse, Policy};

/// Transparent huge pages: 2MB if a whole block is available, else 4KB.
pub struct Thp {
    /// Name of the policy in configuration and results.
    pub name: &'static str,
    /// True if only areas with MADV_HUGEPAGE get 2MB pages (Linux: `enabled` is `madvise`, not
    /// `always`).
    pub needs_advice: bool,
}

impl Thp {
    /// Makes a policy that gives 2MB pages to all eligible areas.
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
