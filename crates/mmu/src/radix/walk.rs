//! Walks of the radix tree, divided into functions from which other formats also build their walks.

use perforate_types::{
    AccessKind, Level, PageSize, PageTableEntry, PhysicalAddress, Purpose, VirtualPage,
};

use super::{Radix, entry_in, leaf_size};
use crate::walk::{Cached, Directory, WalkStart, purpose_of};
use crate::{Node, Reach, WalkFault, WalkRequest, Walker, allow};

/// Starting point of a walk.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// Level and node: the root, or the node of a cached entry. The walk next reads this node's
    /// entry for the page.
    Node(Level, Node),
    /// Slot of the page's leaf in the level-2 walk cache, so that no walk is needed.
    Leaf(u32),
}

impl Radix {
    /// Descends from the cached entry or the root to the leaf of the page. Inlined for each kind of walker.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] if an entry on the path is not present; [`WalkFault::Host`] if a
    /// node cannot be located.
    #[inline(always)]
    pub(super) fn walk_by(
        &mut self,
        request: &WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        let start = self.start_walk(request, Directory::Ordinary, walker)?;
        Ok(self.descend(request, start, 1, walker)?.reach())
    }

    /// Finds the level and node at which a walk starts: a walk-cache hit, or the root. For a walk
    /// to a hole, `directory` is [`Directory::Holes`].
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] if the address space has no tables; [`WalkFault::Host`] if the root
    /// cannot be located.
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

    /// Like [`Self::start_walk`], for walk caches that also hold leaves
    /// ([`CapabilityKind::CachedLeaves`](crate::CapabilityKind::CachedLeaves)).
    ///
    /// # Errors
    /// See [`Self::start_walk`].
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

    /// Returns the start of a walk after a walk-cache look-up, whose result is `found`: the node of
    /// the cached entry, or the root after a miss.
    #[inline(always)]
    fn start_at(
        &self,
        request: &WalkRequest,
        found: Option<WalkStart>,
        walker: &mut Walker<'_>,
    ) -> Result<(Level, Node), WalkFault> {
        if let Some(start) = found {
            walker.looked_up(Some(start.slot));
            walker.record_cached_location(start.node);
            return Ok((start.level, start.node));
        }
        walker.looked_up(None);
        let root = self.root(request.space).ok_or(WalkFault::NotMapped)?;
        Ok((self.root_level(), walker.locate(root)?))
    }

    /// Reads the entry of `level` for `page` in `node`, and appends the step. Returns the entry and
    /// its address in the tables' own address space (guest-physical in a guest).
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] if the entry is not present.
    #[inline(always)]
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

    /// Descends from `node` of `level` until it finds a leaf or has read the entry of level
    /// `until`. In the second case, the result is the node of level `until` − 1. Sets accessed bits
    /// on the path. A store also sets the dirty bit of a leaf without holes.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] if an entry on the path is not present; [`WalkFault::Host`] if a
    /// node cannot be located.
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

    /// Follows an entry of `level` that [`Self::read`] returned, and marks it accessed. If it is
    /// not a leaf, locates its node and fills it into the walk cache.
    ///
    /// # Errors
    /// [`WalkFault::Host`] if the node cannot be located.
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
            let marked = self.mark_entry(address, entry, dirtied);
            return Ok(Descent::Leaf(level, marked.of_page(request.page)));
        }
        self.mark_entry(address, entry, false);
        let node = walker.locate(entry.frame())?;
        walker.fill(request, level, Directory::Ordinary, node);
        Ok(Descent::Node(node))
    }
}

/// Result of a descent through the tables.
#[derive(Clone, Copy, Debug)]
pub enum Descent {
    /// The leaf at which the descent ended, with its level. A 4KB leaf has the frame of the
    /// requested page.
    Leaf(Level, PageTableEntry),
    /// The node at which the descent ended; its entries have not been read.
    Node(Node),
}

impl Descent {
    /// Returns the leaf's mapping.
    ///
    /// # Panics
    /// If the descent ended at a node.
    #[inline]
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
