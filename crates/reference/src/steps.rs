//! Look-ups and fills of one attempt to translate, checked step by step.

use std::ops::Range;

use perforate_mmu::radix::Directory;
use perforate_mmu::{
    CachedContent, CachedEntry, Case, EntryKind, L2Part, Mmu, SidebandTlb, TlbGeometry,
    WalkCacheConfig, allow,
};
use perforate_types::{AccessKind, Action, Level, PhysicalAddress, Purpose, SpaceId, Step, Unit};

use crate::unit::is_dirty;
use crate::{Attempt, Core, Reference, covers};

const PAGES_2M: u64 = 512;
const PAGES_1G: u64 = 512 * 512;
/// Number of 4KB pages for which one cached entry of the hole bitmap has bits.
const PAGES_OF_BITMAP: u64 = 32;

/// Level of the page table that a walk reads next after a look-up of the walk cache, and the frame of the
/// node. An outer `None` means that no look-up came before; an inner `None` that the frame is not known.
type Next = Option<(Level, Option<perforate_types::Frame>)>;

/// State of an attempt to translate an address, as far as its steps have been checked.
struct Walk {
    core: usize,
    space: SpaceId,
    page: u64,
    /// True after a look-up of a hole-bitmap entry: a subsequent walk may lead to a hole.
    asked_bitmap: bool,
    /// Expected next read of the page walk: in the program's tables, and in the host's tables.
    next: [Next; 2],
    /// TLB or walk cache whose look-up of a guest-physical address missed.
    missed_host: Option<Unit>,
    /// Slot of the second-level TLB entry that the attempt last hit or filled for the page. The first-level
    /// TLB is filled from this entry.
    used: Option<u32>,
    filled: Vec<(Unit, u32)>,
    /// True after a look-up of an entry of the host's hole bitmap.
    asked_host_bitmap: bool,
    /// Entries of guest-physical addresses that the attempt hit or filled: unit (TLB or walk cache) and slot.
    host_pages: Vec<(Unit, u32)>,
}

/// True for a TLB entry that translates pages; false for hole-bitmap entries and walk-cache entries.
fn is_page(entry: &CachedEntry) -> bool {
    matches!(entry.content, CachedContent::Page { .. })
}

fn kind_of(entry: &CachedEntry) -> Option<EntryKind> {
    match entry.content {
        CachedContent::Page { kind, .. } => Some(kind),
        _ => None,
    }
}

/// True if the TLB entry translates a page with holes: its dirty bit does not show which 4KB page was
/// written.
fn has_holes(entry: &CachedEntry) -> bool {
    match entry.content {
        CachedContent::Page { kind: EntryKind::Perforated, .. } => true,
        CachedContent::Page { kind: EntryKind::Intermediate, filter, .. } => filter != 0,
        _ => false,
    }
}

/// True if the guest or the host has a unit, such as a range TLB, that is looked up in parallel with a TLB.
/// The model does not know the order of look-ups in that unit.
fn has_unit(mmu: &Mmu) -> bool {
    let dimension = mmu.dimension();
    let of_host = dimension.host().and_then(|host| host.dimension().sideband_tlb());
    dimension.sideband_tlb().or(of_host).map(SidebandTlb::used).is_some()
}

/// Returns, for the walk cache of the program and that of the host, true if the cache holds leaf entries
/// (translations of pages).
fn have_leaves(mmu: &Mmu) -> [bool; 2] {
    let host = mmu.dimension().host();
    let of_host = host.and_then(|host| host.dimension().cached_leaf_pages());
    [mmu.dimension().cached_leaf_pages().is_some(), of_host.is_some()]
}

impl Core {
    fn covering(
        &self,
        unit: Unit,
        space: SpaceId,
        page: u64,
    ) -> impl Iterator<Item = &CachedEntry> {
        let is_selected = move |entry: &&CachedEntry| {
            !entry.is_guest_physical && entry.space == space && covers(entry, page)
        };
        self.units[unit as usize].entries().filter(is_selected)
    }

