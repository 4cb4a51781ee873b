//! Gain curves: misses saved against memory spent, and how many choices of a curve to follow.

use serde::Serialize;

use crate::PageOrder;

/// Share of the walks that all choices together save, 0–1, that the recommended choices have to save.
pub const ENOUGH: f64 = 0.85;

/// Page size for one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Index of the piece.
    pub piece: usize,
    /// Page size of its memory.
    pub order: PageOrder,
}

/// State after the first so many choices of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GainPoint {
    /// Number of choices that are in effect.
    pub choices: usize,
    /// Page walks that are left, first touches of pages not counted.
    pub walks: u64,
    /// Resident memory beyond that with 4KB pages, in bytes.
    pub additional_bytes: u64,
}

/// Choices in order of walks saved for each byte of additional memory, and the walks that are left after
/// the first 0, 1, 2, … of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GainCurve {
    /// Choices, the best first.
    pub choices: Vec<Choice>,
    /// One point more than there are choices, unless several choices were simulated at once.
    pub points: Vec<GainPoint>,
}

impl GainCurve {
    /// Returns the index of the point with the least additional memory that saves at least `share` of the
    /// walks that any point saves; of several with the same memory, the one that saves most. `None` if no
    /// point saves any.
    pub fn point_for(&self, share: f64) -> Option<usize> {
        let all = self.points.first()?.walks;
        let most = self.points.iter().map(|point| all.saturating_sub(point.walks)).max()?;
        let enough = (most as f64 * share).max(1.0);
        let is_enough =
            |&(_, point): &(usize, &GainPoint)| all.saturating_sub(point.walks) as f64 >= enough;
        let candidates = self.points.iter().enumerate().filter(is_enough);
        let least =
            candidates.min_by_key(|(index, point)| (point.additional_bytes, point.walks, *index));
        least.map(|(index, _)| index)
    }

    /// Returns the share of all walks, 0–1, that the point with this index saves.
    pub fn saved_share(&self, index: usize) -> f64 {
        let (Some(first), Some(point)) = (self.points.first(), self.points.get(index)) else {
            return 0.0;
        };
        first.walks.saturating_sub(point.walks) as f64 / first.walks.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, u64)]) -> GainCurve {
        let point =
            |(choices, &(walks, additional_bytes))| GainPoint { choices, walks, additional_bytes };
        GainCurve {
            choices: (1..points.len())
                .map(|piece| Choice { piece, order: PageOrder::LARGE })
                .collect(),
            points: points.iter().enumerate().map(point).collect(),
        }
    }

    #[test]
    fn the_knee_saves_nearly_all_for_little_memory() {
        // Of 900 walks that can be saved, 850 are with 3 bytes.
        let curve = curve(&[(1000, 0), (600, 1), (150, 3), (110, 40), (100, 900)]);
        assert_eq!(curve.point_for(ENOUGH), Some(2));
        assert_eq!(curve.point_for(1.0), Some(4));
        assert_eq!(curve.point_for(0.1), Some(1));
        assert_eq!(curve.saved_share(2), 0.85);
        assert_eq!(curve.saved_share(9), 0.0);
    }

    #[test]
    fn what_costs_nothing_is_taken() {
        let curve = curve(&[(1000, 0), (100, 0), (0, 0), (0, 0)]);
        assert_eq!(curve.point_for(ENOUGH), Some(2));
    }

    #[test]
    fn a_curve_without_gain_has_no_plan() {
        assert_eq!(curve(&[(10, 0), (10, 5)]).point_for(ENOUGH), None);
        assert_eq!(GainCurve::default().point_for(ENOUGH), None);
        assert_eq!(GainCurve::default().saved_share(0), 0.0);
    }
}
