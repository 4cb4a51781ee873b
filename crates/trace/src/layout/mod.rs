//! Layouts: which parts of a program's memory have pages of which size.
//!
//! As in Mosalloc (M. Agbarya, I. Yaniv and others, MICRO 2020), a program has three pools: what malloc
//! takes from the system (`brk`), its anonymous mappings (`mmap`), and its mappings of files. A layout
//! gives intervals of each pool pages of 4KB, 2MB or 1GB. [`LayoutFile`] reads and writes Mosalloc's
//! files, and [`Pooled`] gives a program the pools.

mod file;
mod place;
mod pooled;

use std::ops::Range;

use perforate_types::PageSize;
use serde::{Serialize, Serializer};

pub use pooled::Pooled;

/// A pool of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The heap, which grows by brk.
    Brk,
    /// Private anonymous mappings.
    Mmap,
    /// Mappings of files. Its lines are read, but files stay in 4KB pages, where they are.
    File,
}

impl Pool {
    /// All pools.
    pub const ALL: [Self; 3] = [Self::Brk, Self::Mmap, Self::File];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brk => "brk",
            Self::Mmap => "mmap",
            Self::File => "file",
        }
    }

    /// Where it lies in every process, if it is one that a program gets. Nothing that Linux maps
    /// by itself lies there: position-independent programs are at 0x55…, libraries at 0x7f….
    pub const fn address(self) -> Option<u64> {
        match self {
            Self::Brk => Some(0x2a00_0000_0000),
            Self::Mmap => Some(0x3500_0000_0000),
            Self::File => None,
        }
    }
}

/// A part of a pool and the pages that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Offsets in the pool, in bytes.
    pub offsets: Range<u64>,
    /// Size of its pages.
    pub size: PageSize,
}

/// The layout of one pool: intervals of pages that are larger than 4KB, lowest first and apart from
/// each other. What is between them has 4KB pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolLayout {
    /// Size of the pool.
    pub bytes: u64,
    /// The intervals.
    pub intervals: Vec<Interval>,
}

impl PoolLayout {
    /// A pool with these intervals, lowest first; those of 4KB pages are left out, neighbours of the
    /// same size are joined.
    pub fn new(bytes: u64, intervals: impl IntoIterator<Item = Interval>) -> Self {
        let mut joined: Vec<Interval> = Vec::new();
        for interval in intervals.into_iter().filter(|one| one.size > PageSize::Size4K) {
            match joined.last_mut() {
                Some(last)
                    if last.size == interval.size && last.offsets.end == interval.offsets.start =>
                {
                    last.offsets.end = interval.offsets.end;
                }
                _ => joined.push(interval),
            }
        }
        Self { bytes, intervals: joined }
    }
}

/// A layout, as files have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutFile {
    /// Its name: that of the file.
    pub name: String,
    /// The pools in the order of [`Pool::ALL`], as far as they have a size.
    pub pools: [Option<PoolLayout>; 3],
}

impl LayoutFile {
    /// The layout of a pool, if it has a size.
    pub fn pool(&self, pool: Pool) -> Option<&PoolLayout> {
        self.pools[pool as usize].as_ref()
    }

    /// The intervals of the pools that programs get, by their addresses.
    pub fn addresses(&self) -> Vec<(Range<u64>, PageSize)> {
        let placed =
            Pool::ALL.into_iter().filter_map(|pool| Some((pool.address()?, self.pool(pool)?)));
        let at = |first: u64, interval: &Interval| {
            (first + interval.offsets.start..first + interval.offsets.end, interval.size)
        };
        placed
            .flat_map(|(first, pool)| {
                pool.intervals.iter().map(move |interval| at(first, interval))
            })
            .collect()
    }
}

/// The name, and the lines of the file that it can be written to again.
impl Serialize for LayoutFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lines = vec![self.name.clone()];
        lines.extend(self.lines());
        lines.serialize(serializer)
    }
}