    /// Returns the entry of the second-level TLB that translates a page; `None` on a miss. Entries
    /// are tried in the order 4KB pages, 2MB pages, coalesced runs of 4KB pages, 1GB pages.
    fn in_second_level(&self, space: SpaceId, page: u64) -> Option<CachedEntry> {
        let order = |entry: &&CachedEntry| match (kind_of(entry), entry.pages) {
            (Some(EntryKind::Run), _) => 2,
            (_, 1) => 0,
            (_, PAGES_2M) => 1,
            _ => 3,
        };
        self.covering(Unit::L2Tlb, space, page)
            .filter(|entry| is_page(entry))
            .min_by_key(order)
            .copied()
    }

    /// Returns the deepest walk-cache entry for a walk to a page or to a hole, as `to` says; `None` on a
    /// miss.
    fn in_walk_cache(&self, space: SpaceId, page: u64, to: Directory) -> Option<CachedEntry> {
        let level_of = |entry: &CachedEntry| match entry.content {
            CachedContent::Leaf => (to == Directory::Ordinary).then_some(2),
            CachedContent::Node { level, directory, .. } => {
                let is_seen = level > 2 || directory == to;
                is_seen.then_some(level)
            }
            _ => None,
        };
        let seen = self.covering(Unit::WalkCache, space, page);
        seen.filter(|entry| level_of(entry).is_some()).min_by_key(|entry| level_of(entry)).copied()
    }
}

impl Reference {
    /// Checks all steps of an attempt to translate an address, and updates the model.
    pub(crate) fn follow_steps(&mut self, attempt: &Attempt<'_>, mmu: &Mmu) {
        let (core, space) = mmu.running();
        let page = attempt.address.page().number();
        let unit = first_level(attempt.kind);
        let held = self.cores[core].covering(unit, space, page);
        if let Some(entry) = held.min_by_key(|entry| entry.pages).copied() {
            return self.hit_first_level(attempt, (core, space, page), entry);
        }
        if let Ok(found) = attempt.result {
            assert_ne!(found.case, Case::FirstLevel, "the first level does not hold {page:#x}");
        }
        let mut walk = Walk {
            core,
            space,
            page,
            asked_bitmap: false,
            next: [None; 2],
            missed_host: None,
            used: None,
            filled: Vec::new(),
            asked_host_bitmap: false,
            host_pages: Vec::new(),
        };
        if attempt.steps.background().is_empty() {
            let steps = attempt.steps.as_slice();
            for (index, step) in steps.iter().enumerate() {
                self.follow_step(&mut walk, *step, &steps[index + 1..], mmu);
            }
        } else {
            // Background steps happened between the other steps, in an order that is unknown.
            let steps = attempt.steps.as_slice().iter().chain(attempt.steps.background());
            self.take_over(&mut walk, steps);
        }
        // A store sets the dirty bit of the host's entry after bitmap look-ups, which counts as a
        // use of the entry.
        let is_store = attempt.kind == AccessKind::Write;
        let is_late = walk.asked_host_bitmap || walk.asked_bitmap && is_store;
        for &(unit, slot) in walk.host_pages.iter().filter(|_| is_late) {
            self.cores[walk.core].units[unit as usize].may_be_younger(slot);
        }
        for &(unit, slot) in &walk.filled {
            let core = &self.cores[walk.core];
            if let Some(entry) = core.units[unit as usize].find(slot).copied() {
                self.check_entry(core, &entry, mmu);
            }
        }
        if attempt.result.is_ok() {
            self.check_end(attempt, &walk);
        }
    }

