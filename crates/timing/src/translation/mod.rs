//! Translations beyond the first-level TLB in cycles: TLB look-ups, walkers, walker reads, waits for entries that
//! are yet to be filled.
//!
//! As in the caches, the contents of TLBs follow the program, and times follow events. A translation that finds
//! an entry which an older one fills waits for it; if the older one has not begun, it begins now.

mod statistics;
mod walk;
mod walkers;

use std::collections::VecDeque;

use perforate_types::{Action, Purpose, Step, StepLists, Unit};

use crate::LINE_SHIFT;
use crate::agenda::{UNKNOWN, Waiter};
use crate::config::{BitmapReader, WalkerConfig};
use crate::hierarchy::{Hierarchy, Origin, PARALLEL_READS, kind};
use crate::ring::{NONE, Ring, further_back};
use crate::shortcuts::Shortcuts;
use statistics::look_up_share;
pub(crate) use statistics::{SHARES, Share, TranslationStatistics};
use walk::{Needs, Task, Walk};
use walkers::Walkers;

/// Walks that the ring holds at first.
const WALKS: usize = 1024;

/// Filler of an entry.
#[derive(Clone, Copy, Debug)]
struct Slot {
    walk: u32,
    /// Task after which the entry is usable.
    task: u32,
}

/// Translation of an access, as found in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translated {
    /// Translation that is waited for; [`NONE`] if the entry is there.
    pub(crate) walk: u32,
    /// Task that is waited for; [`NONE`] for the whole translation.
    task: u32,
}

impl Default for Translated {
    fn default() -> Self {
        Self::HERE
    }
}

impl Translated {
    /// Entry of the first-level TLB that is there.
    pub(crate) const HERE: Self = Self { walk: NONE, task: 0 };

    /// True if translation takes no time.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self.walk == NONE
    }

    /// True if the first-level TLB has the entry, or will have it.
    #[inline]
    pub(crate) fn is_first_level_hit(self) -> bool {
        self.task != NONE
    }
}

/// A request for a translation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) time: u64,
    pub(crate) waiter: Waiter,
    /// The request is made when its instruction is dispatched.
    pub(crate) at_dispatch: bool,
    /// The party that asks holds a walker and lends it: otherwise each could wait for the other.
    pub(crate) lends_walker: bool,
}

impl Request {
    /// Request of a load, a store or the front end.
    #[inline]
    pub(crate) fn new(time: u64, waiter: Waiter) -> Self {
        Self { time, waiter, at_dispatch: false, lends_walker: false }
    }
}

/// Translation hardware of a core.
#[derive(Clone, Debug)]
pub(crate) struct Translation {
    /// Cache that page walkers read.
    walker_level: usize,
    slots: [Vec<Slot>; Unit::COUNT],
    walkers: Walkers,
    bitmaps: BitmapReader,
    /// Latencies of look-ups with a match, by [`Unit`].
    latencies: [u16; Unit::COUNT],
    /// Latencies of look-ups without a match.
    miss_latencies: [u16; Unit::COUNT],
    read_overhead: u64,
    check: u16,
    selection: u16,
    begins_at_dispatch: bool,
    /// Walks in program order.
    walks: Ring<Walk>,
    /// Tasks of all walks, those of one walk in order.
    tasks: Ring<Task>,
    /// First walk that an instruction in flight, or on the critical path, may refer to.
    floor: u32,
    /// Walks in the background since the first that is not done.
    background: VecDeque<u32>,
    pub(crate) statistics: TranslationStatistics,
}

impl Translation {
    /// Bytes of a slot.
    pub(crate) const SLOT_BYTES: u64 = size_of::<Slot>() as u64;

