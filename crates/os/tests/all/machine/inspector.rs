//! Checks the order of updates: nodes before mappings, shootdowns right after what they are for.

use std::collections::{BTreeMap, BTreeSet};

use perforate_types::{
    HoleSet, Level, MappingChange, PageSize, Shootdown, SpaceId, Update, VirtualPage,
};

/// Which nodes exist and what hangs below them.
#[derive(Default)]
pub struct Inspector {
    /// (space, level, first page, holes) → frame.
    nodes: BTreeMap<(SpaceId, Level, u64, bool), u64>,
    /// Entries in use: (space, level of the node, first page of what the entry covers).
    entries: BTreeMap<(SpaceId, Level, u64), Leaf>,
    /// Allocated and unallocated holes.
    holes: BTreeSet<(SpaceId, u64)>,
    /// Frames of a level-2 node.
    directory_frames: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Leaf {
    Node,
    Page,
    Superpage,
}

fn covered(level: Level) -> u64 {
    1 << (9 * u32::from(level))
}

fn level_of(size: PageSize) -> Level {
    match size {
        PageSize::Size4K => 1,
        PageSize::Size2M => 2,
        PageSize::Size1G => 3,
    }
}

impl Inspector {
    pub fn new(directory_frames: u64) -> Self {
        Self { directory_frames, ..Self::default() }
    }

    pub fn table_frames(&self) -> BTreeSet<u64> {
        let mut frames = BTreeSet::new();
        for (&(_, level, _, _), &frame) in &self.nodes {
            assert!(frames.insert(frame), "frame {frame:#x} is two nodes");
            if level == 2 {
                assert_eq!(frame % self.directory_frames, 0, "a directory is aligned to its size");
                (1..self.directory_frames).for_each(|index| assert!(frames.insert(frame + index)));
            }
        }
        frames
    }

    pub fn inspect(&mut self, updates: &[Update]) {
        for (place, update) in updates.iter().enumerate() {
            let Update::Change(change) = update else { continue };
            let filter_before = self.filter_of(change);
            self.apply(change);
            let filter_changed = filter_before != self.filter_of(change);
            check_mode_switch(change, &updates[place + 1..]);
            // A hole that is mapped anew at once is shot down after both changes.
            let again = matches!(
                (change, updates.get(place + 1)),
                (MappingChange::UnmapHole { page, .. },
                 Some(Update::Change(MappingChange::MapHole { page: same, .. }))) if page == same
            );
            let mut follows: Vec<Shootdown> = Vec::new();
            for update in &updates[place + 1 + usize::from(again)..] {
                let Update::Shootdown(shootdown) = update else { break };
                follows.push(*shootdown);
            }
            for needed in needed(change, filter_before, filter_changed) {
                assert!(follows.contains(&needed), "{change:?} lacks {needed:?}");
            }
        }
    }

    fn filter_of(&self, change: &MappingChange) -> Option<u8> {
        let (space, page) = match *change {
            MappingChange::Punch { space, page } | MappingChange::Patch { space, page } => {
                (space, page.align_down(PageSize::Size2M))
            }
            MappingChange::Unmap { space, page, size: PageSize::Size2M }
            | MappingChange::Protect { space, page, size: PageSize::Size2M, .. } => (space, page),
            _ => return None,
        };
        let first = page.number();
        let holes: HoleSet = self
            .holes
            .range((space, first)..(space, first + 512))
            .map(|&(_, page)| (page - first) as usize)
            .collect();
        Some(holes.filter())
    }

    fn parent(&self, space: SpaceId, level: Level, page: VirtualPage, holes: bool) {
        if level == 4 {
            return;
        }
        let first = if level == 3 { 0 } else { page.number() & !(covered(level + 1) - 1) };
        assert!(
            self.nodes.contains_key(&(space, level + 1, first, false)),
            "no level-{} node above {page:?} (holes {holes})",
            level + 1
        );
    }