    /// Checks an attempt to translate an address that hits in the first-level TLB.
    fn hit_first_level(
        &mut self,
        attempt: &Attempt<'_>,
        (core, space, page): (usize, SpaceId, u64),
        entry: CachedEntry,
    ) {
        let Attempt { kind, result, steps, .. } = *attempt;
        let CachedContent::Page { frame, allows, .. } = entry.content else {
            panic!("{entry:?} is in the first level")
        };
        assert!(steps.is_empty(), "{entry:x?} is there, and more was looked up");
        let shares_dirty = self.shares_dirty();
        let core = &mut self.cores[core];
        core.units[entry.unit as usize].touch(entry.slot);
        match result {
            Err(_) => assert!(!allow::permits(allows, kind), "{entry:x?} allows {kind:?}"),
            Ok(found) => {
                assert!(allow::permits(allows, kind), "{entry:x?} does not allow {kind:?}");
                assert_eq!((found.case, found.slot), (Case::FirstLevel, entry.slot));
                let expected = frame.add(page - entry.first.number());
                assert_eq!(found.physical.page(), expected, "{entry:x?}");
                if kind == AccessKind::Write && !is_dirty(&entry) {
                    core.first_store(space, page, shares_dirty);
                }
            }
        }
    }

    fn follow_step(&mut self, walk: &mut Walk, step: Step, later: &[Step], mmu: &Mmu) {
        let purpose = step.purpose;
        walk.asked_bitmap |= purpose == Purpose::Bitmap;
        walk.asked_host_bitmap |= purpose == Purpose::HostBitmap;
        if let (Purpose::HostPage, Action::Hit { unit, slot } | Action::Fill { unit, slot }) =
            (purpose, step.action)
        {
            walk.host_pages.push((unit, slot));
        }
        match step.action {
            Action::Hit { unit, slot } if is_followed(unit) => {
                self.check_hit(walk, (unit, slot), purpose, mmu);
                self.cores[walk.core].units[unit as usize].touch(slot);
            }
            Action::Miss { unit } if is_followed(unit) => self.check_miss(walk, unit, purpose),
            Action::Fill { unit, slot } if is_followed(unit) => {
                let is_same = |step: &Step| step.action == Action::Fill { unit, slot };
                let is_last = !later.iter().any(is_same);
                self.fill(walk, (unit, slot, is_last), purpose, mmu);
            }
            Action::Read { address } => check_read(walk, purpose, address, mmu),
            _ => {}
        }
    }

    fn check_hit(&self, walk: &mut Walk, (unit, slot): (Unit, u32), purpose: Purpose, mmu: &Mmu) {
        let core = &self.cores[walk.core];
        let held = &core.units[unit as usize];
        let found = held.find(slot).unwrap_or_else(|| panic!("{unit:?} has nothing in {slot}"));
        if !held.is_known(slot) {
            return;
        }
        let slot_of = |entry: Option<CachedEntry>| entry.map(|entry| entry.slot);
        match (unit, purpose) {
            (Unit::L2Tlb, Purpose::Page) => {
                let expected = core.in_second_level(walk.space, walk.page);
                assert_eq!(Some(slot), slot_of(expected), "hit {found:x?}, not {expected:x?}");
                walk.used = Some(slot);
            }
            (Unit::L2Tlb, Purpose::Bitmap) => {
                let is_right = !found.is_guest_physical
                    && !is_page(found)
                    && found.space == walk.space
                    && covers(found, walk.page);
                assert!(is_right, "{found:x?} is no bitmap of {:#x}", walk.page);
            }
            (Unit::WalkCache, _) => {
                let seen = |to| slot_of(core.in_walk_cache(walk.space, walk.page, to));
                let is_hole = walk.asked_bitmap && seen(Directory::Holes) == Some(slot);
                let expected = seen(Directory::Ordinary);
                assert!(is_hole || expected == Some(slot), "hit {found:x?}, not slot {expected:?}");
                walk.next[0] = next_after(found);
            }
            (Unit::HostWalkCache, _) => walk.next[1] = next_after(found),
            _ => {
                let is_bitmap = purpose == Purpose::HostBitmap;
                let is_right = found.is_guest_physical && is_page(found) != is_bitmap;
                assert!(is_right, "{found:x?} is hit for {purpose:?}");
            }
        }
        if found.is_guest_physical {
            assert_eq!(Some(found.space), mmu.dimension().host().map(|host| host.space()));
        }
    }

