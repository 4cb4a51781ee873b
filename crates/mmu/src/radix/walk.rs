//! Walks down the tree.

use perforate_types::{
    AccessKind, Level, PageSize, PageTableEntry, PhysicalAddress, Purpose, VirtualPage,
};

use super::{ROOT, Radix, entry_in, leaf_size};
use crate::walk::{Directory, WalkStart};
use crate::{Node, Reach, WalkFault, WalkRequest, Walker, allow};

/// Purpose of a read of an entry of `level`.
const fn purpose(level: Level) -> Purpose {
    match level {
        4 => Purpose::Level4,
        3 => Purpose::Level3,
        2 => Purpose::Level2,
        _ => Purpose::Level1,
    }
}

impl Radix {
    /// Finds where a walk starts: a walk-cache hit, or the root.
    #[inline(always)]
    pub(crate) fn start_walk(
        &self,
        request: &WalkRequest,
        directory: Directory,
        walker: &mut Walker<'_>,
    ) -> Result<(Level, Node), WalkFault> {
        let found = walker.caches.look_up(request.space, request.page, directory);
        self.start_at(request, found, walker)
    }

    /// Where a walk starts, given what the walk caches have.
    #[inline(always)]
    pub(crate) fn start_at(
        &self,
        request: &WalkRequest,
        found: Option<WalkStart>,
        walker: &mut Walker<'_>,
    ) -> Result<(Level, Node), WalkFault> {
        if let Some(start) = found {
            walker.looked_up(Some(start.slot));
            walker.located_before(start.node);
            return Ok((start.level, start.node));
        }
        walker.looked_up(None);
        let root = self.root(request.space).ok_or(WalkFault::NotMapped)?;
        Ok((ROOT, walker.locate(root)?))
    }

    /// Reads the entry of `level` for `page` in `node` as the walker does; also tells where the
    /// dimension itself has it.
    #[inline]
    pub(crate) fn read(
        &mut self,
        node: Node,
        (level, page): (Level, VirtualPage),
        purpose: Purpose,
        walker: &mut Walker<'_>,
    ) -> Result<(PhysicalAddress, PageTableEntry), WalkFault> {
        walker.read(purpose, entry_in(node.located, level, page));
        let address = entry_in(node.frame, level, page);
        let entry = self.memory.entry(address);
        if entry.is_present() { Ok((address, entry)) } else { Err(WalkFault::NotMapped) }
    }

    /// Walks down from `node` of `level` until a leaf, or until the node of level `until` − 1
    /// is known.
    #[inline(always)]
    pub(crate) fn descend(
        &mut self,
        request: &WalkRequest,
        (mut level, mut node): (Level, Node),
        until: Level,
        walker: &mut Walker<'_>,
    ) -> Result<Descent, WalkFault> {
        while level >= until {
            let (address, entry) =
                self.read(node, (level, request.page), purpose(level), walker)?;
            if level == 1 || entry.is_large() {
                let has_holes = level == 2 && entry.filter() != 0;
                let dirtied =
                    request.write && entry.permissions().allow(AccessKind::Write) && !has_holes;
                return Ok(Descent::Leaf(level, self.mark_entry(address, entry, dirtied)));
            }
            self.mark_entry(address, entry, false);
            node = walker.locate(entry.frame())?;
            fill(request, level, Directory::Ordinary, node, walker);
            level -= 1;
        }
        Ok(Descent::Node(node))
    }
}

/// Where a descent ended.
pub(crate) enum Descent {
    /// At a leaf of this level.
    Leaf(Level, PageTableEntry),
    /// At this node, whose entries were not read.
    Node(Node),
}

impl Descent {
    /// The leaf's reach.
    ///
    /// # Panics
    /// If the descent ended at a node.
    pub(crate) fn reach(&self) -> Reach {
        let Self::Leaf(level, entry) = self else { panic!("the walk ended above the leaf") };
        let size = leaf_size(*level);
        Reach {
            size,
            frame: entry.leaf_frame(size),
            allows: allow::of_leaf(entry.permissions(), entry.is_dirty()),
            filter: if size == PageSize::Size2M { entry.filter() } else { 0 },
        }
    }
}

/// Fills a walk cache with a non-leaf entry just read.
pub(crate) fn fill(
    request: &WalkRequest,
    level: Level,
    directory: Directory,
    node: Node,
    walker: &mut Walker<'_>,
) {
    if let Some(slot) = walker.caches.fill(request.space, request.page, level, directory, node) {
        walker.filled(purpose(level), slot);
    }
}
