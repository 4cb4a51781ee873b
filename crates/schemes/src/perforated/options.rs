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
    /// A 2MB block becomes a perforated page if less than this share of its frames is in other use;
    /// with 100% every block does. If not given, 25% on aged memory.
    ///
    /// P §III.C has 25%, P §VII.B every block.
    pub max_hole_share: Share,
    /// Largest number of filter bits set, one for each 256KB with a hole, for a block to become a
    /// perforated page. If not given, 4 on aged memory.
    ///
    /// P §III.C has 4.
    pub max_filter_bits: Count<0, 8>,
    /// Time at which frames for the holes are allocated: with the page (eager), or at the first
    /// touch of each hole (lazy).
    pub holes: HoleAllocation,
    /// whole maps a 2MB block at once; reserve maps each 4KB of it when it is touched (P §VI).
    pub create: BlockCreation,
    /// Split perforated pages with more holes than this share into 4KB pages; 100% splits none.
    ///
    /// P names no threshold.
    pub demote_above: Share,
    /// Promotions that khugepaged may make: what costs least, whole 2MB pages only (collapse),
    /// pages with holes only (punch), or none.
    pub promote: PromotionRule,
    /// Cost of a hole when promotions are compared, in copied 4KB frames.
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
