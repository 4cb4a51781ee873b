//! The policy "base-pages": 4KB pages only.

use perforate_types::HoleSet;

use super::{BlockUse, Policy};

/// Maps 4KB pages only.
pub struct BasePages;

impl Policy for BasePages {
    fn name(&self) -> &'static str {
        "base-pages"
    }

    fn use_block(&self, _: &HoleSet) -> BlockUse {
        BlockUse::Pages
    }
}
