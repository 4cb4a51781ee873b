//! The range table: a B-tree of ranges in simulated memory (RMM §4.2).
//!
//! A node is one frame. It holds at most 124 sorted ranges of three words each: first page, page
//! after the last, and a page-table entry for the first page. After the ranges, it holds the frames
//! of up to 125 child nodes. Word 0 has the number of ranges, and a flag for child nodes.

use std::cmp::Ordering;
use std::ops::Range;

use perforate_mmu::{TableMemory, WalkFault, Walker};
use perforate_types::{
    FormatOperation, Frame, PageRun, PageSize, PageTableEntry, Permissions, PhysicalAddress,
    Purpose, SpaceId, Update, VirtualPage, Written,
};

/// Maximum number of ranges in a node of the range table.
const MOST_RANGES: usize = 124;
/// Index, within a range-table node, of the first word that holds the frame of a child node.
const BELOW: usize = 1 + 3 * MOST_RANGES;
/// Flag in word 0 of a range-table node: the node has children.
const HAS_BELOW: u64 = 1 << 16;
/// Size of a cache line in bytes, the unit of the walker's reads.
const LINE_BYTES: u64 = 64;

/// A run of pages with consecutive frames and equal permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeEntry {
    /// First page of the range.
    pub start: u64,
    /// Page after the last page of the range.
    pub end: u64,
    /// Frame of the first page of the range.
    pub frame: Frame,
    /// Accesses that the pages of the range allow.
    pub permissions: Permissions,
}

impl RangeEntry {
    /// Numbers of the 4KB pages in the range.
    pub(super) fn pages(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Part of the range that lies in `pages`, which must overlap the range.
    pub(super) fn part(&self, pages: Range<u64>) -> Self {
        let (start, end) = (self.start.max(pages.start), self.end.min(pages.end));
        Self { start, end, frame: self.frame.add(start - self.start), ..*self }
    }

    /// True if `next` continues this range: in pages, frames and permissions.
    pub(super) fn is_continued_by(&self, next: &Self) -> bool {
        let frame = self.frame.add(self.end - self.start);
        (self.end, frame, self.permissions) == (next.start, next.frame, next.permissions)
    }

    fn words(&self) -> [u64; 3] {
        let entry = PageTableEntry::leaf(self.frame, PageSize::Size4K, self.permissions);
        [self.start, self.end, entry.bits()]
    }
}

/// An operation on the range table of an address space, or on its root register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RangeOperation {
    /// Sets the register with the root of an address space's range table (RMM: CR-RT).
    Root {
        /// Address space of the range table.
        space: SpaceId,
        /// Frame of the root node; `None` if the address space has no ranges.
        root: Option<Frame>,
    },
    /// Writes the words of a node of the range table.
    Node {
        /// Address space of the range table.
        space: SpaceId,
        /// Frame of the range-table node to write.
        frame: Frame,
        /// New content of the node, from word 0 on. The rest of the frame is unused.
        words: Box<[u64]>,
    },
    /// Clears the frame of a node that was removed from the range table.
    Clear {
        /// Address space of the range table.
        space: SpaceId,
        /// Frame of the removed range-table node.
        frame: Frame,
    },
}

impl FormatOperation for RangeOperation {
    /// Returns an empty run of pages: the operation changes no translation, because ranges only
    /// repeat mappings of the page tables.
    fn pages(&self) -> PageRun {
        let (Self::Root { space, .. } | Self::Node { space, .. } | Self::Clear { space, .. }) =
            self;
        PageRun::new(*space, VirtualPage::new(0), 0)
    }

    fn written(&self) -> Written {
        match self {
            Self::Root { .. } => Written::Registers(1),
            Self::Node { .. } | Self::Clear { .. } => Written::Copy,
        }
    }

    fn table(&self) -> Option<Frame> {
        if let Self::Node { frame, .. } = self { Some(*frame) } else { None }
    }
}

impl From<RangeOperation> for Update {
    fn from(operation: RangeOperation) -> Self {
        Self::Format(Box::new(operation))
    }
}

/// Node of the range table before it has a frame: its ranges, and the indices of its children.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    ranges: Vec<RangeEntry>,
    below: Vec<usize>,
}