    fn check_miss(&self, walk: &mut Walk, unit: Unit, purpose: Purpose) {
        let core = &self.cores[walk.core];
        let missed = match (unit, purpose) {
            (Unit::L2Tlb, Purpose::Page) => core.in_second_level(walk.space, walk.page),
            (Unit::L2Tlb, Purpose::Bitmap) => {
                let mut covering = core.covering(unit, walk.space, walk.page);
                covering.find(|entry| !is_page(entry)).copied()
            }
            (Unit::WalkCache, _) => {
                walk.next[0] = Some((4, None));
                let hole = core.in_walk_cache(walk.space, walk.page, Directory::Holes);
                let ordinary = core.in_walk_cache(walk.space, walk.page, Directory::Ordinary);
                if walk.asked_bitmap { hole.and(ordinary) } else { ordinary }
            }
            (Unit::HostWalkCache, _) => {
                walk.next[1] = Some((4, None));
                None
            }
            (Unit::L2Tlb | Unit::NestedTlb, Purpose::HostPage) => {
                walk.missed_host = Some(unit);
                None
            }
            _ => None,
        };
        assert!(missed.is_none(), "{missed:x?} is there and was missed");
    }

    fn fill(
        &mut self,
        walk: &mut Walk,
        (unit, slot, is_last): (Unit, u32, bool),
        purpose: Purpose,
        mmu: &Mmu,
    ) {
        let entry = self.inspected_entry(unit, slot);
        if is_last && walk.missed_host == Some(unit) && purpose == Purpose::HostPage {
            walk.missed_host = None;
            self.assert_was_absent(walk.core, &entry);
        }
        if is_last {
            walk.filled.push((unit, slot));
        }
        let is_of_page = matches!(purpose, Purpose::Page | Purpose::Level2 | Purpose::Hole);
        if unit == Unit::L2Tlb && is_of_page {
            walk.used = is_last.then_some(slot);
        }
        let (array, set, allowed) = self.place_of(&entry, mmu);
        if is_last {
            let place = (entry.place.0, entry.place.1);
            assert_eq!(place, (array, set), "{entry:x?} is in the wrong array or set");
        }
        let leaves = have_leaves(mmu);
        let is_exact = match unit {
            Unit::L1DataTlb | Unit::L1InstructionTlb => true,
            Unit::WalkCache => !leaves[0] && !has_unit(mmu),
            Unit::HostWalkCache => !leaves[1] && !has_unit(mmu),
            _ => !has_unit(mmu),
        };
        let window = self.window();
        let unit = &mut self.cores[walk.core].units[unit as usize];
        let is_allowed = |way: usize| allowed.contains(&way);
        let filled = unit.fill((entry, is_last), window, is_allowed, allowed.len(), is_exact);
        filled.unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    /// Asserts that no entry of the nested TLB covered the pages of the entry `filled` that a host's walk has
    /// just filled, because the look-up before the walk would have hit. Entries of pages with holes are
    /// exempt, because they do not translate all their pages.
    fn assert_was_absent(&self, core: usize, filled: &CachedEntry) {
        let held = &self.cores[core].units[filled.unit as usize];
        let covering = held.entries().find(|entry| {
            entry.is_guest_physical
                && is_page(entry)
                && !has_holes(entry)
                && entry.slot != filled.slot
                && entry.pages >= filled.pages
                && covers(entry, filled.first.number())
        });
        assert!(covering.is_none(), "{covering:x?} is there and was missed: {filled:x?}");
    }

    /// Returns the entry that a slot of a TLB or walk cache had at the last inspection of the hardware.
    fn inspected_entry(&self, unit: Unit, slot: u32) -> CachedEntry {
        let key = (unit as u8, slot);
        let place = self.now.binary_search_by_key(&key, |entry| (entry.unit as u8, entry.slot));
        self.now[place.unwrap_or_else(|_| panic!("nothing is in slot {slot} of {unit:?}"))]
    }

    /// Copies the entries that these steps filled from the hardware to the model; checks no order of steps.
    fn take_over<'a>(&mut self, walk: &mut Walk, steps: impl Iterator<Item = &'a Step>) {
        for step in steps {
            match step.action {
                Action::Fill { unit, slot } if is_followed(unit) => {
                    let entry = self.inspected_entry(unit, slot);
                    self.cores[walk.core].units[unit as usize].take_over(entry);
                    walk.filled.push((unit, slot));
                    let is_of_page =
                        matches!(step.purpose, Purpose::Page | Purpose::Level2 | Purpose::Hole);
                    if unit == Unit::L2Tlb && is_of_page {
                        walk.used = Some(slot);
                    }
                }
                Action::Hit { unit: Unit::L2Tlb, slot } if step.purpose == Purpose::Page => {
                    walk.used = Some(slot);
                }
                _ => {}
            }
        }
    }

