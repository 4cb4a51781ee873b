//! Gap-tolerant superpages wherever a slice can be had (G §3.8), 4KB pages elsewhere.

use std::any::Any;
use std::ops::Range;

use perforate_config::ConfigError;
use perforate_types::{ControlError, GapTolerance, HoleSet};

use super::{BlockUse, Policy, SuperpageOptions, described};
use crate::OsError;

/// What is asked of the slices that superpages are made of ([`SuperpageOptions`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperpageRule {
    /// Usable B-blocks that a slice must have.
    pub least_blocks: u32,
    /// Frames that the slices must lie in; the whole memory where it is not said.
    pub within: Option<Range<u64>>,
    /// Field BS of GTPTCR, where another mode is wanted than the page tables have.
    pub block_order: Option<u64>,
    /// Field P, likewise.
    pub paired: Option<bool>,
}

impl SuperpageRule {
    /// The mode that is wanted where `mode` is that of the scheme.
    ///
    /// # Errors
    /// Fields that G Table 3 does not have together.
    pub fn mode(&self, mode: GapTolerance) -> Result<GapTolerance, ControlError> {
        let order = self.block_order.unwrap_or(mode.block_order().into());
        GapTolerance::new(order, self.paired.unwrap_or(mode.is_paired()))
    }
}

impl SuperpageRule {
    /// Checks that there are slices where they are wanted in a memory of `end` frames.
    ///
    /// # Errors
    /// [`OsError::SliceOutsideMemory`].
    pub fn check(&self, mode: GapTolerance, end: u64) -> Result<(), OsError> {
        let Some(frames) = &self.within else { return Ok(()) };
        let to = if frames.end == u64::MAX { end } else { frames.end };
        let size = mode.slice_frames();
        let has_slice = frames.start.div_ceil(size) < to.min(end) / size;
        if to <= end && has_slice {
            return Ok(());
        }
        Err(OsError::SliceOutsideMemory {
            start_bytes: frames.start << 12,
            end_bytes: to.max(frames.start) << 12,
            memory_bytes: end << 12,
            slice_bytes: size << 12,
        })
    }
}

impl Default for SuperpageRule {
    fn default() -> Self {
        SuperpageOptions::DEFAULT.rule().expect("the default is sound")
    }
}

/// Gap-tolerant superpages, 4KB pages where there is no slice for one. Which mode they have is a
/// matter of the page tables ([`crate::TableFormat::gap_tolerance`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapTolerant {
    options: SuperpageOptions,
    rule: SuperpageRule,
}

impl GapTolerant {
    /// The policy with these options.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn new(options: SuperpageOptions) -> Result<Self, ConfigError> {
        Ok(Self { options, rule: options.rule()? })
    }
}

impl Policy for GapTolerant {
    fn name(&self) -> &'static str {
        "gap-tolerant"
    }

    fn describe(&self) -> String {
        described(self.name(), &self.options)
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![&self.rule]
    }

    fn use_block(&self, _: &HoleSet) -> BlockUse {
        BlockUse::Pages
    }
}
