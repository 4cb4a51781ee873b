//! Page-walk caches: non-leaf entries by level (Intel's paging-structure caches).

use perforate_types::{SpaceId, VirtualPage};

use crate::set_associative::SetAssociative;
use crate::{Node, TlbGeometry, WalkCacheConfig};

/// Which table a cached level-2 entry points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directory {
    /// The level-1 node of ordinary 4KB pages.
    Ordinary,
    /// The level-1 node of a perforated page's holes, from the shadow entry (P §IV.B).
    Shadow,
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

#[inline]
fn key(space: SpaceId, page: VirtualPage, level: u8, directory: Directory) -> u64 {
    let covered = page.number() >> (9 * (level - 1));
    covered << 17 | u64::from(space.0) << 1 | u64::from(directory == Directory::Shadow)
}

impl WalkCaches {
    /// Empty caches.
    pub fn new(config: &WalkCacheConfig) -> Self {
        let cache = |level| {
            let entries = config.entries(level);
            (entries > 0).then(|| SetAssociative::new(TlbGeometry { entries, ways: entries }))
        };
        let caches: [Cache; 3] = [cache(2), cache(3), cache(4)];
        let [level2, level3, _] =
            [0, 1, 2].map(|index| caches[index].as_ref().map_or(0, SetAssociative::slots));
        Self { caches, first_slots: [0, level2, level2 + level3], latest: [0; 3] }
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
        for level in 2..=4 {
            let kind = if level == 2 { directory } else { Directory::Ordinary };
            let index = usize::from(level) - 2;
            let Some(cache) = &mut self.caches[index] else { continue };
            let key = key(space, page, level, kind);
            if let Some(slot) = cache.look_up_near(self.latest[index], 0, key) {
                self.latest[index] = slot;
                let node = cache.value(slot);
                return Some(WalkStart { level: level - 1, node, slot: self.slot(level, slot) });
            }
        }
        None
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
        let slot = cache.insert_absent(0, key(space, page, level, directory), node);
        Some(self.slot(level, slot))
    }

    /// Forgets every entry that covers `page`.
    pub(crate) fn invalidate(&mut self, space: SpaceId, page: VirtualPage) {
        for level in 2..=4 {
            if let Some(cache) = &mut self.caches[usize::from(level) - 2] {
                cache.invalidate(0, key(space, page, level, Directory::Ordinary));
                cache.invalidate(0, key(space, page, level, Directory::Shadow));
            }
        }
    }

    /// Forgets everything of `space`.
    pub(crate) fn invalidate_space(&mut self, space: SpaceId) {
        for cache in self.caches.iter_mut().flatten() {
            cache.invalidate_if(|key| (key >> 1) as u16 == space.0);
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
            let mut caches = WalkCaches::new(&config);
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
        let mut caches = WalkCaches::new(&config);
        let (space, page) = (SpaceId(1), VirtualPage::new(512));
        caches.fill(space, page, 2, Directory::Shadow, node(9));
        assert!(caches.look_up(space, page, Directory::Ordinary).is_none());
        assert!(caches.look_up(space, page, Directory::Shadow).is_some());
        assert!(caches.fill(space, page, 4, Directory::Ordinary, node(1)).is_none());
    }
}
