//! The policy "segment".

use std::any::Any;

use perforate_config::ConfigError;
use perforate_types::HoleSet;

use super::{BlockUse, Policy, SegmentOptions, SmallPages, described};

/// What is asked of a direct segment ([`SegmentOptions`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRule {
    /// Least size of an area that gets one, in bytes.
    pub min_bytes: u64,
    /// Whether the first touch of an area may move things to get contiguous memory. Making one
    /// later, in the background, always may.
    pub compacts: bool,
    /// Most pages that escape: faulty frames in the run, and pages with permissions of their own.
    pub faulty_pages: u64,
    /// BASE and LIMIT in bytes, where they are prescribed: only this part of an area becomes a
    /// segment, whatever its size. None where they are equal.
    pub bounds: Option<(u64, u64)>,
}

impl Default for SegmentRule {
    fn default() -> Self {
        SegmentOptions::DEFAULT.rule().expect("the default is sound")
    }
}

/// A direct segment for the first large area; pages of one size elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPolicy {
    options: SegmentOptions,
    rule: SegmentRule,
}

impl SegmentPolicy {
    /// The policy with these options.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn new(options: SegmentOptions) -> Result<Self, ConfigError> {
        Ok(Self { options, rule: options.rule()? })
    }
}

impl Policy for SegmentPolicy {
    fn name(&self) -> &'static str {
        "segment"
    }

    fn describe(&self) -> String {
        described(self.name(), &self.options)
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![&self.rule]
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        match self.options.pages {
            SmallPages::Size2M if holes.is_empty() => BlockUse::Large,
            _ => BlockUse::Pages,
        }
    }
}
