//! Policies of conventional operating systems: "base-pages", "thp" and "thp-madvise", "huge-1g".
//! The policy "ideal" is "thp" on unfragmented memory.

use std::any::Any;

use perforate_types::HoleSet;

use super::{BlockUse, Policy};

/// Policy `base-pages`: maps 4KB pages only.
pub struct BasePages;

impl Policy for BasePages {
    fn name(&self) -> &'static str {
        "base-pages"
    }
}

/// Policy of transparent huge pages: maps a 2MB page if a whole block is available, otherwise 4KB pages.
pub struct Thp {
    /// Name of the policy in configuration and results.
    pub name: &'static str,
    /// True if only memory areas with MADV_HUGEPAGE get 2MB pages (Linux: `enabled` is `madvise`, not
    /// `always`).
    pub needs_advice: bool,
}

impl Thp {
    /// Creates a policy that gives 2MB pages to all eligible memory areas.
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

/// Rule in [`Policy::rules`] that makes the kernel map 1GB pages where possible, before it tries 2MB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePageRule;

/// Policy `huge-1g`: maps a 1GB page if contiguous memory is available, otherwise pages like [`Thp`].
pub struct Huge1G;

impl Policy for Huge1G {
    fn name(&self) -> &'static str {
        "huge-1g"
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![&HugePageRule]
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        if holes.is_empty() { BlockUse::Large } else { BlockUse::Pages }
    }
}
