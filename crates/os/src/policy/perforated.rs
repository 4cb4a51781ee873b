//! The policy "perforated" (P §III.C, §VI; SPEC P-7).

use std::any::Any;

use perforate_config::{ConfigError, Share};
use perforate_types::HoleSet;

use super::{
    BlockCreation, BlockUse, PerforationOptions, Policy, Promotion, PromotionChoices,
    PromotionRule, described,
};

/// 2MB pages with holes where a block is fragmented; holes are punched instead of splitting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Perforated {
    options: PerforationOptions,
}

impl Perforated {
    /// The policy with these options.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn new(options: PerforationOptions) -> Result<Self, ConfigError> {
        options.check().map(|()| Self { options })
    }

    /// Its options.
    pub const fn options(&self) -> &PerforationOptions {
        &self.options
    }

    /// Whether a block is only reserved at first, and its sub-pages mapped as they are touched
    /// (P §VI).
    pub(crate) fn reserves(&self) -> bool {
        self.options.create == BlockCreation::Reserve
    }

    /// Whether a perforated page with these holes is to become 4KB pages. Asked when sub-pages
    /// were punched out of it.
    pub(crate) fn demotes(&self, holes: &HoleSet) -> bool {
        share_of(holes) > self.options.demote_above.value()
    }

    /// Whether khugepaged is to patch a hole at the price of this many frame copies: the hole's own
    /// data, and what has to move out of their place.
    pub(crate) fn patches(&self, frames_copied: u64) -> bool {
        let PerforationOptions { promote, hole_cost, .. } = self.options;
        promote != PromotionRule::Never && (frames_copied as f64) < hole_cost
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

    fn describe(&self) -> String {
        described(self.name(), &self.options)
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        if holes.is_empty() {
            return BlockUse::Large;
        }
        if *holes == HoleSet::FULL {
            return BlockUse::Pages; // Nothing is left to be mapped in place.
        }
        let PerforationOptions { max_hole_share, max_filter_bits, .. } = self.options;
        let few = share_of(holes) < max_hole_share.value() || max_hole_share == Share::WHOLE;
        if few && u64::from(holes.filter().count_ones()) <= max_filter_bits.get() {
            BlockUse::Perforated(self.options.holes)
        } else {
            BlockUse::Pages
        }
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![self]
    }

    fn promotions(&self) -> &'static [Promotion] {
        self.options.promote.promotions()
    }

    fn promote(&self, choices: &PromotionChoices) -> Option<Promotion> {
        choices.cheapest(self.promotions(), self.options.hole_cost)
    }
}
