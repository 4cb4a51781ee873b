//! Walks down the tree, in the pieces of which walks of other formats are made too.

use perforate_types::{
    AccessKind, Level, PageSize, PageTableEntry, PhysicalAddress, Purpose, VirtualPage,
};

use super::{ROOT, Radix, entry_in, leaf_size};
use crate::walk::{Cached, Directory, WalkStart, purpose_of};
use crate::{Node, Reach, WalkFault, WalkRequest, Walker, allow};

/// Where a walk starts.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// At the entry for the page in this node, which is of this level: the root, or the node of a
    /// cached entry.
    Node(Level, Node),
    /// Nowhere: the walk cache of level-2 entries has a leaf for the page in this slot.
    Leaf(u32),
}

impl Radix {
    /// Finds where a walk starts, level and node: at a walk-cache hit, or at the root. For a walk
    /// to a hole, `directory` is [`Directory::Holes`].
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] in an address space without tables, and where the root cannot be
    /// located.
    #[inline(always)]
    pub fn start_walk(
        &self,
        request: &WalkRequest,
        directory: Directory,
        walker: &mut Walker<'_>,
    ) -> Result<(Level, Node), WalkFault> {
        let found = walker.caches.look_up(request.space, request.page, directory);
        self.start_at(request, found, walker)
    }

    /// As [`Self::start_walk`], where the walk caches hold leaves as well
    /// ([`Wanted::CachedLeaves`](crate::Wanted::CachedLeaves)).
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn start_walk_or_leaf(
        &self,
        request: &WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Start, WalkFault> {
        let found = match walker.caches.look_up_either(request.space, request.page) {
            Some(Cached::Leaf(slot)) => {
                walker.looked_up(Some(slot));
                return Ok(Start::Leaf(slot));
            }
            Some(Cached::Start(start)) => Some(start),
            None => None,
        };
        let (level, node) = self.start_at(request, found, walker)?;
        Ok(Start::Node(level, node))
    }

    /// Where a walk starts, given what the walk caches have.
    #[inline(always)]
    fn start_at(
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
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] where the entry is not present.
    #[inline]
    pub fn read(
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
    /// is known. Sets accessed bits on the way, and for a store the dirty bit of the leaf, unless
    /// it has holes.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] where an entry on the way is not present, and where a node cannot
    /// be located.
    #[inline(always)]
    pub fn descend(
        &mut self,
        request: &WalkRequest,
        (mut level, mut node): (Level, Node),
        until: Level,
        walker: &mut Walker<'_>,
    ) -> Result<Descent, WalkFault> {
        while level >= until {
            let read = self.read(node, (level, request.page), purpose_of(level), walker)?;
            match self.follow(request, level, read, walker)? {
                Descent::Node(next) => node = next,
                leaf @ Descent::Leaf(..) => return Ok(leaf),
            }
            level -= 1;
        }
        Ok(Descent::Node(node))
    }

    /// Goes on from an entry of `level` that [`Self::read`] returned: marks it, and locates the node
    /// to which it points if it is no leaf.
    ///
    /// # Errors
    /// [`WalkFault::Host`] where the node cannot be located.
    #[inline(always)]
    pub fn follow(
        &mut self,
        request: &WalkRequest,
        level: Level,
        (address, entry): (PhysicalAddress, PageTableEntry),
        walker: &mut Walker<'_>,
    ) -> Result<Descent, WalkFault> {
        if level == 1 || entry.is_large() {
            let has_holes = level == 2 && entry.filter() != 0;
            let dirtied =
                request.write && entry.permissions().allow(AccessKind::Write) && !has_holes;
            return Ok(Descent::Leaf(level, self.mark_entry(address, entry, dirtied)));
        }
        self.mark_entry(address, entry, false);
        let node = walker.locate(entry.frame())?;
        walker.fill(request, level, Directory::Ordinary, node);
        Ok(Descent::Node(node))
    }
}

/// Where a descent ended.
#[derive(Clone, Copy, Debug)]
pub enum Descent {
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
    pub fn reach(&self) -> Reach {
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
