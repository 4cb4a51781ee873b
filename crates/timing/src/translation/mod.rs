//! Timing of translations that miss the first-level TLB: TLB look-ups, page walkers and their reads, waits
//! for TLB entries that are still being filled.
//!
//! As in the caches, TLB contents are updated in program order, and cycles are determined in order of time. A
//! translation that hits an entry which an older translation is still filling waits for that one; if the
//! older one has not begun yet, it begins now.

mod statistics;
mod walk;
mod walkers;

use std::collections::VecDeque;

use perforate_types::{Action, PhysicalAddress, Purpose, Step, StepLists, Unit};

use crate::LINE_SHIFT;
use crate::agenda::{UNKNOWN, Waiter};
use crate::config::{BitmapReader, WalkerConfig};
use crate::hierarchy::{Data, Hierarchy, Origin, PARALLEL_READS, kind};
use crate::ring::{NONE, Ring, further_back};
use crate::shortcuts::Shortcuts;
use statistics::look_up_share;
pub(crate) use statistics::{SHARES, Share, TranslationStatistics};
use walk::{Lead, Needs, Task, Walk};
use walkers::Walkers;

/// Initial capacity of the ring buffer of walks.
const WALKS: usize = 1024;

/// Translation that fills, or filled, one entry of a TLB or walk cache.
#[derive(Clone, Copy, Debug)]
struct Slot {
    walk: u32,
    /// Task of walk `walk` (a look-up, check or read) whose completion makes the entry usable.
    task: u32,
}

/// Timing of look-ups in one unit for one purpose.
#[derive(Clone, Copy, Debug)]
struct LookUp {
    /// Cycles of a look-up that hits.
    hit: u16,
    /// Cycles of a look-up that misses.
    miss: u16,
    /// Index of the [`Share`] that the cycles count towards.
    share: u8,
    /// A page walker makes the look-up.
    is_walkers: bool,
}

/// Translation that an access depends on, as determined in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translated {
    /// Number of the translation to wait for; [`NONE`] if the first-level TLB entry is present.
    pub(crate) walk: u32,
    /// Task of translation `walk` to wait for; [`NONE`] to wait for the whole translation.
    task: u32,
}

impl Default for Translated {
    fn default() -> Self {
        Self::HERE
    }
}

impl Translated {
    /// First-level TLB hit on an entry that is present: nothing to wait for.
    pub(crate) const HERE: Self = Self { walk: NONE, task: 0 };

    /// True if the translation takes no time.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self.walk == NONE
    }

    /// True for a first-level TLB hit, including one on an entry that is still being filled.
    #[inline]
    pub(crate) fn is_first_level_hit(self) -> bool {
        self.task != NONE
    }
}

/// Request for a translation, made at cycle `time` for `waiter`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) time: u64,
    pub(crate) waiter: Waiter,
    /// The request comes at the cycle at which the instruction is dispatched.
    pub(crate) at_dispatch: bool,
    /// The requester is a walk that holds a page walker, which this translation may use; otherwise each could
    /// wait for the other (deadlock).
    pub(crate) lends_walker: bool,
}

impl Request {
    /// Request by a load, a store or the front end, or by a walk whose page walker this translation may not use.
    #[inline]
    pub(crate) fn new(time: u64, waiter: Waiter) -> Self {
        Self { time, waiter, at_dispatch: false, lends_walker: false }
    }
}

/// Translation hardware of one core, and the walks that it has under way.
#[derive(Clone, Debug)]
pub(crate) struct Translation {
    /// First cache that the page walkers access, as a level index.
    walker_level: usize,
    slots: [Vec<Slot>; Unit::COUNT],
    walkers: Walkers,
    /// Look-ups by [`Unit`] and [`Purpose`].
    look_ups: [[LookUp; Purpose::COUNT]; Unit::COUNT],
    /// For each [`Purpose`], true if a page walker makes the reads, not the controller of the second-level
    /// TLB.
    reads_with_walker: [bool; Purpose::COUNT],
    read_overhead: u64,
    check: u16,
    selection: u16,
    begins_at_dispatch: bool,
    /// Ring buffer of walks (all translations that miss the first-level TLB), numbered in program order.
    walks: Ring<Walk>,
    /// Ring buffer of the tasks of all walks; those of one walk are consecutive.
    tasks: Ring<Task>,
    /// Oldest walk that an instruction in flight, or the critical path, may refer to; older ones may be
    /// overwritten.
    floor: u32,
    /// Background walks (which no access waits for), from the oldest unfinished one on.
    background: VecDeque<u32>,
    pub(crate) statistics: TranslationStatistics,
}

