//! The policy "perforated" (P §III.C, §VI; SPEC P-7).

use std::any::Any;

use perforate_types::HoleSet;

use super::option::{PolicyOption, option};
use super::promotion::parse_hole_cost;
use super::{
    BlockUse, HoleAllocation, Policy, Promotion, PromotionChoices, PromotionRule, split_options,
};
use crate::fragmentation::parse_share;

/// 2MB pages with holes where a block is fragmented; holes are punched instead of splitting.
pub struct Perforated {
    /// A block is perforated if less than this share of its frames are occupied by others; at 1
    /// every block is, as in P §VII.B. P §III.C uses 0.25.
    pub max_hole_share: f64,
    /// A block is perforated if at most this many of its eight filter bits are set. P §III.C
    /// uses 4.
    pub max_filter_bits: u32,
    /// When hole frames are allocated.
    pub holes: HoleAllocation,
    /// Whether a block is reserved and its sub-pages mapped as they are touched (P §VI).
    pub reserves: bool,
    /// A page that punching leaves with more than this share of holes becomes 4KB pages; at 1
    /// none does. P names no threshold.
    pub demote_above: f64,
    /// What background promotion does.
    pub promotion: PromotionRule,
    /// What a hole that promotion leaves costs, in frame copies; khugepaged patches holes at a
    /// lower price. A hole needs TLB entries of its
    /// own for as long as the page lives; the default of 2 is a choice of ours.
    pub hole_cost: f64,
}

impl Default for Perforated {
    fn default() -> Self {
        Self {
            max_hole_share: 1.0,
            max_filter_bits: 8,
            holes: HoleAllocation::Eager,
            reserves: false,
            demote_above: 1.0,
            promotion: PromotionRule::Cheapest,
            hole_cost: 2.0,
        }
    }
}

/// All options of the policy "perforated".
pub const PERFORATION_OPTIONS: &[PolicyOption] = &[
    option("max-hole-share", "S%", "100%", "perforate blocks of which others hold less than this"),
    option("max-filter-bits", "0-8", "8", "perforate blocks with at most so many filter bits set"),
    option("holes", "eager|lazy", "eager", "when the frames of holes are allocated"),
    option("create", "whole|reserve", "whole", "map a block at once, or what of it is touched"),
    option("demote-above", "S%", "100%", "make 4KB pages of those with more holes than this"),
    option("promote", "cheapest|collapse|punch|never", "cheapest", "what khugepaged does"),
    option("hole-cost", "N", "2", "what a hole counts against copying or patching, in frames"),
];

impl Perforated {
    /// The policy with these options, `key=value,…` (see [`PERFORATION_OPTIONS`]).
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(options: &str) -> Result<Self, String> {
        Self::from_options(&split_options(options)?)
    }

    pub(super) fn from_options(options: &[(&str, &str)]) -> Result<Self, String> {
        let mut policy = Self::default();
        for &(key, value) in options {
            match key {
                "max-hole-share" => policy.max_hole_share = parse_share(value)?,
                "max-filter-bits" => match value.parse() {
                    Ok(bits @ 0..=8) => policy.max_filter_bits = bits,
                    _ => return Err(format!("max-filter-bits is 0 to 8, not \"{value}\"")),
                },
                "holes" => match value {
                    "eager" => policy.holes = HoleAllocation::Eager,
                    "lazy" => policy.holes = HoleAllocation::Lazy,
                    _ => return Err(format!("holes is eager or lazy, not \"{value}\"")),
                },
                "create" => match value {
                    "whole" => policy.reserves = false,
                    "reserve" => policy.reserves = true,
                    _ => return Err(format!("create is whole or reserve, not \"{value}\"")),
                },
                "demote-above" => policy.demote_above = parse_share(value)?,
                "promote" => policy.promotion = PromotionRule::parse(value)?,
                "hole-cost" => policy.hole_cost = parse_hole_cost(value)?,
                _ => return Err(format!("it has no option \"{key}\"")),
            }
        }
        policy.check()
    }

    /// Whether a perforated page with these holes is to become 4KB pages. Asked when sub-pages
    /// were punched out of it.
    pub(crate) fn demotes(&self, holes: &HoleSet) -> bool {
        share_of(holes) > self.demote_above
    }

    /// Whether khugepaged is to patch a hole at the price of this many frame copies: the hole's own
    /// data, and what has to move out of their place.
    pub(crate) fn patches(&self, frames_copied: u64) -> bool {
        self.promotion != PromotionRule::Never && (frames_copied as f64) < self.hole_cost
    }

    fn check(self) -> Result<Self, String> {
        if self.demote_above < self.max_hole_share {
            let percent = |share: f64| share * 100.0;
            return Err(format!(
                "demote-above={}% is less than max-hole-share={}%: pages could be made that are \
                 to be demoted",
                percent(self.demote_above),
                percent(self.max_hole_share)
            ));
        }
        Ok(self)
    }
}

/// The share of a 2MB page that is holes.
fn share_of(holes: &HoleSet) -> f64 {
    holes.count() as f64 / HoleSet::SUBPAGES as f64
}

impl Policy for Perforated {
    fn name(&self) -> &'static str {
        "perforated"
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        if holes.is_empty() {
            return BlockUse::Large;
        }
        if *holes == HoleSet::FULL {
            return BlockUse::Pages; // Nothing is left to be mapped in place.
        }
        let few = share_of(holes) < self.max_hole_share || self.max_hole_share >= 1.0;
        if few && holes.filter().count_ones() <= self.max_filter_bits {
            BlockUse::Perforated(self.holes)
        } else {
            BlockUse::Pages
        }
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![self]
    }

    fn promotions(&self) -> &'static [Promotion] {
        self.promotion.promotions()
    }

    fn promote(&self, choices: &PromotionChoices) -> Option<Promotion> {
        choices.cheapest(self.promotions(), self.hole_cost)
    }
}