    /// Walkers that read the cache `walker_level`. `slots` as for [`Core::new`](crate::Core::new).
    pub(crate) fn new(
        config: &WalkerConfig,
        slots: [usize; Unit::COUNT],
        walker_level: usize,
        shortcuts: Shortcuts,
    ) -> Self {
        let mut latencies = [0; Unit::COUNT];
        let cycles = |cycles: u32| cycles as u16;
        latencies[Unit::L2Tlb as usize] = cycles(config.l2_tlb_cycles);
        latencies[Unit::WalkCache as usize] = cycles(config.walk_cache_cycles);
        latencies[Unit::HostWalkCache as usize] = cycles(config.walk_cache_cycles);
        latencies[Unit::NestedTlb as usize] = cycles(config.nested_tlb_cycles);
        // The units beside the second-level TLB are looked up together with it.
        latencies[Unit::BesideL2 as usize] = cycles(config.l2_tlb_cycles);
        latencies[Unit::HostBesideL2 as usize] = cycles(config.l2_tlb_cycles);
        let mut miss_latencies = latencies;
        if let Some(miss) = config.walk_cache_miss_cycles {
            miss_latencies[Unit::WalkCache as usize] = cycles(miss);
            miss_latencies[Unit::HostWalkCache as usize] = cycles(miss);
        }
        let empty = Slot { walk: NONE, task: 0 };
        Self {
            walker_level,
            slots: slots.map(|count| vec![empty; count]),
            walkers: Walkers::new(config.walkers, shortcuts.walker_is_granted_ahead),
            bitmaps: config.bitmap_reader,
            latencies,
            miss_latencies,
            read_overhead: config.read_overhead_cycles.into(),
            check: cycles(config.segment_check_cycles),
            selection: cycles(config.selection_cycles),
            begins_at_dispatch: shortcuts.walks_begin_at_dispatch,
            walks: Ring::new(WALKS),
            tasks: Ring::new(8 * WALKS),
            floor: 0,
            background: VecDeque::new(),
            statistics: TranslationStatistics::default(),
        }
    }

    /// Number of page walkers.
    pub(crate) fn walkers(&self) -> u64 {
        self.walkers.count()
    }

    /// Number of the next walk.
    pub(crate) fn next_walk(&self) -> u32 {
        self.walks.next()
    }

    /// Instructions in flight, and the critical path, refer to no walk before this one.
    pub(crate) fn keep_walks_from(&mut self, floor: u32) {
        self.floor = floor;
    }

    /// Prepares the translation of an access in program order. Without steps it is a hit in the first-level TLB
    /// `unit`.
    #[inline]
    pub(crate) fn prepare(
        &mut self,
        memory: &mut Hierarchy,
        (unit, slot): (Unit, u32),
        steps: StepLists<'_>,
        now: u64,
    ) -> Translated {
        if steps.awaited.is_empty() {
            return self.entry(unit, slot, now);
        }
        let walk = self.add_walk(memory, steps.awaited, now);
        if !steps.background.is_empty() {
            memory.read_without_walker(self.walker_level);
            let background = self.add_walk(memory, steps.background, now);
            self.walks[background].is_background = true;
            self.background.push_back(background);
            self.walks[walk].background = background;
        }
        Translated { walk, task: NONE }
    }

    /// Entry that an access finds, and its filler if the entry is not there yet.
    #[inline]
    fn entry(&mut self, unit: Unit, slot: u32, now: u64) -> Translated {
        let slot = &mut self.slots[unit as usize][slot as usize];
        let Slot { walk, task } = *slot;
        if walk == NONE || walk == self.walks.next() {
            // An entry that an earlier task of the translation in hand fills is there.
            return Translated::HERE;
        }
        // An end that is not known is later than now.
        if !self.walks.has(walk) || !self.tasks.has(task) || self.tasks[task].end <= now {
            slot.walk = NONE;
            return Translated::HERE;
        }
        Translated { walk, task }
    }

