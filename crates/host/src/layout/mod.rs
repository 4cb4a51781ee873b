//! Layouts: assignments of 2MB and 4KB pages to parts of a program's memory.
//!
//! As in Mosalloc (M. Agbarya, I. Yaniv and others, MICRO 2020), a program has two pools: memory that
//! malloc takes from the system (`brk`), and anonymous mappings (`mmap`). A layout is a list of 2MB
//! intervals in each pool. [`LayoutFile`] reads Mosalloc's files, and [`Shape`] makes layouts by rules.
//! A library that is loaded before the program ([`preload`](crate::layout::Preload)) makes the pools
//! and advises the kernel. [`replace_advice`] changes the layout in a recording of the program.

mod file;
mod preload;
mod replay;
mod shape;

use std::ops::Range;

use perforate_types::RangeMap;
use serde::{Deserialize, Serialize};

pub use file::LayoutFile;
pub use preload::{Pools, Preload};
pub use replay::replace_advice;
pub use shape::Shape;

/// Size of a 2MB page in bytes.
pub const LARGE_BYTES: u64 = 2 << 20;

/// Layout of one pool of a program's memory: intervals of 2MB pages, as byte offsets in the pool, in
/// ascending order and without overlaps. Memory between the intervals gets 4KB pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Intervals(Vec<(u64, u64)>);

impl Intervals {
    /// Layout without 2MB pages: all of the pool is in 4KB pages.
    pub const NONE: Self = Self(Vec::new());

    /// Makes a pool's layout from byte ranges, which are rounded inwards to whole 2MB pages, sorted
    /// and joined.
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let whole = |range: Range<u64>| {
            let start = range.start.checked_next_multiple_of(LARGE_BYTES)?;
            let end = range.end / LARGE_BYTES * LARGE_BYTES;
            (start < end).then_some(start..end)
        };
        let joined: RangeMap<()> = ranges.into_iter().filter_map(whole).collect();
        Self(joined.iter().map(|(range, ())| (range.start, range.end)).collect())
    }

    /// Makes a pool's layout from the indices of the 2MB pages in the pool.
    pub fn of_pages(pages: impl IntoIterator<Item = u64>) -> Self {
        Self::new(pages.into_iter().map(|page| page * LARGE_BYTES..(page + 1) * LARGE_BYTES))
    }

    /// Iterates over the intervals of 2MB pages, as byte offsets in the pool, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(start, end)| *start..*end)
    }

    /// Iterates over the parts of the intervals of 2MB pages that lie in a range of byte offsets.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let part = move |own: Range<u64>| own.start.max(range.start)..own.end.min(range.end);
        self.iter().map(part).filter(|part| !part.is_empty())
    }

    /// Total size in bytes of the intervals of 2MB pages.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|range| range.end - range.start).sum()
    }
}

/// Layout of both pools of a program (malloc's memory, and anonymous mappings), with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Name of the layout in tables.
    pub name: String,
    /// Intervals of 2MB pages in malloc's pool.
    pub heap: Intervals,
    /// Intervals of 2MB pages in the pool of anonymous mappings.
    pub mapped: Intervals,
}

/// Source of a layout of 2MB and 4KB pages that a user chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutChoice {
    /// A layout file in Mosalloc's format.
    File(LayoutFile),
    /// A rule that makes the layout, without a file.
    Shape(Shape),
}

impl LayoutChoice {
    /// Name of the layout in tables.
    pub fn name(&self) -> String {
        match self {
            Self::File(file) => file.layout.name.clone(),
            Self::Shape(shape) => shape.name(),
        }
    }

    /// Makes the layout of a program that uses these numbers of bytes in its two pools. A layout file is used
    /// as it is.
    pub fn over(&self, heap_bytes: u64, mapped_bytes: u64) -> Layout {
        match self {
            Self::File(file) => file.layout.clone(),
            Self::Shape(shape) => Layout {
                name: shape.name(),
                heap: shape.over(heap_bytes),
                mapped: shape.over(mapped_bytes),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_whole_sorted_and_joined() {
        let mb = |from: u64, to: u64| from << 20..to << 20;
        let found = Intervals::new([mb(8, 12), mb(1, 5), mb(4, 8), mb(20, 21), mb(15, 18)]);
        assert!(found.iter().eq([mb(2, 12), mb(16, 18)]));
        assert_eq!(found.bytes(), 12 << 20);
        assert!(found.within(mb(11, 17)).eq([mb(11, 12), mb(16, 17)]));
        assert_eq!(Intervals::of_pages([0, 1, 3]), Intervals::new([mb(0, 4), mb(6, 8)]));
        assert_eq!(
            serde_json::to_string(&Intervals::of_pages([1])).unwrap(),
            "[[2097152,4194304]]"
        );
    }
}
