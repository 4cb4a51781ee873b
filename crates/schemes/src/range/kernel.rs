//! Operating-system half: eager paging, and the ranges of an address space.

use std::collections::{BTreeMap, VecDeque};
use std::iter::successors;
use std::ops::Range;

use perforate_os::mechanism::{
    AddressSpace, Area, Backed, Backer, Core, Departure, Overlay, OverlayMechanism, Recount,
    SpaceMut, Touch,
};
use perforate_os::{OsError, Policy};
use perforate_types::{AccessKind, Counters, Frame, SpaceId, figures};

use super::table::{RangeEntry, RangeOperation, nodes};

/// Maximum number of pages that eager paging backs in one pass: 1GB. This bounds the number of
/// updates held in memory.
const PIECE_PAGES: u64 = 1 << 18;
/// Limit of the effort to back one area in advance: pages tried, as a multiple of the pages in
/// memory. An area may be far larger than memory, and free memory may not suit it.
const MOST_TRIED: u64 = 8;
/// Number of 4KB pages in a 2MB region.
const REGION_PAGES: u64 = 512;
/// Minimum number of pages in a range.
const LEAST_PAGES: u64 = 2;

/// Policy that backs memory with 4KB pages when it is mapped.
pub(super) struct EagerPaging;

impl Policy for EagerPaging {
    fn name(&self) -> &'static str {
        "range"
    }

    fn backers(&self) -> Vec<Box<dyn Backer>> {
        vec![Box::new(EagerBacker::default())]
    }
}

/// Backs areas with frames when they are created, before they are touched, and adds ranges for
/// their pages.
#[derive(Default)]
struct EagerBacker {
    waiting: VecDeque<Waiting>,
    pages_backed: u64,
}

/// Pages in which areas were created or changed, and that eager paging has not backed yet.
struct Waiting {
    space: SpaceId,
    pages: Range<u64>,
    /// Number of these pages that eager paging has already tried to back.
    tried: u64,
}

impl Backer for EagerBacker {
    /// Maps nothing, because pages are backed in advance. A page for which that failed is left to
    /// the next first-touch handler.
    fn back(&mut self, _: &mut Core, _: &Touch) -> Result<Backed, OsError> {
        Ok(Backed::No)
    }

    fn note_areas(&mut self, space: SpaceId, pages: &Range<u64>) {
        self.waiting.push_back(Waiting { space, pages: pages.clone(), tried: 0 });
    }