    /// Adds a translation with these steps.
    #[inline(never)]
    fn add_walk(&mut self, memory: &mut Hierarchy, steps: &[Step], now: u64) -> u32 {
        self.make_room(steps.len());
        let id = self.walks.next();
        let first = self.tasks.next();
        let mut walk = Walk::new(first);
        let (mut stage, mut reads) = (None, 0);
        for &Step { stage: of_step, purpose, action } in steps {
            if let Action::Fill { unit, slot } = action {
                self.statistics.unit_accesses[unit as usize] += 1;
                // The entry is usable when the tasks so far are done: a fill takes no time.
                let task = first.wrapping_add(walk.last_stage.into());
                self.slots[unit as usize][slot as usize] = Slot { walk: id, task };
                if walk.tasks > 0 {
                    continue;
                }
            }
            let mut task = Task::new();
            if stage == Some(of_step) {
                self.tasks[first.wrapping_add(walk.last_stage.into())].stage += 1;
            } else {
                (stage, reads, walk.last_stage, task.stage) = (Some(of_step), 0, walk.tasks, 1);
            }
            let is_walkers = match action {
                Action::Read { address } => {
                    let (level, line) = (self.walker_level, address.value() >> LINE_SHIFT);
                    let (data, from) = memory.locate(level, line, false, Origin::Walker, now);
                    self.statistics.reads_by_level[kind(from)] += 1;
                    (task.needs, task.share) = (Needs::Line(data), purpose as u8);
                    reads += 1;
                    let is_walkers = self.reads_with_walker(purpose);
                    walk.reads |= is_walkers;
                    if !is_walkers || reads > PARALLEL_READS {
                        memory.read_without_walker(level);
                    }
                    is_walkers
                }
                Action::Hit { unit, slot } => {
                    self.statistics.unit_accesses[unit as usize] += 1;
                    let entry = self.entry(unit, slot, now);
                    if !entry.is_here() {
                        task.needs = Needs::Entry(entry);
                    }
                    self.look_up(&mut task, unit, purpose, self.latencies[unit as usize])
                }
                Action::Miss { unit } => {
                    self.statistics.unit_accesses[unit as usize] += 1;
                    self.look_up(&mut task, unit, purpose, self.miss_latencies[unit as usize])
                }
                Action::Check => {
                    self.statistics.checks += 1;
                    (task.latency, task.share) = (self.check, Share::SegmentCheck as u8);
                    true
                }
                Action::Select => {
                    self.statistics.selections += 1;
                    (task.latency, task.share) = (self.selection, Share::Selection as u8);
                    true
                }
                Action::Fill { .. } => false,
            };
            if is_walkers {
                walk.first_walkers = walk.first_walkers.min(walk.tasks);
                walk.last_walkers = walk.tasks;
            }
            walk.tasks += 1;
            self.tasks.push(task);
        }
        self.walks.push(walk)
    }

    /// Makes room in the rings for a walk of so many tasks.
    #[inline]
    fn make_room(&mut self, tasks: usize) {
        let next = self.walks.next();
        let mut floor = self.floor;
        if let Some(&background) = self.background.front() {
            floor = further_back(next, floor, background);
        }
        while self.walks.is_short_of(floor, 1) {
            self.walks.grow();
        }
        let floor = if floor == next { self.tasks.next() } else { self.walks[floor].first };
        while self.tasks.is_short_of(floor, tasks) {
            self.tasks.grow();
        }
    }

    /// Makes `task` a look-up; returns true if the look-up is part of a walk.
    #[inline]
    fn look_up(&self, task: &mut Task, unit: Unit, purpose: Purpose, latency: u16) -> bool {
        (task.latency, task.share) = (latency, look_up_share(unit, purpose) as u8);
        // Walk caches, and guest-physical addresses.
        unit.is_walkers() || (purpose.is_host() && self.reads_with_walker(purpose))
    }

    /// True if the walker makes a read of this purpose.
    fn reads_with_walker(&self, purpose: Purpose) -> bool {
        self.bitmaps == BitmapReader::Walker
            || !matches!(purpose, Purpose::Bitmap | Purpose::HostBitmap)
    }

    /// Translation outside time: reads leave their lines in the caches, and entries are there at once.
    pub(crate) fn warm(&mut self, memory: &mut Hierarchy, steps: StepLists<'_>) {
        for step in steps.awaited.iter().chain(steps.background) {
            match step.action {
                Action::Read { address } => {
                    let (level, line) = (self.walker_level, address.value() >> LINE_SHIFT);
                    memory.warm(level, line, false, Origin::Walker);
                }
                Action::Fill { unit, slot } => {
                    self.slots[unit as usize][slot as usize].walk = NONE;
                }
                Action::Hit { .. } | Action::Miss { .. } | Action::Check | Action::Select => {}
            }
        }
    }
}
