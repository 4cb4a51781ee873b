//! Page-walk caches: non-leaf entries by level (Intel's paging-structure caches). They may also
//! hold level-2 leaf entries of formats with other leaf sizes (G §3.7).

use perforate_types::{GapTolerance, PageSize, SpaceId, TableOperation, Unit, VirtualPage};

use crate::tlb::SetAssociative;
use crate::{CachedContent, CachedEntry, Node, TlbGeometry, WalkCacheConfig};

/// Kind of a cached entry, by the node that it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// An ordinary entry: points to the next node of ordinary pages.
    Ordinary,
    /// A shadow level-2 entry: points to the level-1 node of the holes in a 2MB page (P §IV.B).
    Holes,
}

/// Kind of a cached level-2 leaf entry, in addition to those of [`Directory`]. The cache has the
/// key of a leaf only; the dimension that walks the tables keeps the content.
const LEAF: u64 = 2;

/// The cache of one level; `None` if the machine has no cache for this level.
type Cache = Option<SetAssociative<Node>>;

/// The walk caches of one core. A hit at level *n* yields the node of level *n* − 1.
#[derive(Clone)]
pub struct WalkCaches {
    /// Caches of level-2, level-3 and level-4 entries, in this order.
    caches: [Cache; 3],
    /// First slot number of each cache: the slots of all caches are numbered consecutively.
    first_slots: [usize; 3],
    /// Number of 4KB pages per level-2 leaf, for address spaces without an entry in
    /// `leaf_pages_of`. `None` if level-2 leaves are not cached.
    leaf_pages: Option<u64>,
    /// Number of 4KB pages per level-2 leaf, for address spaces whose control register is set.
    leaf_pages_of: Vec<Option<u64>>,
}

/// Result of a look-up: a leaf, or the node at which the walk starts.
pub(crate) enum Cached {
    /// Slot of a leaf in the unit `WalkCache`.
    Leaf(u32),
    /// Node at which the walk starts.
    Start(WalkStart),
}

/// Start of a walk after a hit in a walk cache.
pub(crate) struct WalkStart {
    /// Level of the node to read next.
    pub(crate) level: u8,
    /// The node to read next.
    pub(crate) node: Node,
    /// Slot of the entry in the unit `WalkCache`.
    pub(crate) slot: u32,
}

/// Returns the key of a cached entry, from its index `number` in the address space, the address
/// space, and its kind.
#[inline]
const fn key(space: SpaceId, number: u64, kind: u64) -> u64 {
    number << 18 | (space.0 as u64) << 2 | kind
}

/// Returns the index in the address space of the entry of `level` that covers `page`.
#[inline]
const fn number(page: VirtualPage, level: u8) -> u64 {
    page.number() >> (9 * (level - 1))
}

impl WalkCaches {
    /// Creates empty caches. `leaf_pages` is the number of 4KB pages that a level-2 leaf covers, if
    /// leaves are cached.
    pub fn new(config: &WalkCacheConfig, leaf_pages: Option<u64>) -> Self {
        let cache = |level| {
            let TlbGeometry { entries, .. } = config.geometry(level);
            (entries > 0).then(|| SetAssociative::new(config.geometry(level)))
        };
        let caches: [Cache; 3] = [cache(2), cache(3), cache(4)];
        let [level2, level3, _] =
            [0, 1, 2].map(|index| caches[index].as_ref().map_or(0, SetAssociative::slots));
        let first_slots = [0, level2, level2 + level3];
        Self { caches, first_slots, leaf_pages, leaf_pages_of: Vec::new() }
    }

    /// Sets the number of 4KB pages per level-2 leaf of `space`. No entry of `space` may be cached
    /// yet.
    pub(crate) fn set_leaf_pages(&mut self, space: SpaceId, pages: u64) {
        let index = usize::from(space.0);
        if self.leaf_pages_of.len() <= index {
            self.leaf_pages_of.resize(index + 1, None);
        }
        self.leaf_pages_of[index] = Some(pages);
    }

    /// Updates the leaf size of an address space after a write to GTPTCR, the register that selects
    /// the format of its page directories (G §3.7). Has no effect for other operations, or if
    /// leaves are not cached.
    pub(crate) fn on_table_operation(&mut self, operation: &TableOperation) {
        if let TableOperation::SetControl { space, control } = *operation
            && self.leaf_pages.is_some()
            && let Ok(Some(mode)) = GapTolerance::from_control(control)
        {
            self.set_leaf_pages(space, mode.entry_pages());
        }
    }

    #[inline]
    fn leaf_pages(&self, space: SpaceId) -> Option<u64> {
        let own = self.leaf_pages_of.get(usize::from(space.0)).copied().flatten();
        own.or(self.leaf_pages)
    }

