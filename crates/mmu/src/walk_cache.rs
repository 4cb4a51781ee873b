//! Page-walk caches: non-leaf entries by level (Intel's paging-structure caches), and gap-tolerant
//! level-2 entries, which are leaves (G §3.7).

use perforate_types::{GapTolerance, PageSize, SpaceId, VirtualPage};

use crate::gap_tolerant::LoadedEntry;
use crate::set_associative::SetAssociative;
use crate::{Node, TlbGeometry, WalkCacheConfig};

/// What a cached level-2 entry is: the table that it points to, or a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directory {
    /// The level-1 node of ordinary 4KB pages.
    Ordinary,
    /// The level-1 node of a perforated page's holes, from the shadow entry (P §IV.B).
    Shadow,
    /// None: it is a gap-tolerant entry (G §3.3).
    GapTolerant,
}

/// What level-2 entries need besides where gap-tolerant ones are among them.
struct Superpages {
    mode: GapTolerance,
    /// By slot of level 2; of use where the slot's key is one of a gap-tolerant entry.
    entries: Box<[LoadedEntry]>,
}

impl Superpages {
    /// Number of the entry that covers `page`, counted over the address space.
    #[inline]
    fn number(&self, page: VirtualPage) -> u64 {
        page.number() / self.mode.entry_pages()
    }
}

/// A level, fully associative. `None` where the machine has no such cache.
type Cache = Option<SetAssociative<Node>>;

/// The walk caches of one core. A hit at level *n* yields the node of level *n* − 1.
pub struct WalkCaches {
    /// Caches of level-2, level-3 and level-4 entries.
    caches: [Cache; 3],
    /// First slot of each.
    first_slots: [usize; 3],
    /// Where each was hit last.
    latest: [usize; 3],
    superpages: Option<Superpages>,
}

/// The gap-tolerant entry or the cached start of a walk that a look-up found.
pub(crate) enum Cached {
    /// A leaf, with its slot in the unit `WalkCache`.
    Superpage(u32, LoadedEntry),
    /// A node.
    Start(WalkStart),
}

/// What a look-up found.
pub(crate) struct WalkStart {
    /// Level of the node to read next.
    pub(crate) level: u8,
    /// That node.
    pub(crate) node: Node,
    /// Slot of the entry in the unit `WalkCache`.
    pub(crate) slot: u32,
}

/// Key of the entry of that kind that is the `number`-th of its address space.
#[inline]
const fn key(space: SpaceId, number: u64, kind: Directory) -> u64 {
    number << 18 | (space.0 as u64) << 2 | kind as u64
}

/// Number of the entry of `level` that covers `page`.
#[inline]
const fn number(page: VirtualPage, level: u8) -> u64 {
    page.number() >> (9 * (level - 1))
}

impl WalkCaches {
    /// Empty caches; `mode` says whether and how page directories hold gap-tolerant entries.
    pub fn new(config: &WalkCacheConfig, mode: Option<GapTolerance>) -> Self {
        let cache = |level| {
            let entries = config.entries(level);
            (entries > 0).then(|| SetAssociative::new(TlbGeometry { entries, ways: entries }))
        };
        let caches: [Cache; 3] = [cache(2), cache(3), cache(4)];
        let [level2, level3, _] =
            [0, 1, 2].map(|index| caches[index].as_ref().map_or(0, SetAssociative::slots));
        let superpages = mode.map(|mode| {
            let entries = vec![LoadedEntry::default(); level2].into();
            Superpages { mode, entries }
        });
        let first_slots = [0, level2, level2 + level3];
        Self { caches, first_slots, latest: [0; 3], superpages }
    }

    /// Number of slots of all levels.
    pub fn slots(&self) -> usize {
        self.caches.iter().flatten().map(SetAssociative::slots).sum()
    }

    #[inline]
    fn slot(&self, level: u8, slot: usize) -> u32 {
        (self.first_slots[usize::from(level) - 2] + slot) as u32
    }

