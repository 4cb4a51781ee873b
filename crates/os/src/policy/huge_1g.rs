//! The policy "huge-1g": 1GB pages if possible.

use std::any::Any;

use perforate_types::HoleSet;

use super::{BlockUse, Policy};

/// Rule of a policy that tries 1GB pages before 2MB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePageRule;

/// 1GB pages if contiguous memory is available, else like [`super::Thp`].
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