impl Translation {
    /// Host bytes for each TLB or walk-cache entry that is simulated.
    pub(crate) const SLOT_BYTES: u64 = size_of::<Slot>() as u64;

    /// Makes idle translation hardware whose walkers access the cache `walker_level`; `slots` as for
    /// [`Core::new`](crate::Core::new).
    pub(crate) fn new(
        config: &WalkerConfig,
        slots: [usize; Unit::COUNT],
        walker_level: usize,
        shortcuts: Shortcuts,
    ) -> Self {
        let cycles = |cycles: u32| cycles as u16;
        let reads_with_walker = Purpose::ALL.map(|purpose| {
            config.bitmap_reader == BitmapReader::Walker
                || !matches!(purpose, Purpose::Bitmap | Purpose::HostBitmap)
        });
        let look_ups = Unit::ALL.map(|unit| {
            let hit = cycles(match unit {
                Unit::L1DataTlb | Unit::L1InstructionTlb => 0,
                // The units beside the second-level TLB are looked up together with it.
                Unit::L2Tlb | Unit::SidebandTlb | Unit::HostSidebandTlb => config.l2_tlb_cycles,
                Unit::WalkCache | Unit::HostWalkCache => config.walk_cache_cycles,
                Unit::NestedTlb => config.nested_tlb_cycles,
            });
            let miss = match config.walk_cache_miss_cycles {
                Some(miss) if matches!(unit, Unit::WalkCache | Unit::HostWalkCache) => cycles(miss),
                _ => hit,
            };
            Purpose::ALL.map(|purpose| {
                // The page walker looks up walk caches, and what translates guest-physical addresses if it reads for
                // that purpose.
                let is_walkers =
                    unit.is_walkers() || (purpose.is_host() && reads_with_walker[purpose as usize]);
                LookUp { hit, miss, share: look_up_share(unit, purpose) as u8, is_walkers }
            })
        });
        let empty = Slot { walk: NONE, task: 0 };
        Self {
            walker_level,
            slots: slots.map(|count| vec![empty; count]),
            walkers: Walkers::new(config.walkers, shortcuts.walker_is_granted_ahead),
            look_ups,
            reads_with_walker,
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

    /// Number that the next walk will get.
    pub(crate) fn next_walk(&self) -> u32 {
        self.walks.next()
    }

    /// Sets the oldest walk that an instruction in flight, or the critical path, may refer to; the ring
    /// buffers may overwrite older ones.
    pub(crate) fn keep_walks_from(&mut self, floor: u32) {
        self.floor = floor;
    }

    /// Notes in program order how an access is translated: with `steps`, a new walk; without steps, a hit on
    /// entry `slot` of the first-level TLB `unit`. Returns the translation that the access will wait for.
    #[inline(always)]
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
            self.add_background(memory, steps.background, walk, now);
        }
        Translated { walk, task: NONE }
    }

    /// Adds a walk with these steps, which begins when `walk` has completed and which no access waits for.
    #[cold]
    fn add_background(&mut self, memory: &mut Hierarchy, steps: &[Step], walk: u32, now: u64) {
        memory.read_without_walker(self.walker_level);
        let background = self.add_walk(memory, steps, now);
        self.walks[background].is_background = true;
        self.background.push_back(background);
        self.walks[walk].background = background;
    }

    /// Returns what a hit on a TLB or walk-cache entry has to wait for: nothing if the entry is present,
    /// otherwise the task of the walk that fills it.
    #[inline]
    fn entry(&mut self, unit: Unit, slot: u32, now: u64) -> Translated {
        let Slot { walk, .. } = self.slots[unit as usize][slot as usize];
        if walk == NONE || walk == self.walks.next() {
            // An entry that an earlier task of the translation in hand fills is there.
            return Translated::HERE;
        }
        self.filled_entry(unit, slot, now)
    }

    /// Like [`Self::entry`], for an entry that a walk has filled lately.
    #[inline(never)]
    fn filled_entry(&mut self, unit: Unit, slot: u32, now: u64) -> Translated {
        let slot = &mut self.slots[unit as usize][slot as usize];
        let Slot { walk, task } = *slot;
        // An end that is not known is later than now.
        if !self.walks.has(walk) || !self.tasks.has(task) || self.tasks[task].end <= now {
            slot.walk = NONE;
            return Translated::HERE;
        }
        Translated { walk, task }
    }