    /// The deepest cached start of a walk for `page`. For a hole's walk, `directory` is
    /// [`Directory::Shadow`] at level 2.
    pub(crate) fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        directory: Directory,
    ) -> Option<WalkStart> {
        let at_level2 = self.look_up_level(2, space, page, directory);
        at_level2.or_else(|| self.look_up_above(space, page))
    }

    /// The deepest cached start of a walk for `page` at level 2 or above.
    #[inline]
    fn look_up_above(&mut self, space: SpaceId, page: VirtualPage) -> Option<WalkStart> {
        (3..=4).find_map(|level| self.look_up_level(level, space, page, Directory::Ordinary))
    }

    #[inline]
    fn look_up_level(
        &mut self,
        level: u8,
        space: SpaceId,
        page: VirtualPage,
        kind: Directory,
    ) -> Option<WalkStart> {
        let index = usize::from(level) - 2;
        let cache = self.caches[index].as_mut()?;
        let key = key(space, number(page, level), kind);
        let slot = cache.look_up_near(self.latest[index], 0, key)?;
        self.latest[index] = slot;
        let node = cache.value(slot);
        Some(WalkStart { level: level - 1, node, slot: self.slot(level, slot) })
    }

    /// Remembers that the entry of `level` covering `page`, which was looked up in vain, points
    /// to `node`. Returns the slot, or `None` where the machine caches no entries of that level.
    pub(crate) fn fill(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        level: u8,
        directory: Directory,
        node: Node,
    ) -> Option<u32> {
        let cache = self.caches[usize::from(level) - 2].as_mut()?;
        let slot = cache.insert_absent(0, key(space, number(page, level), directory), node);
        Some(self.slot(level, slot))
    }

    /// The gap-tolerant entry that covers `page`, or else the deepest cached start of a walk for it.
    #[inline]
    pub(crate) fn look_up_either(&mut self, space: SpaceId, page: VirtualPage) -> Option<Cached> {
        if let (Some(cache), Some(superpages)) = (&mut self.caches[0], &self.superpages) {
            let superpage = key(space, superpages.number(page), Directory::GapTolerant);
            let table = key(space, number(page, 2), Directory::Ordinary);
            if let Some(slot) = cache.look_up_either(self.latest[0], 0, [superpage, table]) {
                self.latest[0] = slot;
                let (is_superpage, node) = (cache.key(slot) == superpage, cache.value(slot));
                let entry = superpages.entries[slot];
                let slot = self.slot(2, slot);
                return Some(if is_superpage {
                    Cached::Superpage(slot, entry)
                } else {
                    Cached::Start(WalkStart { level: 1, node, slot })
                });
            }
        }
        self.look_up_above(space, page).map(Cached::Start)
    }

    /// Remembers the gap-tolerant entry that covers `page`, which was looked up in vain. Returns the
    /// slot, or `None` where the machine caches no entries of level 2.
    pub(crate) fn fill_superpage(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        entry: LoadedEntry,
    ) -> Option<u32> {
        let (cache, superpages) = (self.caches[0].as_mut()?, self.superpages.as_mut()?);
        let key = key(space, superpages.number(page), Directory::GapTolerant);
        let slot = cache.insert_absent(0, key, Node::default());
        superpages.entries[slot] = entry;
        Some(self.slot(2, slot))
    }

    /// Notes that the leaf that translates `page` is dirty now, if it is held here.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, space: SpaceId, page: VirtualPage) {
        if let (Some(cache), Some(superpages)) = (&mut self.caches[0], &mut self.superpages) {
            let key = key(space, superpages.number(page), Directory::GapTolerant);
            if let Some(slot) = cache.look_up_near(self.latest[0], 0, key) {
                superpages.entries[slot].mark_dirty();
            }
        }
    }

    /// Forgets every entry that covers `page`.
    pub(crate) fn invalidate(&mut self, space: SpaceId, page: VirtualPage) {
        for level in 2..=4 {
            if let Some(cache) = &mut self.caches[usize::from(level) - 2] {
                let number = number(page, level);
                cache.invalidate(0, key(space, number, Directory::Ordinary));
                cache.invalidate(0, key(space, number, Directory::Shadow));
            }
        }
        if let (Some(cache), Some(superpages)) = (&mut self.caches[0], &self.superpages) {
            let number = superpages.number(page);
            cache.invalidate(0, key(space, number, Directory::GapTolerant));
        }
    }

    /// Forgets every entry that covers a page of the gap-tolerant entry of this mode at `page`.
    pub(crate) fn invalidate_superpage(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        mode: GapTolerance,
    ) {
        for index in (0..mode.entry_pages()).step_by(PageSize::Size2M.pages() as usize) {
            self.invalidate(space, page.add(index));
        }
    }

    /// Forgets everything of `space`.
    pub(crate) fn invalidate_space(&mut self, space: SpaceId) {
        for cache in self.caches.iter_mut().flatten() {
            cache.invalidate_if(|key| (key >> 2) as u16 == space.0);
        }
    }

    /// Forgets everything.
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
        let config = WalkCacheConfig { level4_entries: 2, level3_entries: 4, level2_entries: 24 };
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

    #[test]
    fn a_shadow_entry_is_no_start_for_an_ordinary_walk() {
        let config = WalkCacheConfig { level4_entries: 0, level3_entries: 0, level2_entries: 24 };
        let mut caches = WalkCaches::new(&config, None);
        let (space, page) = (SpaceId(1), VirtualPage::new(512));
        caches.fill(space, page, 2, Directory::Shadow, node(9));
        assert!(caches.look_up(space, page, Directory::Ordinary).is_none());
        assert!(caches.look_up(space, page, Directory::Shadow).is_some());
        assert!(caches.fill(space, page, 4, Directory::Ordinary, node(1)).is_none());
    }
}