    fn apply(&mut self, change: &MappingChange) {
        match *change {
            MappingChange::AddTable { space, level, page, frame, holes } => {
                assert_eq!(page.number() % covered(level), 0, "first page");
                self.parent(space, level, page, holes);
                let key = (space, level, page.number(), holes);
                assert!(self.nodes.insert(key, frame.number()).is_none(), "added twice");
                if !holes {
                    if level == 1 {
                        let region = (space, 2, page.number())..(space, 2, page.number() + 512);
                        assert_eq!(
                            self.entries.range(region).count(),
                            0,
                            "{page:?} has superpages"
                        );
                    }
                    self.attach(space, level + 1, page, Leaf::Node);
                }
            }
            MappingChange::RemoveTable { space, level, page, holes } => {
                let first = page.number();
                assert!(self.nodes.remove(&(space, level, first, holes)).is_some(), "no node");
                let end = first + covered(level);
                if holes {
                    assert_eq!(self.holes.range((space, first)..(space, end)).count(), 0);
                } else {
                    let below = self.entries.range((space, level, first)..(space, level, end));
                    assert_eq!(below.count(), 0, "the node still maps something");
                    self.detach(space, level + 1, page, Leaf::Node);
                }
            }
            MappingChange::Map { space, page, size, .. } => {
                self.leaf_node(space, level_of(size), page, false);
                self.attach(space, level_of(size), page, Leaf::Page);
            }
            MappingChange::Unmap { space, page, size } => {
                self.detach(space, level_of(size), page, Leaf::Page);
                let first = page.number();
                self.holes.retain(|&(of, hole)| {
                    of != space || !(first..first + size.pages()).contains(&hole)
                });
            }
            MappingChange::Perforate { space, page, holes, .. } => {
                self.leaf_node(space, 2, page, false);
                self.leaf_node(space, 1, page, true);
                self.attach(space, 2, page, Leaf::Page);
                self.holes.extend(holes.iter().map(|i| (space, page.number() + i as u64)));
            }
            MappingChange::Punch { space, page } => {
                self.leaf_node(space, 1, page, true);
                self.holes.insert((space, page.number()));
            }
            MappingChange::Patch { space, page } => {
                self.holes.remove(&(space, page.number()));
            }
            MappingChange::Segment { .. }
            | MappingChange::ClearSegment { .. }
            | MappingChange::Escape { .. }
            | MappingChange::Protect { .. }
            | MappingChange::MapHole { .. }
            | MappingChange::UnmapHole { .. } => {}
            MappingChange::MapSuperpage { space, page, mode, .. } => {
                self.leaf_node(space, 2, page, false);
                let region = page.align_down(PageSize::Size2M).number();
                let end = page.number() + mode.entry_pages();
                let beside = self.entries.range((space, 2, region)..(space, 2, end));
                let is_node = |(_, leaf): (&_, &Leaf)| *leaf == Leaf::Node;
                assert!(!beside.into_iter().any(is_node), "a node in the place of {page:?}");
                self.attach(space, 2, page, Leaf::Superpage);
            }
            MappingChange::UnmapSuperpage { space, page, .. } => {
                self.detach(space, 2, page, Leaf::Superpage);
            }
            MappingChange::ProtectSuperpage { space, page, .. } => {
                assert!(self.entries.get(&(space, 2, page.number())) == Some(&Leaf::Superpage));
            }
        }
    }

    fn leaf_node(&self, space: SpaceId, level: Level, page: VirtualPage, holes: bool) {
        let first = page.number() & !(covered(level) - 1);
        assert!(self.nodes.contains_key(&(space, level, first, holes)), "no node for {page:?}");
    }

    fn attach(&mut self, space: SpaceId, level: Level, page: VirtualPage, leaf: Leaf) {
        let old = self.entries.insert((space, level, page.number()), leaf);
        assert!(old.is_none(), "the entry of {page:?} at level {level} is in use");
    }

    fn detach(&mut self, space: SpaceId, level: Level, page: VirtualPage, leaf: Leaf) {
        let old = self.entries.remove(&(space, level, page.number()));
        assert!(old == Some(leaf), "the entry of {page:?} at level {level}");
    }
}

/// A change of the segment registers or of the escape filter is followed by the flush of its
/// address space; only escapes may come between.
fn check_mode_switch(change: &MappingChange, after: &[Update]) {
    let (MappingChange::Segment { space, .. }
    | MappingChange::ClearSegment { space }
    | MappingChange::Escape { space, .. }) = *change
    else {
        return;
    };
    let is_escape = |update: &&Update| matches!(update, Update::Change(MappingChange::Escape { space: of, .. }) if *of == space);
    let next = after.iter().find(|update| !is_escape(update));
    let flush = Update::Shootdown(Shootdown::Space { space });
    assert_eq!(next, Some(&flush), "{change:?} is not followed by its flush");
}

/// The shootdowns that must follow a change.
fn needed(change: &MappingChange, filter: Option<u8>, filter_changed: bool) -> Vec<Shootdown> {
    match *change {
        MappingChange::Unmap { space, page, size: PageSize::Size4K }
        | MappingChange::Protect { space, page, size: PageSize::Size4K, .. }
        | MappingChange::UnmapHole { space, page } => vec![Shootdown::Page { space, page }],
        MappingChange::Unmap { space, page, size }
        | MappingChange::Protect { space, page, size, .. } => match filter {
            None | Some(0) => vec![Shootdown::Large { space, page, size }],
            Some(_) => vec![Shootdown::Space { space }],
        },
        MappingChange::Punch { space, page } | MappingChange::Patch { space, page } => {
            let mut list = vec![Shootdown::Page { space, page }, Shootdown::Bitmap { space, page }];
            if filter_changed {
                list.push(Shootdown::Large { space, page, size: PageSize::Size2M });
            }
            list
        }
        MappingChange::UnmapSuperpage { space, page, mode }
        | MappingChange::ProtectSuperpage { space, page, mode, .. } => {
            vec![Shootdown::Superpage { space, page, mode }]
        }
        _ => Vec::new(),
    }
}