    /// Adds a walk with these steps: looks up the lines that it reads and notes the TLB entries that it
    /// fills. Returns its number.
    #[inline(never)]
    fn add_walk(&mut self, memory: &mut Hierarchy, steps: &[Step], now: u64) -> u32 {
        self.make_room(steps.len());
        let id = self.walks.next();
        let mut walk = Walk::new(self.tasks.next());
        // Number of the first task of the last stage. No step has this stage.
        let (mut begin, mut stage, mut reads) = (walk.first, u16::MAX, 0);
        let mut lead = Lead::default();
        let mut rest = steps.iter();
        while let Some(&Step { stage: of_step, purpose, action }) = rest.next() {
            if let Action::Fill { unit, slot } = action {
                self.statistics.unit_accesses[unit as usize] += 1;
                // The entry is usable when the tasks so far are done: a fill takes no time.
                self.slots[unit as usize][slot as usize] = Slot { walk: id, task: begin };
                if walk.tasks > 0 {
                    continue;
                }
            }
            let begins_stage = stage != u16::from(of_step);
            if begins_stage {
                (stage, reads) = (of_step.into(), 0);
            }
            let (needs, latency, share, is_walkers) = match action {
                Action::Read { address } => {
                    let is_walkers = self.reads_with_walker[purpose as usize];
                    walk.reads |= is_walkers;
                    reads += 1;
                    if !is_walkers || reads > PARALLEL_READS {
                        memory.read_without_walker(self.walker_level);
                    }
                    let line = self.look_up_line(memory, address, now);
                    (Needs::Line(line), 0, purpose as u8, is_walkers)
                }
                Action::Hit { unit, .. } | Action::Miss { unit } => {
                    self.statistics.unit_accesses[unit as usize] += 1;
                    let LookUp { hit, miss, share, is_walkers } =
                        self.look_ups[unit as usize][purpose as usize];
                    let (entry, cycles) = match action {
                        Action::Hit { slot, .. } => (self.entry(unit, slot, now), hit),
                        _ => (Translated::HERE, miss),
                    };
                    let next = rest.as_slice().first().filter(|next| next.stage != of_step);
                    match next.map(|next| (next.action, next.purpose)) {
                        _ if !begins_stage || !entry.is_here() => {}
                        Some((Action::Read { .. }, reason))
                            if is_walkers && self.reads_with_walker[reason as usize] =>
                        {
                            lead = Lead { cycles, share };
                            continue;
                        }
                        Some((Action::Hit { .. } | Action::Miss { .. }, _))
                            if !is_walkers && walk.tasks == 0 && walk.lead.cycles == 0 =>
                        {
                            walk.lead = Lead { cycles, share };
                            continue;
                        }
                        _ => {}
                    }
                    (Needs::entry(entry), cycles, share, is_walkers)
                }
                Action::Check => {
                    self.statistics.checks += 1;
                    (Needs::Nothing, self.check, Share::SegmentCheck as u8, true)
                }
                Action::Select => {
                    self.statistics.selections += 1;
                    (Needs::Nothing, self.selection, Share::Selection as u8, true)
                }
                Action::Fill { .. } => (Needs::Nothing, 0, 0, false),
            };
            let number = walk.next_task();
            if begins_stage {
                begin = number;
            } else {
                self.tasks[begin].stage += 1;
            }
            if is_walkers {
                walk.first_walkers = walk.first_walkers.min(walk.tasks);
                walk.last_walkers = walk.tasks;
            }
            let lead = std::mem::take(&mut lead);
            self.tasks[number] = Task::new(needs, (latency, share), begins_stage, lead);
            walk.tasks += 1;
        }
        self.tasks.take(walk.tasks.into());
        self.walks.push(walk)
    }

    /// Looks up, in program order, the line that a walk reads.
    #[inline(always)]
    fn look_up_line(&mut self, memory: &mut Hierarchy, read: PhysicalAddress, now: u64) -> Data {
        let (level, line) = (self.walker_level, read.value() >> LINE_SHIFT);
        let (data, from) = memory.locate(level, line, false, Origin::Walker, now);
        self.statistics.reads_by_level[kind(from)] += 1;
        data
    }

    /// Grows the ring buffers if they lack room for a walk of this many tasks.
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
        self.tasks.prepare(tasks as u32);
    }

    /// Functional warming: reads the lines that the steps read, and fills the entries that they fill, in no
    /// time.
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
