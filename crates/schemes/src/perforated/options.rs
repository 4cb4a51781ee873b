//! Options of the policy "perforated".

use perforate_config::{ConfigError, Count, Share};
use perforate_os::{HoleAllocation, PromotionRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selection of the blocks that become perforated pages, and treatment of these pages (P §III.C,
/// §VI).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PerforationOptions {
    /// Perforate blocks of which others hold less than this; at 100% every block. If not given, 25% on
    /// aged memory.
    ///
    /// P §III.C has 25%, P §VII.B every block.
    pub max_hole_share: Share,
    /// Perforate blocks with at most so many filter bits set. If not given, 4 on aged memory.
    ///
    /// P §III.C has 4.
    pub max_filter_bits: Count<0, 8>,
    /// When the frames of holes are allocated.
    pub holes: HoleAllocation,
    /// Map a block at once, or what of it is touched (P §VI).
    pub create: BlockCreation,
    /// Make 4KB pages of those with more holes than this; at 100% of none.
    ///
    /// P names no threshold.
    pub demote_above: Share,
    /// Rule by which khugepaged makes 2MB pages.
    pub promote: PromotionRule,
    /// Price of a hole against copying or patching, in frames.
    ///
    /// A hole needs TLB entries of its own for as long as the page lives; 2 is our choice.
    pub hole_cost: f64,
}

/// Way in which a block becomes a perforated page: at once, or as its sub-pages are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockCreation {
    /// It is mapped at once.
    Whole,
    /// It is reserved, and its sub-pages are mapped as they are touched.
    Reserve,
}

impl PerforationOptions {
    /// Options of the policy in the paper's evaluation (P §VII.B).
    pub const DEFAULT: Self = Self {
        max_hole_share: Share::WHOLE,
        max_filter_bits: Count::new(8),
        holes: HoleAllocation::Eager,
        create: BlockCreation::Whole,
        demote_above: Share::WHOLE,
        promote: PromotionRule::Cheapest,
        hole_cost: 2.0,
    };

    /// Options of the policy of P §III.C, which uses only blocks with less than a quarter of their
    /// frames in other use, in at most 4 of 8 regions.
    pub const SELECTIVE: Self = Self::DEFAULT.selective();

    /// Returns these options with the block selection of P §III.C.
    pub(super) const fn selective(self) -> Self {
        Self { max_hole_share: Share::percent(25), max_filter_bits: Count::new(4), ..self }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let Self { max_hole_share, demote_above, hole_cost, .. } = self;
        if demote_above < max_hole_share {
            return Err(ConfigError::new(format!(
                "demote-above={demote_above} is less than max-hole-share={max_hole_share}: pages \
                 could be made that are to be demoted"
            )));
        }
        if *hole_cost < 0.0 || !hole_cost.is_finite() {
            let problem = format!("is a number of frame copies from 0 on, not {hole_cost}");
            return Err(ConfigError::new(problem).under("hole-cost"));
        }
        Ok(())
    }
}

impl Default for PerforationOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}
