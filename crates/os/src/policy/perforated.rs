//! The policy "perforated" (P §III.C, §VI; SPEC P-7).

use perforate_types::HoleSet;

use super::promotion::parse_hole_cost;
use super::{
    BlockUse, HoleAllocation, PartialChange, Policy, Promotion, PromotionChoices, PromotionRule,
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
    /// What background promotion does.
    pub promotion: PromotionRule,
    /// What a hole that promotion leaves costs, in frame copies. A hole needs TLB entries of its
    /// own for as long as the page lives; the default of 2 is a choice of ours.
    pub hole_cost: f64,
}

impl Default for Perforated {
    fn default() -> Self {
        Self {
            max_hole_share: 1.0,
            max_filter_bits: 8,
            holes: HoleAllocation::Eager,
            promotion: PromotionRule::Cheapest,
            hole_cost: 2.0,
        }
    }
}

impl Perforated {
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
                "promote" => policy.promotion = PromotionRule::parse(value)?,
                "hole-cost" => policy.hole_cost = parse_hole_cost(value)?,
                _ => return Err(format!("it has no option \"{key}\"")),
            }
        }
        Ok(policy)
    }
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
        let share = holes.count() as f64 / HoleSet::SUBPAGES as f64;
        let few = share < self.max_hole_share || self.max_hole_share >= 1.0;
        if few && holes.filter().count_ones() <= self.max_filter_bits {
            BlockUse::Perforated(self.holes)
        } else {
            BlockUse::Pages
        }
    }

    fn partial_change(&self) -> PartialChange {
        PartialChange::Punch
    }
    fn promotions(&self) -> &'static [Promotion] {
        self.promotion.promotions()
    }

    fn promote(&self, choices: &PromotionChoices) -> Option<Promotion> {
        choices.cheapest(self.promotions(), self.hole_cost)
    }
}