impl Node {
    /// Encodes the node in words. `frames[n]` is the frame of node *n*.
    pub(super) fn words(&self, frames: &[Frame]) -> Box<[u64]> {
        let has_below = if self.below.is_empty() { 0 } else { HAS_BELOW };
        let mut words = vec![self.ranges.len() as u64 | has_below];
        words.extend(self.ranges.iter().flat_map(RangeEntry::words));
        if has_below != 0 {
            words.resize(BELOW, 0);
            words.extend(self.below.iter().map(|&number| frames[number].number()));
        }
        words.into()
    }
}

/// Builds a B-tree of minimal height from these ranges. Returns its nodes, root first.
pub(super) fn nodes(ranges: &[RangeEntry]) -> Vec<Node> {
    let mut nodes = Vec::new();
    if !ranges.is_empty() {
        let levels = (0..).find(|&levels| capacity(levels) >= ranges.len());
        add(ranges, levels.expect("a tree may have any height"), &mut nodes);
    }
    nodes
}

/// Maximum number of ranges in a subtree with `levels` levels below its root.
fn capacity(levels: u32) -> usize {
    (0..levels).fold(MOST_RANGES, |below, _| MOST_RANGES + (MOST_RANGES + 1) * below)
}

/// Appends a subtree for `ranges` to `nodes` and returns the index of its root.
fn add(ranges: &[RangeEntry], levels: u32, nodes: &mut Vec<Node>) -> usize {
    let number = nodes.len();
    nodes.push(Node { ranges: Vec::new(), below: Vec::new() });
    if levels == 0 {
        nodes[number].ranges = ranges.to_vec();
        return number;
    }
    // One range separates two adjacent subtrees. The other ranges are divided evenly among the
    // subtrees.
    let trees = (ranges.len() + 1).div_ceil(capacity(levels - 1) + 1).max(2);
    let mut rest = ranges;
    for tree in 0..trees {
        let size = (rest.len() + 1).div_ceil(trees - tree) - 1;
        let below = add(&rest[..size], levels - 1, nodes);
        nodes[number].below.push(below);
        if let Some((between, after)) = rest[size..].split_first() {
            nodes[number].ranges.push(*between);
            rest = after;
        }
    }
    number
}

/// Finds the range that contains `page` as the hardware does: by bisection in each node, reading
/// cache lines. `None` if no range contains it.
///
/// # Errors
/// [`WalkFault`] if the host does not back a guest's node.
pub(super) fn search(
    memory: &TableMemory,
    root: Frame,
    page: VirtualPage,
    walker: &mut Walker<'_>,
) -> Result<Option<RangeEntry>, WalkFault> {
    let mut frame = root;
    loop {
        let located = walker.locate(frame)?.located;
        let mut reader = Reader { memory, frame, located, line: None, walker };
        let header = reader.word(0);
        let (mut low, mut high) = (0, (header & (HAS_BELOW - 1)) as usize);
        while low < high {
            let middle = (low + high) / 2;
            match reader.compare(middle, page) {
                Ordering::Less => high = middle,
                Ordering::Equal => return Ok(Some(reader.range(middle))),
                Ordering::Greater => low = middle + 1,
            }
        }
        if header & HAS_BELOW == 0 {
            return Ok(None);
        }
        frame = Frame::new(reader.word(BELOW + low));
    }
}

/// Reader of words of one node. The walker reads a cache line only if it differs from the previous
/// one.
struct Reader<'a, 'b> {
    memory: &'a TableMemory,
    frame: Frame,
    located: Frame,
    line: Option<u64>,
    walker: &'a mut Walker<'b>,
}

impl Reader<'_, '_> {
    fn word(&mut self, index: usize) -> u64 {
        let offset = 8 * index as u64;
        let line = offset - offset % LINE_BYTES;
        if self.line.replace(line) != Some(line) {
            let address: PhysicalAddress = self.located.address().add(line);
            self.walker.read(Purpose::OwnTable, address);
        }
        self.memory.word(self.frame.address().add(offset))
    }

    /// Compares `page` with range `index` of the node: less if the page is before the range, equal
    /// if inside, greater if after it.
    fn compare(&mut self, index: usize, page: VirtualPage) -> Ordering {
        if page.number() < self.word(1 + 3 * index) {
            Ordering::Less
        } else if page.number() < self.word(2 + 3 * index) {
            Ordering::Equal
        } else {
            Ordering::Greater
        }
    }

    fn range(&mut self, index: usize) -> RangeEntry {
        let [start, end, bits] = [1, 2, 3].map(|word| self.word(word + 3 * index));
        let entry = PageTableEntry::from_bits(bits);
        RangeEntry { start, end, frame: entry.frame(), permissions: entry.permissions() }
    }
}