    /// Returns the set index of `page` in the cache of `level`. If level-2 leaves are cached, the
    /// index at level 2 is that of the larger of leaf and page table. So both are in one set, and
    /// one look-up finds either.
    #[inline]
    fn index(&self, space: SpaceId, page: VirtualPage, level: u8) -> u64 {
        match self.leaf_pages {
            Some(_) if level == 2 => {
                let pages = self.leaf_pages(space).unwrap_or(0).max(PageSize::Size2M.pages());
                page.number() >> pages.ilog2()
            }
            _ => number(page, level),
        }
    }

    /// Number of slots of all caches together.
    pub fn slots(&self) -> usize {
        self.caches.iter().flatten().map(SetAssociative::slots).sum()
    }

    #[inline]
    fn slot(&self, level: u8, slot: usize) -> u32 {
        (self.first_slots[usize::from(level) - 2] + slot) as u32
    }

    /// Looks up the cached entry after which the walk for `page` needs the fewest reads. `None` if
    /// all levels miss. For a walk to a hole, `directory` is [`Directory::Holes`]; it applies to
    /// level 2 only.
    #[inline(always)]
    pub(crate) fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        directory: Directory,
    ) -> Option<WalkStart> {
        let mut start = self.look_up_level(2, space, page, directory);
        if start.is_none() {
            start = self.look_up_level(3, space, page, Directory::Ordinary);
        }
        if start.is_none() { self.look_up_level4(space, page) } else { start }
    }

    #[cold]
    #[inline(never)]
    fn look_up_level4(&mut self, space: SpaceId, page: VirtualPage) -> Option<WalkStart> {
        self.look_up_level(4, space, page, Directory::Ordinary)
    }

    #[inline(always)]
    fn look_up_level(
        &mut self,
        level: u8,
        space: SpaceId,
        page: VirtualPage,
        kind: Directory,
    ) -> Option<WalkStart> {
        let set = self.index(space, page, level);
        let cache = self.caches[usize::from(level) - 2].as_mut()?;
        let slot = cache.look_up_again(set, key(space, number(page, level), kind as u64))?;
        let node = cache.value(slot);
        Some(WalkStart { level: level - 1, node, slot: self.slot(level, slot) })
    }

    /// Caches the entry of `level` that covers `page` and points to `node`. The preceding look-up
    /// must have missed. Returns the slot, or `None` if the machine has no cache for this level.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        level: u8,
        directory: Directory,
        node: Node,
    ) -> Option<u32> {
        let (cache, first_slot, set, key) = self.place((space, page), level, directory)?;
        Some((first_slot + cache.insert_absent(set, key, node)) as u32)
    }

    /// Like [`Self::fill`], for an entry that was not looked up and may be cached already.
    pub(crate) fn fill_again(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        level: u8,
        directory: Directory,
        node: Node,
    ) -> Option<u32> {
        let (cache, first_slot, set, key) = self.place((space, page), level, directory)?;
        Some((first_slot + cache.insert(set, key, node)) as u32)
    }

    /// Returns the cache of `level` with its first slot number, and the set index and key of an
    /// entry for `page`.
    #[inline(always)]
    fn place(
        &mut self,
        (space, page): (SpaceId, VirtualPage),
        level: u8,
        directory: Directory,
    ) -> Option<(&mut SetAssociative<Node>, usize, u64, u64)> {
        let set = self.index(space, page, level);
        // Entries of level 5 are not cached.
        let index = Some(usize::from(level) - 2).filter(|&index| index < self.caches.len())?;
        let key = key(space, number(page, level), directory as u64);
        Some((self.caches[index].as_mut()?, self.first_slots[index], set, key))
    }

    /// Key of the leaf that covers `page`, if leaves are cached.
    #[inline]
    fn leaf_key(&self, space: SpaceId, page: VirtualPage) -> Option<u64> {
        Some(key(space, page.number() / self.leaf_pages(space)?, LEAF))
    }

    /// Looks up the leaf that covers `page`, or else the cached entry after which its walk needs
    /// the fewest reads.
    #[inline]
    pub(crate) fn look_up_either(&mut self, space: SpaceId, page: VirtualPage) -> Option<Cached> {
        let set = self.index(space, page, 2);
        if let (Some(leaf), Some(cache)) = (self.leaf_key(space, page), &mut self.caches[0])
            && let Some(slot) = cache.look_up_again(set, leaf)
        {
            return Some(Cached::Leaf(self.slot(2, slot)));
        }
        self.look_up(space, page, Directory::Ordinary).map(Cached::Start)
    }

    /// Allocates a slot for the leaf that covers `page`, whose look-up missed. Returns `None` if
    /// the machine does not cache such entries.
    pub(crate) fn fill_leaf(&mut self, space: SpaceId, page: VirtualPage) -> Option<u32> {
        let (set, key) = (self.index(space, page, 2), self.leaf_key(space, page)?);
        let slot = self.caches[0].as_mut()?.insert_absent(set, key, Node::default());
        Some(self.slot(2, slot))
    }

    /// Marks the cached leaf for `page` as most recently used, if there is one, because a write to
    /// a leaf counts as a use.
    #[inline]
    pub(crate) fn write_leaf(&mut self, space: SpaceId, page: VirtualPage) {
        let set = self.index(space, page, 2);
        if let (Some(key), Some(cache)) = (self.leaf_key(space, page), &mut self.caches[0]) {
            cache.look_up_again(set, key);
        }
    }

    /// Invalidates every entry that covers `page`.
    pub(crate) fn invalidate(&mut self, space: SpaceId, page: VirtualPage) {
        for level in 2..=4 {
            let set = self.index(space, page, level);
            if let Some(cache) = &mut self.caches[usize::from(level) - 2] {
                let number = number(page, level);
                for kind in [Directory::Ordinary, Directory::Holes] {
                    cache.invalidate(set, key(space, number, kind as u64));
                }
            }
        }
        let set = self.index(space, page, 2);
        if let (Some(key), Some(cache)) = (self.leaf_key(space, page), &mut self.caches[0]) {
            cache.invalidate(set, key);
        }
    }

    /// Invalidates every entry that covers one of the `pages` 4KB pages from `page` on.
    pub(crate) fn invalidate_range(&mut self, space: SpaceId, page: VirtualPage, pages: u64) {
        for index in (0..pages).step_by(PageSize::Size2M.pages() as usize) {
            self.invalidate(space, page.add(index));
        }
    }

    /// Invalidates every entry of `space`.
    pub(crate) fn invalidate_space(&mut self, space: SpaceId) {
        for cache in self.caches.iter_mut().flatten() {
            cache.invalidate_if(|key| (key >> 2) as u16 == space.0);
        }
    }

    /// Appends all entries of the walk caches to `out`.
    pub(crate) fn inspect(&self, (core, unit): (usize, Unit), out: &mut Vec<CachedEntry>) {
        for (index, cache) in self.caches.iter().enumerate() {
            let level = index as u8 + 2;
            for (slot, key, node) in cache.iter().flat_map(SetAssociative::iter_slots) {
                let place = cache.as_ref().map_or((0, 0), |cache| cache.place(slot));
                let (number, space) = (key >> 18, SpaceId((key >> 2) as u16));
                let node_of = |directory| CachedContent::Node { level, directory, node };
                let (pages, content) = match key & 3 {
                    LEAF => (self.leaf_pages(space).unwrap_or(0), CachedContent::Leaf),
                    kind if kind == Directory::Holes as u64 => (512, node_of(Directory::Holes)),
                    _ => (1 << (9 * (level - 1)), node_of(Directory::Ordinary)),
                };
                out.push(CachedEntry {
                    core,
                    unit,
                    slot: self.slot(level, slot),
                    place: (index, place.0, place.1),
                    space,
                    is_guest_physical: unit == Unit::HostWalkCache,
                    first: VirtualPage::new(number * pages),
                    pages,
                    content,
                });
            }
        }
    }

    /// Invalidates all entries of all levels.
    pub(crate) fn flush(&mut self) {
        for cache in self.caches.iter_mut().flatten() {
            cache.invalidate_if(|_| true);
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::Frame;

    use super::*;

    fn node(frame: u64) -> Node {
        Node { frame: Frame::new(frame), located: Frame::new(frame) }
    }

    #[test]
    fn a_hit_at_level_n_leaves_n_minus_1_reads() {
        let config = WalkCacheConfig::fully_associative(2, 4, 24);
        let (space, page) = (SpaceId(1), VirtualPage::new(0x7_f000_1234));
        for level in 2..=4 {
            let mut caches = WalkCaches::new(&config, None);
            assert!(caches.look_up(space, page, Directory::Ordinary).is_none());
            caches.fill(space, page, level, Directory::Ordinary, node(9)).unwrap();
            let start = caches.look_up(space, page, Directory::Ordinary).unwrap();
            assert_eq!((start.level, start.node), (level - 1, node(9)));
            assert!(caches.look_up(SpaceId(2), page, Directory::Ordinary).is_none());
            caches.invalidate_space(SpaceId(1));
            assert!(caches.look_up(space, page, Directory::Ordinary).is_none());
        }
    }

    /// 8 entries in 4 ways are 2 sets, for tables of even and odd 2MB regions.
    #[test]
    fn sets_are_selected_by_the_number_of_the_region() {
        let config =
            WalkCacheConfig { level2_entries: 8, level2_ways: Some(4), ..WalkCacheConfig::NONE };
        let mut caches = WalkCaches::new(&config, None);
        let (space, region) = (SpaceId(1), |number: u64| VirtualPage::new(number * 512));
        let is_held = |caches: &mut WalkCaches, number| {
            caches.look_up(space, region(number), Directory::Ordinary).is_some()
        };
        for number in [0, 2, 4, 6, 1] {
            caches.fill(space, region(number), 2, Directory::Ordinary, node(number)).unwrap();
        }
        assert!(is_held(&mut caches, 0), "it is used, so 2 is the oldest of the even ones");
        caches.fill(space, region(8), 2, Directory::Ordinary, node(8)).unwrap();
        let held = [0, 1, 2, 4, 6, 8].map(|number| is_held(&mut caches, number));
        assert_eq!(held, [true, true, false, true, true, true]);
        caches.invalidate(space, region(8));
        assert!(!is_held(&mut caches, 8));
    }

    /// A 4MB leaf and the two tables of the same 4MB compete in one set. So do two 1MB leaves and
    /// the table of the same 2MB.
    #[test]
    fn a_leaf_and_the_tables_of_the_same_memory_lie_in_one_set() {
        for (leaf_pages, first, next) in [(1024, 512, 1024), (256, 256, 512)] {
            let config = WalkCacheConfig {
                level2_entries: 2,
                level2_ways: Some(1),
                ..WalkCacheConfig::NONE
            };
            let mut caches = WalkCaches::new(&config, Some(leaf_pages));
            let (space, page) = (SpaceId(1), VirtualPage::new);
            caches.fill_leaf(space, page(0)).unwrap();
            caches.fill_leaf(space, page(next)).unwrap();
            assert!(matches!(caches.look_up_either(space, page(0)), Some(Cached::Leaf(_))));
            caches.fill(space, page(first), 2, Directory::Ordinary, node(9)).unwrap();
            assert!(matches!(caches.look_up_either(space, page(next)), Some(Cached::Leaf(_))));
            assert!(caches.look_up(space, page(first), Directory::Ordinary).is_some());
            caches.invalidate(space, page(first));
            assert!(caches.look_up(space, page(first), Directory::Ordinary).is_none());
            assert!(caches.look_up_either(space, page(0)).is_none(), "its place was taken");
        }
    }

    /// Two leaves of 4MB fill the cache. The one that was written last stays when a third comes.
    #[test]
    fn a_write_to_a_leaf_is_a_use_of_its_entry() {
        let config = WalkCacheConfig::fully_associative(0, 0, 2);
        for (written, kept) in [(None, [false, true]), (Some(0), [true, false])] {
            let mut caches = WalkCaches::new(&config, Some(1024));
            let (space, page) = (SpaceId(1), |leaf: u64| VirtualPage::new(leaf * 1024 + 700));
            for leaf in 0..2 {
                caches.fill_leaf(space, page(leaf)).unwrap();
            }
            // A write to a leaf that is not cached, and one of another space, are no uses.
            caches.write_leaf(space, page(5));
            caches.write_leaf(SpaceId(2), page(0));
            if let Some(leaf) = written {
                caches.write_leaf(space, page(leaf));
            }
            caches.fill_leaf(space, page(2)).unwrap();
            let held = [0, 1].map(|leaf| {
                matches!(caches.look_up_either(space, page(leaf)), Some(Cached::Leaf(_)))
            });
            assert_eq!(held, kept, "{written:?} written");
        }
    }

    #[test]
    fn a_shadow_entry_is_no_start_for_an_ordinary_walk() {
        let config = WalkCacheConfig::fully_associative(0, 0, 24);
        let mut caches = WalkCaches::new(&config, None);
        let (space, page) = (SpaceId(1), VirtualPage::new(512));
        caches.fill(space, page, 2, Directory::Holes, node(9));
        assert!(caches.look_up(space, page, Directory::Ordinary).is_none());
        assert!(caches.look_up(space, page, Directory::Holes).is_some());
        assert!(caches.fill(space, page, 4, Directory::Ordinary, node(1)).is_none());
    }

    #[test]
    fn fill_again_replaces_an_entry_in_place() {
        let config = WalkCacheConfig::fully_associative(0, 0, 4);
        let mut caches = WalkCaches::new(&config, None);
        let (space, page) = (SpaceId(1), VirtualPage::new(512));
        let fill = |caches: &mut WalkCaches, page| {
            caches.fill_again(space, page, 2, Directory::Holes, node(9))
        };
        let slot = fill(&mut caches, page);
        fill(&mut caches, page.add(512));
        assert_eq!(fill(&mut caches, page), slot);
        caches.invalidate(space, page);
        assert!(caches.look_up(space, page, Directory::Holes).is_none(), "held once");
        assert!(caches.look_up(space, page.add(512), Directory::Holes).is_some());
    }
}