    /// Checks the end of a translation that missed the first-level TLB: this TLB must now hold the
    /// page, and a store must have set the dirty bit.
    fn check_end(&mut self, attempt: &Attempt<'_>, walk: &Walk) {
        let Ok(found) = attempt.result else { return };
        if found.case == Case::BesideFirstLevel {
            return;
        }
        let unit = first_level(attempt.kind);
        let is_filled = walk.filled.contains(&(unit, found.slot));
        assert!(is_filled, "slot {} of {unit:?} was not filled", found.slot);
        let (shares_dirty, in_l1) = (self.shares_dirty(), self.setup.config.tlb.l1_coalescing);
        let core = &mut self.cores[walk.core];
        let entry = *core.units[unit as usize].find(found.slot).expect("it was filled");
        let CachedContent::Page { frame, .. } = entry.content else {
            panic!("{entry:?} is in the first level")
        };
        assert!(entry.space == walk.space && covers(&entry, walk.page), "{entry:x?} was filled");
        let expected = frame.add(walk.page - entry.first.number());
        assert_eq!(found.physical.page(), expected, "{entry:x?}");
        let second = &mut core.units[Unit::L2Tlb as usize];
        let used = walk.used.and_then(|slot| second.find(slot).copied());
        if attempt.kind == AccessKind::Write {
            assert!(is_dirty(&entry), "a store has left {entry:x?} clean");
            let is_in_place =
                matches!(found.case, Case::Filtered | Case::BitmapInPlace | Case::ReadInPlace);
            let is_dirtied = |entry: &CachedEntry| match kind_of(entry) {
                Some(EntryKind::Run) => shares_dirty,
                Some(EntryKind::Perforated) => is_in_place,
                _ => !has_holes(entry),
            };
            if let Some(used) = used.filter(is_dirtied) {
                second.set_dirty(used.slot);
            }
        }
        if let Some(used) = used.filter(|used| kind_of(used) == Some(EntryKind::Run)) {
            // A page of a clean run is held alone, unless a store to it is one to the run.
            let CachedContent::Page { allows, .. } = used.content else { unreachable!() };
            let is_whole = shares_dirty || allows & allow::WRITE == 0 || is_dirty(&used);
            let expected = if in_l1 && is_whole { used.pages } else { 1 };
            assert_eq!(entry.pages, expected, "{entry:x?} comes of {used:x?}");
            return;
        }
        let pages = match used.and_then(|used| kind_of(&used)) {
            Some(EntryKind::Page2M) => PAGES_2M,
            Some(EntryKind::Page1G) => PAGES_1G,
            Some(_) => 1,
            None => return,
        };
        let largest = self.first_level_pages(attempt.kind).filter(|&held| held <= pages).max();
        assert_eq!(Some(entry.pages), largest, "{entry:x?} comes of {used:x?}");
    }

    /// True if the pages of a coalesced run share their dirty bits: the page-table entries say that
    /// they are one run.
    fn shares_dirty(&self) -> bool {
        let coalescing = self.setup.config.tlb.l2_coalescing;
        coalescing.is_some_and(|coalescing| coalescing.form.contiguity().is_some())
    }

    fn window(&self) -> u64 {
        self.setup.config.tlb.l2_coalescing.map_or(0, |coalescing| coalescing.pages)
    }