    fn has_work(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn proceed(&mut self, core: &mut Core) -> Result<(), OsError> {
        let Some(Waiting { space: id, pages, tried }) = self.waiting.pop_front() else {
            return Ok(());
        };
        let area = core.space(id)?.areas_within(pages.clone()).find(suits);
        let Some(area) = area else { return Ok(()) };
        let gives_up =
            core.is_memory_short() || tried >= MOST_TRIED * core.config.memory_bytes / 4096;
        let most = if gives_up { u64::MAX } else { PIECE_PAGES };
        let piece = area.start..area.end.min(area.start.saturating_add(most));
        if piece.end < pages.end {
            let tried = tried + (piece.end - piece.start);
            let rest = Waiting { space: id, pages: piece.end..pages.end, tried };
            self.waiting.push_front(rest);
        }
        if !gives_up {
            match self.back_piece(core, id, &area, piece.clone()) {
                // The remaining pages are backed at first touch.
                Ok(()) | Err(OsError::OutOfMemory { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let space = &mut core.space_mut(id)?;
        add_ranges(space, piece);
        Ok(())
    }

    fn forget(&mut self, space: SpaceId) {
        self.waiting.retain(|waiting| waiting.space != space);
    }

    fn counters(&self, core: &Core, out: &mut Counters) {
        let tables = || core.live_spaces().filter_map(ranges_of);
        let state = State {
            ranges: tables().map(|ranges| ranges.entries.len() as u64).sum(),
            pages: tables().map(Ranges::pages).sum(),
            nodes: tables().map(|ranges| ranges.nodes.len() as u64).sum(),
            backed: self.pages_backed,
        };
        out.record(RANGES, &state);
    }
}

/// Values of the range counters: the state at one moment, and pages backed since the start.
pub(super) struct State {
    ranges: u64,
    pages: u64,
    nodes: u64,
    backed: u64,
}

figures! {
    pub(super) static RANGES: State, "Ranges" {
        /// Peak number of ranges.
        ranges, Count, Listed: |it| it.ranges;
        /// Peak number of 4KB pages in ranges.
        range_pages, Count, Listed: |it| it.pages;
        /// Peak size of the range tables.
        range_table_bytes, Bytes, Listed: |it| it.nodes * 4096;
        /// Pages that got a frame when the program mapped them, not at the first touch.
        pages_backed_in_advance, Count, Listed: |it| it.backed;
    }
}

/// True if an area is backed in advance, that is, if it is readable private anonymous memory.
fn suits(area: &Area) -> bool {
    let attributes = &area.attributes;
    attributes.is_private_anonymous() && attributes.effective().allow(AccessKind::Read)
}

impl EagerBacker {
    /// Allocates frames for the unmapped pages of an area in the page range `piece`, and maps them.
    fn back_piece(
        &mut self,
        core: &mut Core,
        id: SpaceId,
        area: &Area,
        piece: Range<u64>,
    ) -> Result<(), OsError> {
        let (permissions, large) = (area.attributes.effective(), area.attributes.is_advised());
        let mut next = piece.start;
        while next < piece.end {
            let space = core.space(id)?;
            let end = next_mapped(space, next..piece.end).unwrap_or(piece.end);
            if end == next {
                next += 1;
                continue;
            }
            let backed = core.back_in_advance(id, next..end, permissions, large)?;
            self.pages_backed += backed;
            next = match backed {
                0 => (next / REGION_PAGES + 1) * REGION_PAGES,
                _ => next + backed,
            };
        }
        Ok(())
    }
}

/// Ranges of one address space, and the range-table nodes that store them.
#[derive(Default)]
pub(super) struct Ranges {
    /// Ranges in ascending order, each under its first page.
    entries: BTreeMap<u64, RangeEntry>,
    /// Frame and content of each node of the range table, root first.
    nodes: Vec<(Frame, Box<[u64]>)>,
}

fn ranges_of(space: &AddressSpace) -> Option<&Ranges> {
    space.overlay()?.downcast_ref()
}

/// Splits `pages` by 2MB region, and leaves out regions without a mapping: areas may be far larger
/// than the mapped memory.
fn mapped_parts(space: &AddressSpace, pages: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
    let regions = pages.start / REGION_PAGES..pages.end.div_ceil(REGION_PAGES);
    let first = space.next_region(regions.start);
    let mapped = successors(first, |&region| space.next_region(region + 1));
    mapped.take_while(move |region| regions.contains(region)).map(move |region| {
        let first = region * REGION_PAGES;
        first.max(pages.start)..(first + REGION_PAGES).min(pages.end)
    })
}

/// First mapped page of `pages`; `None` if no page is mapped.
fn next_mapped(space: &AddressSpace, pages: Range<u64>) -> Option<u64> {
    mapped_parts(space, pages).flatten().find(|&page| space.find(page).is_some())
}

/// Adds ranges for the contiguous mappings in `pages` to the address space.
fn add_ranges(space: &mut SpaceMut<'_>, pages: Range<u64>) {
    let found = find_ranges(space, pages);
    if found.is_empty() {
        return;
    }
    if space.overlay().is_none() {
        space.set_overlay(Box::new(Ranges::default()));
    }
    change_ranges(space, |ranges| {
        found.into_iter().for_each(|range| ranges.add(range));
        true
    });
}

/// Changes the ranges of an address space, if it has any. If `change` returns true, writes the
/// changed range-table nodes.
fn change_ranges(space: &mut SpaceMut<'_>, change: impl FnOnce(&mut Ranges) -> bool) {
    let Some(mut overlay) = space.take_overlay() else { return };
    if let Some(ranges) = overlay.downcast_mut::<Ranges>()
        && change(ranges)
    {
        ranges.write(space);
    }
    space.set_overlay(overlay);
}

/// Finds the contiguous mappings in `pages` that have at least [`LEAST_PAGES`] pages.
fn find_ranges(space: &AddressSpace, pages: Range<u64>) -> Vec<RangeEntry> {
    let mut found: Vec<RangeEntry> = Vec::new();
    for page in mapped_parts(space, pages).flatten() {
        let Some(present) = space.find(page) else { continue };
        let Some(frame) = present.frame() else { continue };
        let permissions = present.permissions();
        let single = RangeEntry { start: page, end: page + 1, frame, permissions };
        match found.last_mut() {
            Some(last) if last.is_continued_by(&single) => last.end = single.end,
            _ => found.push(single),
        }
    }
    found.retain(|range| range.end - range.start >= LEAST_PAGES);
    found
}

impl Ranges {
    fn pages(&self) -> u64 {
        self.entries.values().map(|range| range.end - range.start).sum()
    }

    /// Adds a range, which replaces older ranges of its pages, and merges it with neighbours that
    /// are contiguous with it.
    fn add(&mut self, mut range: RangeEntry) {
        self.remove(&range.pages());
        if let Some((&start, before)) = self.entries.range(..range.start).next_back()
            && before.is_continued_by(&range)
        {
            (range.start, range.frame) = (before.start, before.frame);
            self.entries.remove(&start);
        }
        if let Some(&after) = self.entries.get(&range.end)
            && range.is_continued_by(&after)
        {
            self.entries.remove(&after.start);
            range.end = after.end;
        }
        self.entries.insert(range.start, range);
    }

    /// Removes pages from the ranges that contain them. Returns true if any range contained one.
    fn remove(&mut self, pages: &Range<u64>) -> bool {
        let before = self.entries.range(..pages.start).next_back().map(|(&start, _)| start);
        let inside = self.entries.range(pages.clone()).map(|(&start, _)| start);
        let starts: Vec<u64> = before.into_iter().chain(inside).collect();
        let mut is_changed = false;
        for start in starts {
            let range = self.entries[&start];
            if range.end <= pages.start {
                continue;
            }
            is_changed = true;
            self.entries.remove(&start);
            for left in [range.start..pages.start, pages.end..range.end] {
                if left.start < left.end {
                    let part = range.part(left);
                    self.entries.insert(part.start, part);
                }
            }
        }
        is_changed
    }

    /// Writes the range-table nodes that changed. If no memory is available for a node, drops all
    /// ranges; page tables still map the pages.
    fn write(&mut self, space: &mut SpaceMut<'_>) {
        let id = space.id();
        let entries: Vec<RangeEntry> = self.entries.values().copied().collect();
        let mut tree = nodes(&entries);
        let root = self.nodes.first().map(|node| node.0);
        while self.nodes.len() < tree.len() {
            match space.allocate_table() {
                Ok(frame) => self.nodes.push((frame, Box::default())),
                Err(_) => {
                    self.entries.clear();
                    tree.clear();
                }
            }
        }
        let frames: Vec<Frame> = self.nodes.iter().map(|node| node.0).collect();
        for (node, (frame, words)) in tree.iter().zip(&mut self.nodes) {
            let now = node.words(&frames);
            if *words != now {
                words.clone_from(&now);
                space.format(RangeOperation::Node { space: id, frame: *frame, words: now });
            }
        }
        let new_root = frames.first().copied().filter(|_| !tree.is_empty());
        if new_root != root {
            space.format(RangeOperation::Root { space: id, root: new_root });
        }
        for (frame, _) in self.nodes.drain(tree.len()..) {
            space.format(RangeOperation::Clear { space: id, frame });
            space.free_table(frame);
        }
    }
}

/// Removal of pages from the ranges of an address space before their mapping changes.
struct RangeMechanism;

impl OverlayMechanism for RangeMechanism {
    /// Removes pages from their ranges before any change of their mapping.
    fn leave(
        &self,
        space: &mut SpaceMut<'_>,
        pages: &Range<u64>,
        _: Departure,
    ) -> Result<(), OsError> {
        change_ranges(space, |ranges| ranges.remove(pages));
        Ok(())
    }
}

impl Overlay for Ranges {
    fn mechanism(&self) -> &'static dyn OverlayMechanism {
        &RangeMechanism
    }

    fn table_frames(&self) -> u64 {
        self.nodes.len() as u64
    }

    fn check(&self, space: &AddressSpace, recount: &mut Recount) -> Result<(), String> {
        for range in self.entries.values() {
            for page in range.pages() {
                let frame = range.frame.add(page - range.start);
                let found = space.find(page).map(|found| (found.frame(), found.permissions()));
                if found != Some((Some(frame), range.permissions)) {
                    return Err(format!("page {page:#x} of a range is mapped as {found:?}"));
                }
            }
        }
        let entries: Vec<RangeEntry> = self.entries.values().copied().collect();
        let frames: Vec<Frame> = self.nodes.iter().map(|node| node.0).collect();
        let words: Vec<_> = nodes(&entries).iter().map(|node| node.words(&frames)).collect();
        if !words.iter().eq(self.nodes.iter().map(|node| &node.1)) {
            return Err("the range table does not hold the ranges".into());
        }
        frames.into_iter().try_for_each(|frame| recount.hold(frame))
    }
}

#[cfg(test)]
mod tests {
    use perforate_os::{Kernel, KernelConfig};
    use perforate_types::{Backing, Permissions, ProgramEvent, Update, VirtualPage};

    use super::*;

    const SPACE: SpaceId = SpaceId(0);
    const FIRST: u64 = 1 << 18;

    fn map(first: u64, pages: u64) -> ProgramEvent {
        ProgramEvent::Map {
            start: VirtualPage::new(first).address(),
            length: pages * 4096,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        }
    }

    fn proceed(kernel: &mut Kernel) {
        while kernel.has_work_in_advance() {
            kernel.proceed().unwrap();
        }
    }

    fn change(kernel: &mut Kernel, act: impl FnOnce(&mut Ranges)) {
        let changed = kernel.with_backer(
            |_| EagerBacker::default(),
            |_: &mut EagerBacker, core| {
                let space = &mut core.space_mut(SPACE)?;
                act(space.overlay_mut().unwrap().downcast_mut().unwrap());
                Ok(())
            },
        );
        changed.unwrap();
    }

    #[test]
    fn ranges_that_disagree_with_the_tables_are_found() {
        type Spoil = fn(&mut RangeEntry);
        let spoilt: [(Spoil, u64); 4] = [
            (|it| it.frame = it.frame.add(1), 0),
            (|it| it.permissions = Permissions::READ, 0),
            (|it| it.end += 1, 1024),
            (|it| (it.start, it.frame) = (it.start - 1, Frame::new(9)), u64::MAX),
        ];
        let with_range = || {
            let mut kernel =
                Kernel::new(KernelConfig::new(64 << 20), Box::new(EagerPaging)).unwrap();
            kernel.event(&map(FIRST - 1, 1)).unwrap();
            kernel.event(&map(FIRST, 1024)).unwrap();
            kernel
                .event(&ProgramEvent::Unmap {
                    start: VirtualPage::new(FIRST - 1).address(),
                    length: 4096,
                })
                .unwrap();
            proceed(&mut kernel);
            assert_eq!(kernel.check_invariants(), Ok(()));
            kernel
        };
        for (spoil, page) in spoilt {
            let mut kernel = with_range();
            change(&mut kernel, |ranges| {
                assert_eq!(ranges.pages(), 1024);
                spoil(ranges.entries.values_mut().next().unwrap());
            });
            let page = FIRST.wrapping_add(page);
            let expected = format!("space 0: page {page:#x} of a range is mapped as ");
            let error = kernel.check_invariants().unwrap_err();
            assert!(error.starts_with(&expected), "{error}");
        }
        let of_table: [fn(&mut Ranges); 2] =
            [|ranges| ranges.nodes[0].1[1] ^= 1, |ranges| ranges.entries.clear()];
        for spoil in of_table {
            let mut kernel = with_range();
            change(&mut kernel, spoil);
            let expected = "space 0: the range table does not hold the ranges";
            assert_eq!(kernel.check_invariants(), Err(expected.into()));
        }
    }

    fn figures(kernel: &Kernel) -> [u64; 4] {
        let mut counters = Counters::default();
        kernel.counters(&mut counters);
        let names = ["ranges", "range_pages", "range_table_bytes", "free_bytes"];
        names.map(|name| counters.get(name).unwrap() as u64)
    }

    /// Writes of the root register, writes of nodes, and cleared nodes since the last call.
    fn operations(kernel: &mut Kernel) -> [u64; 3] {
        let mut counts = [0; 3];
        for update in kernel.updates().drain(..) {
            let Update::Format(operation) = update else { continue };
            let own: &RangeOperation = operation.downcast_ref().unwrap();
            let kind = match own {
                RangeOperation::Root { .. } => 0,
                RangeOperation::Node { .. } => 1,
                RangeOperation::Clear { .. } => 2,
            };
            counts[kind] += 1;
        }
        counts
    }

    /// A second node for which memory has no room: page tables map the pages of all ranges, and the first
    /// node's frame is free again.
    #[test]
    fn without_room_for_a_table_there_are_no_ranges() {
        let mut kernel = Kernel::new(KernelConfig::new(24 * 4096), Box::new(EagerPaging)).unwrap();
        kernel.event(&map(FIRST, 512)).unwrap();
        proceed(&mut kernel);
        let mut page = FIRST;
        while kernel.fault(SPACE, VirtualPage::new(page), AccessKind::Write).is_ok() {
            page += 1;
        }
        assert_eq!(figures(&kernel), [1, 16, 4096, 0]);
        operations(&mut kernel);
        let none = |_: &dyn Policy| EagerBacker::default();
        let changed = kernel.with_backer(none, |_: &mut EagerBacker, core| {
            let space = &mut core.space_mut(SPACE)?;
            let mut overlay = space.take_overlay().unwrap();
            let ranges: &mut Ranges = overlay.downcast_mut().unwrap();
            let first = *ranges.entries.values().next().unwrap();
            for number in 0..200 {
                let start = FIRST + 1024 + 2 * number;
                ranges.entries.insert(start, RangeEntry { start, end: start + 1, ..first });
            }
            ranges.write(space);
            assert_eq!((ranges.entries.len(), ranges.nodes.len()), (0, 0));
            space.set_overlay(overlay);
            Ok(())
        });
        changed.unwrap();
        assert_eq!(figures(&kernel), [0, 0, 0, 4096]);
        assert_eq!(operations(&mut kernel), [1, 0, 1]);
        assert_eq!(kernel.check_invariants(), Ok(()));
    }

    /// 200 ranges, which are a root and nodes below: a change sends the node that changed, and the root
    /// register only when the root is another frame.
    #[test]
    fn a_change_of_a_range_writes_what_changed() {
        let mut kernel = Kernel::new(KernelConfig::new(64 << 20), Box::new(EagerPaging)).unwrap();
        for number in 0..200 {
            kernel.event(&map(FIRST + 8 * number, 4)).unwrap();
            proceed(&mut kernel);
        }
        let [ranges, pages, bytes, _] = figures(&kernel);
        assert_eq!((ranges, pages), (200, 800));
        assert!(bytes > 4096, "a root and others");
        let [roots, _, cleared] = operations(&mut kernel);
        assert_eq!((roots, cleared), (1, 0));
        let unmap = |kernel: &mut Kernel, first: u64, pages: u64| {
            let start = VirtualPage::new(first).address();
            kernel.event(&ProgramEvent::Unmap { start, length: pages * 4096 }).unwrap();
            proceed(kernel);
            kernel.check_invariants().unwrap();
            operations(kernel)
        };
        for number in [199, 0] {
            assert_eq!(unmap(&mut kernel, FIRST + 8 * number, 1), [0, 1, 0]);
        }
        assert_eq!(figures(&kernel)[..3], [200, 798, bytes]);
        assert_eq!(unmap(&mut kernel, FIRST, 8 * 200), [1, 0, bytes / 4096]);
    }

    /// Random additions and removals, compared with the mapping of every page. The ranges are the longest
    /// runs of pages that continue each other.
    #[test]
    fn ranges_are_the_longest_runs_of_the_pages_added_last() {
        let mut ranges = Ranges::default();
        let mut pages: BTreeMap<u64, RangeEntry> = BTreeMap::new();
        let mut random = 1_u64;
        for step in 0..3_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let start = random % 60;
            let span = start..start + 1 + (random >> 8) % 12;
            if random >> 16 & 3 == 0 {
                let is_held = pages.range(span.clone()).next().is_some();
                assert_eq!(ranges.remove(&span), is_held, "step {step}");
                pages.retain(|page, _| !span.contains(page));
            } else {
                let frame = Frame::new(start + if random >> 20 & 3 == 0 { 100 } else { 0 });
                let permissions =
                    [Permissions::READ, Permissions::ALL][(random >> 24 & 7 == 0) as usize];
                let range = RangeEntry { start, end: span.end, frame, permissions };
                ranges.add(range);
                pages.extend(span.map(|page| (page, range.part(page..page + 1))));
            }
            let mut expected: Vec<RangeEntry> = Vec::new();
            for page in pages.values() {
                match expected.last_mut() {
                    Some(last) if last.is_continued_by(page) => last.end = page.end,
                    _ => expected.push(*page),
                }
            }
            assert!(ranges.entries.iter().all(|(&start, range)| start == range.start));
            assert_eq!(
                ranges.entries.values().copied().collect::<Vec<_>>(),
                expected,
                "step {step}"
            );
            assert_eq!(ranges.pages(), pages.len() as u64);
        }
    }
}
