//! The policy "huge-1g".

use perforate_types::HoleSet;

use super::{BlockUse, Policy};

/// 1GB where contiguous memory can be had, else as [`super::Thp`].
pub struct Huge1G;

impl Policy for Huge1G {
    fn name(&self) -> &'static str {
        "huge-1g"
    }

    fn wants_huge(&self) -> bool {
        true
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        if holes.is_empty() { BlockUse::Large } else { BlockUse::Pages }
    }
}