    fn first_level_arrays(&self, kind: AccessKind) -> [(u64, Option<TlbGeometry>); 3] {
        let tlb = &self.setup.config.tlb;
        if kind == AccessKind::Fetch {
            let (small, large) = (tlb.l1_instruction_4k, tlb.l1_instruction_2m);
            [(1, Some(small)), (PAGES_2M, large), (PAGES_1G, None)]
        } else {
            let (large, huge) = (tlb.l1_data_2m, tlb.l1_data_1g);
            [(1, Some(tlb.l1_data_4k)), (PAGES_2M, large), (PAGES_1G, huge)]
        }
    }

    fn first_level_pages(&self, kind: AccessKind) -> impl Iterator<Item = u64> {
        let arrays = self.first_level_arrays(kind).into_iter();
        arrays.filter(|(_, geometry)| geometry.is_some()).map(|(pages, _)| pages)
    }

    /// Returns the place of an entry in its TLB or walk cache: index of the array, index of the set, and
    /// permitted ways.
    fn place_of(&self, entry: &CachedEntry, mmu: &Mmu) -> (usize, usize, Range<usize>) {
        let config = &self.setup.config;
        let in_array = |array: usize, number: u64, geometry: TlbGeometry| {
            let sets = geometry.entries / geometry.ways;
            (array, (number % sets as u64) as usize, 0..geometry.ways)
        };
        let number = entry.first.number() / self.grain(entry);
        match entry.unit {
            Unit::L1DataTlb | Unit::L1InstructionTlb => {
                let is_fetch = entry.unit == Unit::L1InstructionTlb;
                let kind = if is_fetch { AccessKind::Fetch } else { AccessKind::Read };
                let present = self.first_level_arrays(kind).into_iter();
                let mut present = present.filter_map(|(pages, geometry)| Some((pages, geometry?)));
                let is_run = kind_of(entry) == Some(EntryKind::Run);
                let size = if is_run { 1 } else { entry.pages };
                let array = present.position(|(pages, _)| pages == size);
                let array = array.unwrap_or_else(|| panic!("{entry:x?} has no array"));
                let all = self.first_level_arrays(kind);
                let geometry = all.iter().filter_map(|(_, geometry)| *geometry).nth(array);
                in_array(array, number, geometry.expect("it was found"))
            }
            Unit::L2Tlb => {
                let tlb = &config.tlb;
                let (part, array) = match entry.pages {
                    PAGES_2M => (tlb.l2_2m, 1),
                    PAGES_1G => {
                        let is_second = matches!(tlb.l2_2m, L2Part::Own(_));
                        (tlb.l2_1g, 1 + usize::from(is_second))
                    }
                    _ => (L2Part::Ways(tlb.l2_4k), 0),
                };
                match part {
                    L2Part::Own(geometry) => in_array(array, number, geometry),
                    L2Part::Ways(ways) => {
                        let (array, set, _) = in_array(0, number, tlb.l2);
                        (array, set, ways.of(tlb.l2.ways))
                    }
                }
            }
            Unit::NestedTlb => {
                let geometry = config.virtualization.nested_tlb;
                in_array(0, number, geometry.expect("there is such a unit"))
            }
            _ => {
                let of_host = config.virtualization.host_walk_cache;
                let caches = match entry.unit {
                    Unit::HostWalkCache => of_host.unwrap_or(config.walk_cache),
                    _ => config.walk_cache,
                };
                let level =
                    if let CachedContent::Node { level, .. } = entry.content { level } else { 2 };
                // Leaves and tables of level 2 share sets; the larger kind determines the set
                // index.
                let [own, host] = have_leaves(mmu);
                let has_leaves = if entry.unit == Unit::HostWalkCache { host } else { own };
                if has_leaves && level == 2 {
                    let (array, set, _) = entry.place;
                    return (array, set, 0..usize::MAX);
                }
                let number = entry.first.number() >> (9 * (level - 1));
                in_array(usize::from(level) - 2, number, geometry_of(&caches, level))
            }
        }
    }

