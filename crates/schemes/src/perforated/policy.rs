//! The policy "perforated" (P §III.C, §VI).

use perforate_config::{ConfigError, Share};
use perforate_os::mechanism::HoledPages;
use perforate_os::{
    BlockUse, HoleRule, Policy, Promotion, PromotionChoices, PromotionRule, described,
};
use perforate_types::HoleSet;

use super::kernel::PerforatedPages;
use super::{BlockCreation, PerforationOptions};

/// Policy that maps fragmented 2MB blocks as 2MB pages with holes, and punches holes (takes single
/// 4KB sub-pages out) instead of splitting 2MB pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Perforated {
    options: PerforationOptions,
}

impl Perforated {
    /// Creates a policy with these options.
    ///
    /// # Errors
    /// If options contradict each other.
    pub fn new(options: PerforationOptions) -> Result<Self, ConfigError> {
        options.check().map(|()| Self { options })
    }

    /// Options that the policy was created with.
    pub const fn options(&self) -> &PerforationOptions {
        &self.options
    }
}

impl HoleRule for Perforated {
    fn pages(&self) -> &'static dyn HoledPages {
        &PerforatedPages
    }

    fn reserves(&self) -> bool {
        self.options.create == BlockCreation::Reserve
    }

    fn demotes(&self, holes: &HoleSet) -> bool {
        share_of(holes) > self.options.demote_above.value()
    }

    fn patches(&self, frames_copied: u64) -> bool {
        let PerforationOptions { promote, hole_cost, .. } = self.options;
        promote != PromotionRule::Never && (frames_copied as f64) < hole_cost
    }
}

/// Holes as a share of the 2MB page, from 0 to 1.
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
            BlockUse::WithHoles(self.options.holes)
        } else {
            BlockUse::Pages
        }
    }

    fn hole_rule(&self) -> Option<&dyn HoleRule> {
        Some(self)
    }

    fn promotions(&self) -> &'static [Promotion] {
        self.options.promote.promotions()
    }

    fn promote(&self, choices: &PromotionChoices) -> Option<Promotion> {
        choices.cheapest(self.promotions(), self.options.hole_cost)
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::read;
    use perforate_os::HoleAllocation;

    use super::*;
    use crate::listed;

    fn first(count: usize) -> HoleSet {
        (0..count).collect()
    }

    fn perforated(options: &str) -> Perforated {
        Perforated::new(read(options).expect(options)).expect(options)
    }

    #[test]
    fn whole_and_fragmented_blocks() {
        let policy = perforated("default");
        assert_eq!(policy.use_block(&HoleSet::EMPTY), BlockUse::Large);
        let fragmented = BlockUse::WithHoles(HoleAllocation::Eager);
        assert_eq!(policy.use_block(&first(128)), fragmented);
        let nothing_in_place = policy.use_block(&HoleSet::FULL);
        assert_eq!(nothing_in_place, BlockUse::Pages);
    }

    #[test]
    fn thresholds_of_section_iii_c() {
        let policy = perforated("max-hole-share=25%,max-filter-bits=4,holes=lazy");
        let lazy = BlockUse::WithHoles(HoleAllocation::Lazy);
        // Less than 25 % of 512 frames is at most 127. A run of 127 frames lies in two regions.
        assert_eq!(policy.use_block(&first(127)), lazy);
        assert_eq!(policy.use_block(&first(128)), BlockUse::Pages);
        // One hole in each of four 256KB regions is allowed, but not in each of five.
        assert_eq!(policy.use_block(&(0..4).map(|region| region * 64).collect()), lazy);
        let five = (0..5).map(|region| region * 64).collect();
        assert_eq!(policy.use_block(&five), BlockUse::Pages);
    }

    #[test]
    fn describe_lists_only_changed_options() {
        assert_eq!(perforated("default").describe(), "perforated");
        let selective = Perforated::new(PerforationOptions::SELECTIVE).unwrap();
        assert_eq!(selective.describe(), "perforated:max-hole-share=25%,max-filter-bits=4");
    }

    #[test]
    fn all_options_are_listed_with_their_defaults() {
        assert_eq!(
            listed::<PerforationOptions>(),
            [
                "max-hole-share=S% [100%]",
                "max-filter-bits=0-8 [8]",
                "holes=eager|lazy [eager]",
                "create=whole|reserve [whole]",
                "demote-above=S% [100%]",
                "promote=cheapest|collapse|punch|never [cheapest]",
                "hole-cost=N [2]",
            ]
        );
    }

    #[test]
    fn wrong_options_are_explained() {
        let perforated = |text: &str| read(text).and_then(Perforated::new).map(|_| ());
        for (options, problem) in [
            ("holes", "holes: expected eager or lazy, not \"holes\""),
            ("holes=soon", "holes: expected eager or lazy, not \"soon\""),
            ("max-filter-bits=9", "max-filter-bits: is at most 8, not 9"),
            ("create=later", "create: expected whole or reserve, not \"later\""),
            (
                "max-hole-share=25%,demote-above=20%",
                "demote-above=20% is less than max-hole-share=25%",
            ),
            ("promote=always", "promote: expected cheapest, collapse, punch or never"),
            ("hole-cost=-1", "hole-cost: is a number of frame copies from 0 on, not -1"),
            ("holes=lazy,holes=eager", "holes is given twice"),
        ] {
            let error = perforated(options).expect_err(problem).to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
