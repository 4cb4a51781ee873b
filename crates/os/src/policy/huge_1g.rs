//! The policy "huge-1g".

use std::any::Any;

use perforate_types::HoleSet;

use super::{BlockUse, Policy};

/// 1GB pages are tried before 2MB ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePageRule;

/// 1GB where contiguous memory can be had, else as [`super::Thp`].
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
