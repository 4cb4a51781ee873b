//! Layouts: page sizes of the parts of a program's memory.
//!
//! As in Mosalloc (M. Agbarya, I. Yaniv and others, MICRO 2020), a program has three pools: memory that
//! malloc takes from the system (`brk`), anonymous mappings (`mmap`), and mappings of files. A layout
//! assigns pages of 4KB, 2MB or 1GB to intervals of each pool. [`LayoutFile`] reads and writes
//! Mosalloc's files. [`Pooled`] moves a program's memory into pools.

mod file;
mod place;
mod pooled;

use std::ops::Range;

use perforate_types::PageSize;
use serde::{Serialize, Serializer};

pub use pooled::Pooled;

/// Pool: memory of a program that was allocated in one way. Its parts can have different page sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The heap, which grows by the system call brk.
    Brk,
    /// Private anonymous mappings, which are made by mmap.
    Mmap,
    /// Mappings of files. Lines for this pool are read, but file mappings keep their addresses and 4KB
    /// pages.
    File,
}

impl Pool {
    /// All pools, in the order in which layout files list them.
    pub const ALL: [Self; 3] = [Self::Brk, Self::Mmap, Self::File];

    /// Name of the pool in layout files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brk => "brk",
            Self::Mmap => "mmap",
            Self::File => "file",
        }
    }

    /// Address of the pool in every process; `None` for file mappings. Linux maps nothing there by itself:
    /// position-independent programs are at 0x55…, libraries at 0x7f….
    pub const fn address(self) -> Option<u64> {
        match self {
            Self::Brk => Some(0x2a00_0000_0000),
            Self::Mmap => Some(0x3500_0000_0000),
            Self::File => None,
        }
    }
}

/// Part of a pool with one page size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Byte offsets of the interval in its pool.
    pub offsets: Range<u64>,
    /// Size of each page in the interval.
    pub size: PageSize,
}

/// Layout of one pool: intervals of pages above 4KB, in ascending order and without overlaps. Memory
/// between the intervals has 4KB pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolLayout {
    /// Size of the pool in bytes.
    pub bytes: u64,
    /// Parts of the pool that have pages larger than 4KB.
    pub intervals: Vec<Interval>,
}

impl PoolLayout {
    /// Makes a layout of a pool from intervals in ascending order. Intervals of 4KB pages are dropped;
    /// adjacent intervals of the same page size are joined.
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

/// Layout of page sizes, as a layout file gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutFile {
    /// Name of the layout: the file's name.
    pub name: String,
    /// Layouts of the pools in the order of [`Pool::ALL`]; `None` for a pool whose size the file does not
    /// give.
    pub pools: [Option<PoolLayout>; 3],
}

impl LayoutFile {
    /// Layout of a pool, if the file gives its size.
    pub fn pool(&self, pool: Pool) -> Option<&PoolLayout> {
        self.pools[pool as usize].as_ref()
    }

    /// Returns the address ranges, with their page sizes, of all parts of the heap and of anonymous mappings
    /// that the layout gives pages larger than 4KB.
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

/// Writes a layout as its name and the lines of its file.
impl Serialize for LayoutFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lines = vec![self.name.clone()];
        lines.extend(self.lines());
        lines.serialize(serializer)
    }
}
