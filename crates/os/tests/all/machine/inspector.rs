//! Checks the order of updates: nodes come before mappings, and shootdowns directly after their
//! cause.

use std::collections::{BTreeMap, BTreeSet};

use super::operation;
use perforate_schemes::gap_tolerant::SuperpageOperation;
use perforate_schemes::perforated::{HOLE_BRANCH, PerforatedOperation};
use perforate_schemes::segment::SegmentOperation;
use perforate_types::{
    GapTolerance, HoleSet, Level, PageSize, Shootdown, SpaceId, TableOperation, Update, VirtualPage,
};

/// Existing nodes, and the entries in them.
#[derive(Default)]
pub struct Inspector {
    /// (space, level, first page, branch) → frame of the node.
    nodes: BTreeMap<(SpaceId, Level, u64, u8), u64>,
    /// Entries in use, by space, level of the node, and first page that the entry covers.
    entries: BTreeMap<(SpaceId, Level, u64), Leaf>,
    /// All holes, allocated or not, by space and page.
    holes: BTreeSet<(SpaceId, u64)>,
    /// Number of frames of a level-2 node.
    directory_frames: u64,
    /// Frames of a level-2 node in address spaces that have set their control register.
    directory_frames_of: BTreeMap<SpaceId, u64>,
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
        for (&(space, level, _, _), &frame) in &self.nodes {
            assert!(frames.insert(frame), "frame {frame:#x} is two nodes");
            if level == 2 {
                let own = self.directory_frames_of.get(&space).copied();
                let length = own.unwrap_or(self.directory_frames);
                assert_eq!(frame % length, 0, "a directory is aligned to its size");
                (1..length).for_each(|index| assert!(frames.insert(frame + index)));
            }
        }
        frames
    }

    pub fn inspect(&mut self, updates: &[Update]) {
        for (place, update) in updates.iter().enumerate() {
            if update.operation().is_none() {
                continue;
            }
            let filter_before = self.filter_of(update);
            self.apply(update);
            let filter_changed = filter_before != self.filter_of(update);
            check_mode_switch(update, &updates[place + 1..]);
            // A hole that is remapped at once is shot down after both operations.
            let again = matches!(
                (operation(update), updates.get(place + 1).and_then(operation)),
                (Some(PerforatedOperation::UnmapHole { page, .. }),
                 Some(PerforatedOperation::MapHole { page: same, .. })) if page == same
            );
            let mut follows: Vec<Shootdown> = Vec::new();
            for update in &updates[place + 1 + usize::from(again)..] {
                let Update::Shootdown(shootdown) = update else { break };
                follows.push(*shootdown);
            }
            for needed in needed(update, filter_before, filter_changed) {
                assert!(follows.contains(&needed), "{update:?} lacks {needed:?}");
            }
        }
    }

    fn filter_of(&self, update: &Update) -> Option<u8> {
        let (space, page) = match (operation(update), operation(update)) {
            (
                Some(
                    PerforatedOperation::Punch { space, page }
                    | PerforatedOperation::Patch { space, page },
                ),
                _,
            ) => (*space, page.align_down(PageSize::Size2M)),
            (
                _,
                Some(
                    TableOperation::Unmap { space, page, size: PageSize::Size2M }
                    | TableOperation::Protect { space, page, size: PageSize::Size2M, .. },
                ),
            ) => (*space, *page),
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

    fn parent(&self, space: SpaceId, level: Level, page: VirtualPage, branch: u8) {
        let root = if self.nodes.contains_key(&(space, 5, 0, 0)) { 5 } else { 4 };
        if level >= root {
            return;
        }
        let first = if level == root - 1 { 0 } else { page.number() & !(covered(level + 1) - 1) };
        assert!(
            self.nodes.contains_key(&(space, level + 1, first, 0)),
            "no level-{} node above {page:?} (branch {branch})",
            level + 1
        );
    }

    fn apply(&mut self, update: &Update) {
        if let Some(table) = operation(update) {
            self.apply_table(*table);
        } else if let Some(perforated) = operation(update) {
            self.apply_perforated(*perforated);
        } else if let Some(superpage) = operation(update) {
            self.apply_superpage(*superpage);
        }
    }

    fn apply_table(&mut self, operation: TableOperation) {
        match operation {
            TableOperation::SetControl { space, control } => {
                let root = (space, 4, 0, 0);
                assert!(!self.nodes.contains_key(&root), "the register comes before the tables");
                let mode = GapTolerance::from_control(control).expect("a mode of G Table 3");
                let frames = mode.expect("it is on").directory_bytes() / 4096;
                self.directory_frames_of.insert(space, frames);
            }
            TableOperation::AddNode { space, level, page, frame, branch } => {
                assert_eq!(page.number() % covered(level), 0, "first page");
                self.parent(space, level, page, branch);
                let key = (space, level, page.number(), branch);
                assert!(self.nodes.insert(key, frame.number()).is_none(), "added twice");
                if branch == 0 {
                    if level == 1 {
                        let region = (space, 2, page.number())..(space, 2, page.number() + 512);
                        let superpages = self.entries.range(region).count();
                        assert_eq!(superpages, 0, "{page:?} has superpages");
                    }
                    self.attach(space, level + 1, page, Leaf::Node);
                }
            }
            TableOperation::RemoveNode { space, level, page, branch } => {
                let first = page.number();
                assert!(self.nodes.remove(&(space, level, first, branch)).is_some(), "no node");
                let end = first + covered(level);
                if branch == HOLE_BRANCH {
                    assert_eq!(self.holes.range((space, first)..(space, end)).count(), 0);
                } else {
                    let below = self.entries.range((space, level, first)..(space, level, end));
                    assert_eq!(below.count(), 0, "the node still maps something");
                    self.detach(space, level + 1, page, Leaf::Node);
                }
            }
            TableOperation::Map { space, page, size, .. } => {
                self.leaf_node(space, level_of(size), page, 0);
                self.attach(space, level_of(size), page, Leaf::Page);
            }
            TableOperation::Unmap { space, page, size } => {
                self.detach(space, level_of(size), page, Leaf::Page);
                let first = page.number();
                self.holes.retain(|&(of, hole)| {
                    of != space || !(first..first + size.pages()).contains(&hole)
                });
            }
            TableOperation::Protect { .. } => {}
            TableOperation::Join { space, page, .. } => {
                assert_eq!(page.number() % 16, 0, "{page:?} begins no 64KB");
                let of = (space, 1, page.number())..(space, 1, page.number() + 16);
                assert_eq!(self.entries.range(of).count(), 16, "{page:?}: not all are mapped");
            }
        }
    }

    fn apply_perforated(&mut self, operation: PerforatedOperation) {
        match operation {
            PerforatedOperation::Perforate { space, page, holes, .. } => {
                self.leaf_node(space, 2, page, 0);
                self.leaf_node(space, 1, page, HOLE_BRANCH);
                self.attach(space, 2, page, Leaf::Page);
                self.holes.extend(holes.iter().map(|i| (space, page.number() + i as u64)));
            }
            PerforatedOperation::Punch { space, page } => {
                self.leaf_node(space, 1, page, HOLE_BRANCH);
                self.holes.insert((space, page.number()));
            }
            PerforatedOperation::Patch { space, page } => {
                self.holes.remove(&(space, page.number()));
            }
            PerforatedOperation::MapHole { .. } | PerforatedOperation::UnmapHole { .. } => {}
        }
    }

    fn apply_superpage(&mut self, operation: SuperpageOperation) {
        match operation {
            SuperpageOperation::Map { space, page, mode, .. } => {
                self.leaf_node(space, 2, page, 0);
                let region = page.align_down(PageSize::Size2M).number();
                let end = page.number() + mode.entry_pages();
                let beside = self.entries.range((space, 2, region)..(space, 2, end));
                let is_node = |(_, leaf): (&_, &Leaf)| *leaf == Leaf::Node;
                assert!(!beside.into_iter().any(is_node), "a node in the place of {page:?}");
                self.attach(space, 2, page, Leaf::Superpage);
            }
            SuperpageOperation::Unmap { space, page, .. } => {
                self.detach(space, 2, page, Leaf::Superpage);
            }
            SuperpageOperation::Protect { space, page, .. } => {
                assert!(self.entries.get(&(space, 2, page.number())) == Some(&Leaf::Superpage));
            }
        }
    }

    fn leaf_node(&self, space: SpaceId, level: Level, page: VirtualPage, branch: u8) {
        let first = page.number() & !(covered(level) - 1);
        assert!(self.nodes.contains_key(&(space, level, first, branch)), "no node for {page:?}");
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

/// A change of the segment registers or of the escape filter must be followed by the flush of its
/// address space; only escapes may come between.
fn check_mode_switch(update: &Update, after: &[Update]) {
    let Some(
        SegmentOperation::Set { space, .. }
        | SegmentOperation::Clear { space }
        | SegmentOperation::Escape { space, .. },
    ) = operation(update)
    else {
        return;
    };
    let is_escape = |update: &&Update| matches!(operation(update), Some(SegmentOperation::Escape { space: of, .. }) if of == space);
    let next = after.iter().find(|update| !is_escape(update));
    let flush = Update::Shootdown(Shootdown::Space { space: *space });
    assert_eq!(next, Some(&flush), "{update:?} is not followed by its flush");
}

/// Shootdowns that must follow an operation.
fn needed(update: &Update, filter: Option<u8>, filter_changed: bool) -> Vec<Shootdown> {
    if let Some(table) = operation(update) {
        return needed_by_table(*table, filter);
    }
    if let Some(perforated) = operation(update) {
        return needed_by_perforated(*perforated, filter_changed);
    }
    match operation(update) {
        Some(
            &SuperpageOperation::Unmap { space, page, mode }
            | &SuperpageOperation::Protect { space, page, mode, .. },
        ) => vec![Shootdown::Superpage { space, page, mode }],
        _ => Vec::new(),
    }
}

fn needed_by_table(operation: TableOperation, filter: Option<u8>) -> Vec<Shootdown> {
    match operation {
        TableOperation::Unmap { space, page, size: PageSize::Size4K }
        | TableOperation::Protect { space, page, size: PageSize::Size4K, .. } => {
            vec![Shootdown::Page { space, page }]
        }
        TableOperation::Unmap { space, page, size }
        | TableOperation::Protect { space, page, size, .. } => match filter {
            None | Some(0) => vec![Shootdown::Large { space, page, size }],
            Some(_) => vec![Shootdown::Space { space }],
        },
        _ => Vec::new(),
    }
}

fn needed_by_perforated(operation: PerforatedOperation, filter_changed: bool) -> Vec<Shootdown> {
    match operation {
        PerforatedOperation::UnmapHole { space, page } => vec![Shootdown::Page { space, page }],
        PerforatedOperation::Punch { space, page } | PerforatedOperation::Patch { space, page } => {
            let mut list = vec![Shootdown::Page { space, page }, Shootdown::Bitmap { space, page }];
            if filter_changed {
                list.push(Shootdown::Large { space, page, size: PageSize::Size2M });
            }
            list
        }
        _ => Vec::new(),
    }
}
