//! Background promotion (khugepaged): the ways in which a region of 4KB pages can become a 2MB
//! page, the cost of each, and rules that choose among them.
//!
//! The kernel tries the ways that [`super::Policy::promotions`] lists, computes their costs and
//! asks [`super::Policy::promote`]. The policy sees only numbers.

use perforate_types::HoleSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A method by which khugepaged can turn a 2MB region of 4KB pages into a 2MB page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// Copies all pages into a free 2MB block, as Linux's khugepaged does. Absent pages become zero
    /// pages. The block may need compaction first.
    Collapse,
    /// Copies pages into a partly used block, in which frames of other owners remain as holes. Pages at
    /// holes keep their frames.
    PunchAround,
    /// Copies nothing. Pages that are in place in one block stay in place. All other pages become
    /// holes and keep their frames.
    PunchInPlace,
}

/// Cost of one possible promotion of a 2MB region, in frames and holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromotionPrice {
    /// Number of frames of the 2MB region that are copied to another frame.
    pub frames_copied: u64,
    /// Number of frames of other owners that are migrated to empty the 2MB block.
    pub frames_migrated: u64,
    /// Number of absent pages of the region that get a zeroed frame.
    pub frames_zeroed: u64,
    /// Holes that the 2MB page would have.
    pub holes: HoleSet,
}

/// Possible promotions of a 2MB region, with their costs, among which a policy chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromotionChoices {
    /// Number of pages of the 2MB region that are not mapped.
    pub pages_absent: u64,
    /// Number of pages of the 2MB region whose frame other pages also map.
    pub pages_shared: u64,
    /// Cost of each promotion, indexed by [`Promotion`]; `None` if it is impossible.
    pub prices: [Option<PromotionPrice>; 3],
}

impl PromotionChoices {
    /// Cost of a promotion; `None` if it is impossible.
    pub fn price(&self, promotion: Promotion) -> Option<&PromotionPrice> {
        self.prices[promotion as usize].as_ref()
    }

    /// Promotion of the lowest cost in `among`, with a hole counted as `hole_cost` frame copies; the first of
    /// equally cheap ones. `None` if all are impossible.
    pub fn cheapest(&self, among: &[Promotion], hole_cost: f64) -> Option<Promotion> {
        let mut best: Option<(f64, Promotion)> = None;
        for &promotion in among {
            let Some(price) = self.price(promotion) else { continue };
            let cost = price.cost(hole_cost);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, promotion));
            }
        }
        best.map(|(_, promotion)| promotion)
    }
}

impl PromotionPrice {
    /// Cost of the promotion in frame copies: a zeroed frame counts as one, a hole as `hole_cost`.
    pub fn cost(&self, hole_cost: f64) -> f64 {
        let frames = self.frames_copied + self.frames_migrated + self.frames_zeroed;
        frames as f64 + hole_cost * self.holes.count() as f64
    }
}

/// Promotions that the policy `perforated` may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PromotionRule {
    /// The promotion with the lowest cost.
    Cheapest,
    /// Only 2MB pages without holes, as in Linux.
    Collapse,
    /// Only 2MB pages with holes, in the cheaper way.
    Punch,
    /// No promotions.
    Never,
}

impl PromotionRule {
    /// Promotions that the policy `perforated` considers under this rule; the first of equally cheap ones
    /// wins.
    pub fn promotions(self) -> &'static [Promotion] {
        use Promotion::{Collapse, PunchAround, PunchInPlace};
        match self {
            Self::Collapse => &[Collapse],
            Self::Punch => &[PunchInPlace, PunchAround],
            Self::Cheapest => &[Collapse, PunchInPlace, PunchAround],
            Self::Never => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(copied: u64, migrated: u64, zeroed: u64, holes: usize) -> Option<PromotionPrice> {
        Some(PromotionPrice {
            frames_copied: copied,
            frames_migrated: migrated,
            frames_zeroed: zeroed,
            holes: (0..holes).collect(),
        })
    }

    #[test]
    fn the_cheapest_depends_on_what_a_hole_costs() {
        let choices = PromotionChoices {
            prices: [
                price(500, 300, 12, 0), // 812
                price(480, 0, 12, 20),  // 492 + 20 holes
                price(0, 0, 10, 200),   // 10 + 200 holes
            ],
            ..PromotionChoices::default()
        };
        let all = PromotionRule::Cheapest.promotions();
        let chosen = |cost| choices.cheapest(all, cost);
        assert_eq!(chosen(2.0), Some(Promotion::PunchInPlace)); // 410 < 532 < 812
        assert_eq!(chosen(3.0), Some(Promotion::PunchAround)); // 552 < 610 < 812
        assert_eq!(chosen(17.0), Some(Promotion::Collapse)); // 812 < 832 < 3410
        // 492 + 16·20 = 812: the costs are equal, so the promotion without holes wins.
        assert_eq!(chosen(16.0), Some(Promotion::Collapse));
        assert_eq!(
            choices.cheapest(PromotionRule::Punch.promotions(), 17.0),
            Some(Promotion::PunchAround)
        );
        assert_eq!(choices.cheapest(PromotionRule::Never.promotions(), 2.0), None);
        let none = PromotionChoices::default();
        assert_eq!(none.cheapest(all, 2.0), None);
    }

    #[test]
    fn rules_allow_promotions_in_their_order() {
        use Promotion::{Collapse, PunchAround, PunchInPlace};
        for (rule, expected) in [
            (PromotionRule::Cheapest, &[Collapse, PunchInPlace, PunchAround][..]),
            (PromotionRule::Collapse, &[Collapse]),
            (PromotionRule::Punch, &[PunchInPlace, PunchAround]),
            (PromotionRule::Never, &[]),
        ] {
            assert_eq!(rule.promotions(), expected);
        }
        let cost = price(1, 20, 300, 4000 % 512).unwrap().cost(0.5);
        assert_eq!(cost, 321.0 + 416.0 / 2.0);
        // Equal costs: the first of the rule's promotions.
        let equal = PromotionChoices { prices: [price(5, 0, 0, 0); 3], ..Default::default() };
        assert_eq!(equal.cheapest(&[PunchAround, Collapse], 1.0), Some(PunchAround));
    }
}
