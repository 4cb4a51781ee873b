//! Layouts made by rules, without a file.

use perforate_types::Random;

use super::{Intervals, LARGE_BYTES};

/// Rule that chooses which parts of a pool of a program's memory are in 2MB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// No 2MB pages. Run times with other layouts are compared with the run time with this one.
    AllSmall,
    /// 2MB pages in all of the pool.
    AllLarge,
    /// 2MB pages in a contiguous part of the pool, from start to end in eighths of the pool (0 to 8).
    Part(u8, u8),
    /// Every second page of 2MB, and 4KB pages between.
    Alternating,
    /// 2MB pages at random places of the pool: number of eighths of the pool's 2MB regions, and seed.
    Random(u8, u64),
}

/// The first rules, in the order of use. Further rules for random halves, quarters and three quarters, with
/// other seeds, follow.
const FIRST: [Shape; 10] = [
    Shape::AllLarge,
    Shape::Part(0, 4),
    Shape::Part(4, 8),
    Shape::Alternating,
    Shape::Random(4, 1),
    Shape::Part(0, 2),
    Shape::Part(6, 8),
    Shape::Random(2, 1),
    Shape::Random(6, 1),
    Shape::Part(2, 6),
];

impl Shape {
    /// Returns the first `count` layout rules, all different. [`Self::AllSmall`], with which all layouts are
    /// compared, is not included.
    pub fn list(count: usize) -> Vec<Self> {
        let more = (0..).map(|number| Self::Random([4, 2, 6][number % 3], 2 + number as u64 / 3));
        FIRST.into_iter().chain(more).take(count).collect()
    }

    /// Name of the rule's layout in tables.
    pub fn name(self) -> String {
        const EIGHTHS: [&str; 9] = ["0", "1/8", "1/4", "3/8", "1/2", "5/8", "3/4", "7/8", "1"];
        let share = |eighths: u8| EIGHTHS[usize::from(eighths.min(8))];
        match self {
            Self::AllSmall => "all 4KB".into(),
            Self::AllLarge => "all 2MB".into(),
            Self::Part(0, end) => format!("first {}", share(end)),
            Self::Part(start, 8) => format!("last {}", share(8 - start)),
            Self::Part(start, end) => format!("from {} to {}", share(start), share(end)),
            Self::Alternating => "every second".into(),
            Self::Random(eighths, 1) => format!("random {}", share(eighths)),
            Self::Random(eighths, seed) => format!("random {} #{seed}", share(eighths)),
        }
    }

    /// Intervals of 2MB pages by this rule in a pool of `bytes` bytes. A partial 2MB page at the
    /// end counts as a page.
    pub fn over(self, bytes: u64) -> Intervals {
        let pages = bytes.div_ceil(LARGE_BYTES);
        let eighths = |count: u8| u64::from(count) * pages / 8;
        match self {
            Self::AllSmall => Intervals::NONE,
            Self::AllLarge => Intervals::of_pages(0..pages),
            Self::Part(start, end) => Intervals::of_pages(eighths(start)..eighths(end)),
            Self::Alternating => Intervals::of_pages((0..pages).step_by(2)),
            Self::Random(share, seed) => {
                let mut random = Random::keyed(seed, 0, 0);
                let mut all: Vec<u64> = (0..pages).collect();
                let count = eighths(share) as usize;
                for place in 0..count {
                    all.swap(place, place + random.below(pages - place as u64) as usize);
                }
                Intervals::of_pages(all.into_iter().take(count))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn shapes_and_their_names_are_distinct() {
        let shapes = Shape::list(40);
        assert_eq!(shapes.len(), 40);
        let names: HashSet<String> = shapes.iter().map(|shape| shape.name()).collect();
        assert_eq!(names.len(), 40);
        let layouts: HashSet<String> =
            shapes.iter().map(|shape| format!("{:?}", shape.over(128 << 20))).collect();
        assert_eq!(layouts.len(), 40);
        assert_eq!(
            shapes[..5].iter().map(|shape| shape.name()).collect::<Vec<_>>(),
            ["all 2MB", "first 1/2", "last 1/2", "every second", "random 1/2"]
        );
    }

    #[test]
    fn shapes_of_sixteen_megabytes() {
        let mb = |from: u64, to: u64| from << 20..to << 20;
        let over = |shape: Shape| shape.over(16 << 20).iter().collect::<Vec<_>>();
        assert_eq!(over(Shape::AllSmall), []);
        assert_eq!(over(Shape::AllLarge), [mb(0, 16)]);
        assert_eq!(over(Shape::Part(0, 4)), [mb(0, 8)]);
        assert_eq!(over(Shape::Part(6, 8)), [mb(12, 16)]);
        assert_eq!(over(Shape::Alternating), [mb(0, 2), mb(4, 6), mb(8, 10), mb(12, 14)]);
        for share in [2, 4, 6] {
            let bytes = Shape::Random(share, 1).over(16 << 20).bytes();
            assert_eq!(bytes, u64::from(share) * (2 << 20));
            assert_eq!(
                Shape::Random(share, 1).over(16 << 20),
                Shape::Random(share, 1).over(16 << 20)
            );
        }
        assert_eq!(Shape::AllLarge.over(1).bytes(), LARGE_BYTES);
        for shape in Shape::list(20) {
            assert_eq!(shape.over(0), Intervals::NONE);
        }
    }
}