    /// Returns the number of consecutive 4KB pages whose entries have the same set index.
    fn grain(&self, entry: &CachedEntry) -> u64 {
        match entry.content {
            CachedContent::Bitmap(_) => PAGES_OF_BITMAP,
            CachedContent::Page { kind: EntryKind::Run, .. } => self.window(),
            _ => entry.pages,
        }
    }
}

impl Core {
    /// Models the first store through a clean entry of the first-level TLB. The entry becomes
    /// dirty. The hardware then looks up the second-level TLB, whose entry becomes dirty too,
    /// unless it is for a page with holes, or for a coalesced run whose pages do not share their
    /// dirty bits (`shares_dirty`).
    fn first_store(&mut self, space: SpaceId, page: u64, shares_dirty: bool) {
        let covering = self.covering(Unit::L1DataTlb, space, page);
        let mut copies: Vec<_> = covering.map(|entry| (entry.pages, entry.slot)).collect();
        copies.sort_unstable();
        for (_, slot) in copies {
            self.units[Unit::L1DataTlb as usize].touch(slot);
            self.units[Unit::L1DataTlb as usize].set_dirty(slot);
        }
        let Some(entry) = self.in_second_level(space, page) else { return };
        let second = &mut self.units[Unit::L2Tlb as usize];
        second.touch(entry.slot);
        if !has_holes(&entry) && (shares_dirty || kind_of(&entry) != Some(EntryKind::Run)) {
            second.set_dirty(entry.slot);
        }
    }
}

fn first_level(kind: AccessKind) -> Unit {
    if kind == AccessKind::Fetch { Unit::L1InstructionTlb } else { Unit::L1DataTlb }
}

/// True if the model has a list of entries for the unit (TLB or walk cache). It has none for caches of
/// mechanisms, such as a range TLB.
fn is_followed(unit: Unit) -> bool {
    !matches!(unit, Unit::SidebandTlb | Unit::HostSidebandTlb)
}

fn geometry_of(caches: &WalkCacheConfig, level: Level) -> TlbGeometry {
    let (entries, ways) = match level {
        4 => (caches.level4_entries, caches.level4_ways),
        3 => (caches.level3_entries, caches.level3_ways),
        _ => (caches.level2_entries, caches.level2_ways),
    };
    TlbGeometry { entries, ways: ways.unwrap_or(entries) }
}

/// Returns the page-table level and node at which a walk continues after a hit of this walk-cache entry.
fn next_after(entry: &CachedEntry) -> Next {
    match entry.content {
        CachedContent::Node { level, node, .. } => Some((level - 1, Some(node.located))),
        _ => None,
    }
}

/// Checks that the first read of a page table after a walk-cache look-up is in the node of the entry that
/// hit, or in the root after a miss.
fn check_read(walk: &mut Walk, purpose: Purpose, address: PhysicalAddress, mmu: &Mmu) {
    let level = match purpose {
        Purpose::Level5 | Purpose::HostLevel5 => 5,
        Purpose::Level4 | Purpose::HostLevel4 => 4,
        Purpose::Level3 | Purpose::HostLevel3 => 3,
        Purpose::Level2 | Purpose::HostLevel2 | Purpose::Shadow | Purpose::HostShadow => 2,
        Purpose::Level1 | Purpose::HostLevel1 | Purpose::Hole | Purpose::HostHole => 1,
        _ => return,
    };
    let side = usize::from(purpose.is_host());
    let Some((expected, node)) = walk.next[side].take() else { return };
    // Page directories with gap-tolerant entries may have several pages.
    if have_leaves(mmu)[side] && expected == 2 {
        return;
    }
    // A walk from the root begins at level 5 in tables of five levels.
    let is_root = node.is_none() && expected == 4 && level == 5;
    assert!(is_root || level == expected, "{purpose:?} is read after the walk cache");
    // Shadow entries are in the page after the page directory.
    let is_shadow = matches!(purpose, Purpose::Shadow | Purpose::HostShadow);
    if let Some(node) = node.filter(|_| !is_shadow) {
        assert_eq!(address.page(), node, "{purpose:?} is read in another node");
    }
}
