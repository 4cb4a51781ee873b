//! Turns the steps of a translation into cycles: TLB look-ups, walkers, walker reads, entries that
//! are yet to be filled.
//!
//! As in the caches, what the TLBs hold follows the program, and when it is there follows time. A
//! translation that finds an entry which an older one fills waits for it; if the older one has not
//! begun, it begins now.

use perforate_types::{Action, Purpose, Step, StepLists, Unit};

use crate::LINE_SHIFT;
use crate::agenda::{Agenda, Event, UNKNOWN, Waiter, Wanted};
use crate::config::{BitmapReader, WalkerConfig};
use crate::critical_path::{Cause, Timeline};
use crate::hierarchy::{Data, Hierarchy, LEVELS, Origin, kind};
use crate::pipeline::Factor;
use crate::pool::Pool;
use crate::reuse::{Numbered, Numbers, Uses};
use crate::shared::Shared;

/// Where the cycles of a translation go. The first [`Purpose::COUNT`] are reads by purpose.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Share {
    L2Tlb = Purpose::COUNT,
    BitmapLookup,
    WalkCache,
    NestedTlb,
    SegmentCheck,
    Selection,
    WalkerQueue,
    FillWait,
}

/// Number of shares.
pub(crate) const SHARES: usize = Share::FillWait as usize + 1;

/// What translations cost. Translations overlap: these are sums of latencies, not stalls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TranslationStatistics {
    /// Translations beyond the first-level TLB.
    pub(crate) translations: u64,
    /// Their latencies, and waits of first-level hits for a fill; the sum of `shares`.
    pub(crate) cycles: u64,
    pub(crate) shares: [u64; SHARES],
    pub(crate) reads_by_level: [u64; LEVELS],
    /// Cycles walkers were occupied.
    pub(crate) walker_cycles: u64,
    /// Look-ups and fills by [`Unit`].
    pub(crate) unit_accesses: [u64; Unit::COUNT],
    /// Checks of segments.
    pub(crate) checks: u64,
    /// B-blocks found in selection bitmaps.
    pub(crate) selections: u64,
}

impl TranslationStatistics {
    /// Forgets what is counted when it happens, and keeps what is counted in program order.
    pub(crate) fn reset_times(&mut self) {
        (self.translations, self.cycles, self.walker_cycles) = (0, 0, 0);
        self.shares = [0; SHARES];
    }

    pub(crate) fn add(&mut self, more: &Self) {
        let sum = |own: &mut [u64], more: &[u64]| {
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        };
        self.translations += more.translations;
        self.cycles += more.cycles;
        sum(&mut self.shares, &more.shares);
        sum(&mut self.reads_by_level, &more.reads_by_level);
        self.walker_cycles += more.walker_cycles;
        sum(&mut self.unit_accesses, &more.unit_accesses);
        self.checks += more.checks;
        self.selections += more.selections;
    }

    pub(crate) fn scale(&mut self, factor: &Factor) {
        let Self { translations, cycles, walker_cycles, checks, selections, .. } = self;
        factor.scale([translations, cycles, walker_cycles, checks, selections]);
        factor.scale_parts(&mut self.shares);
        factor.scale_parts(&mut self.reads_by_level);
        factor.scale(&mut self.unit_accesses);
    }
}

/// A translation beyond the first-level TLB. The number is used again when it is done and nobody
/// asks for it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalkId(u32);

impl WalkId {
    const NONE: Self = Self(u32::MAX);
}

impl Default for WalkId {
    fn default() -> Self {
        Self::NONE
    }
}

/// Stands for all stages of a translation.
const ALL_STAGES: u8 = u8::MAX;

/// Who fills an entry.
#[derive(Clone, Copy, Debug)]
struct Slot {
    walk: WalkId,
    /// Which of the translations that had this number.
    generation: u32,
    /// The stage after which the entry is usable.
    stage: u8,
}

/// Where an access finds its translation. It is used for one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translated {
    walk: WalkId,
    stage: u8,
    /// When it was known to be there.
    ready: u64,
}

impl Translated {
    /// Whether it is there now, at no cost.
    #[inline]
    pub(crate) fn is_here(&self, now: u64) -> bool {
        self.walk == WalkId::NONE && self.ready <= now
    }

    /// Whether it is in the first-level TLB, or will be.
    #[inline]
    pub(crate) fn is_first_level_hit(&self) -> bool {
        self.stage != ALL_STAGES
    }
}

/// The steps during which a walker is occupied, first and last included.
#[derive(Clone, Copy, Debug)]
struct Occupancy {
    first: usize,
    last: usize,
}

impl Occupancy {
    /// From the first to the last of what a walker does: reads, checks of segments, selections of
    /// B-blocks, look-ups of walk caches and of guest-physical addresses. None without a read: then
    /// nothing walks.
    fn of(list: &[Step], bitmaps: BitmapReader) -> Option<Self> {
        let is_bitmap = |purpose| matches!(purpose, Purpose::Bitmap | Purpose::HostBitmap);
        let is_walkers_read = |step: &Step| {
            matches!(step.action, Action::Read { .. })
                && (bitmaps == BitmapReader::Walker || !is_bitmap(step.purpose))
        };
        list.iter().position(is_walkers_read)?;
        let is_walkers = |step: &Step| match step.action {
            Action::Read { .. } => is_walkers_read(step),
            Action::Check | Action::Select => true,
            Action::Hit { unit, .. } | Action::Miss { unit } => {
                let reads_bitmap = bitmaps == BitmapReader::Walker || !is_bitmap(step.purpose);
                unit.is_walkers() || (step.purpose.is_host() && reads_bitmap)
            }
            Action::Fill { .. } => false,
        };
        let first = list.iter().position(is_walkers)?;
        let last = list.iter().rposition(is_walkers)?;
        Some(Self { first, last })
    }
}

/// How a translation comes by a walker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Walker {
    /// It has not asked, or needs none.
    #[default]
    None,
    /// It has asked at this time, and waits.
    Asked(u64),
    /// It has had one since this time.
    Has(u64),
    /// It uses that of a translation that waits for it.
    Borrowed,
}

/// What a step needs besides the clock.
#[derive(Clone, Copy, Debug)]
enum Needs {
    Nothing,
    /// A line, which the walker reads.
    Line(Data),
    /// An entry, which another translation may yet have to fill.
    Entry(Translated),
}

/// One translation.
#[derive(Clone, Debug, Default)]
struct Walk {
    generation: u32,
    /// Those that take time, or begin a stage.
    steps: Vec<Step>,
    needs: Vec<Needs>,
    occupancy: Option<Occupancy>,
    has_begun: bool,
    walker: Walker,
    /// Whoever waits for it lends it a walker when it needs one.
    may_borrow: bool,
    start: u64,
    /// The first step of the stage that is next or under way, and one behind its last.
    stage: std::ops::Range<usize>,
    /// When that stage begins or began.
    now: u64,
    /// Steps of the stage that are not done.
    pending: u16,
    slowest: Ended,
    /// When each stage ended, as far as known.
    ends: Vec<u64>,
    /// What it did when, as far as known.
    timeline: Timeline,
    /// When all is done.
    end: u64,
    wanted: Vec<(Wanted, u64)>,
    /// Translations whose entries it waits for.
    awaits: Vec<WalkId>,
    /// Goes on in the background when this one is done.
    background: WalkId,
    is_background: bool,
    uses: Uses,
}

impl Numbered for Walk {
    fn uses(&mut self) -> &mut Uses {
        &mut self.uses
    }

    fn done(&self) -> u64 {
        self.end
    }
}

/// How one step ended.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    at: u64,
    share: usize,
    fill_wait: u64,
    /// Until when a read waited for MSHRs; 0 if it did not.
    mshr_until: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Translation {
    /// The cache that page walkers read.
    walker_level: usize,
    slots: [Vec<Slot>; Unit::COUNT],
    walkers: Pool<WalkId>,
    bitmaps: BitmapReader,
    /// Of look-ups that find something.
    latencies: [u64; Unit::COUNT],
    /// Of those that find nothing.
    miss_latencies: [u64; Unit::COUNT],
    read_overhead: u64,
    check: u64,
    selection: u64,
    walks: Vec<Walk>,
    numbers: Numbers,
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
    ) -> Self {
        let mut latencies = [0; Unit::COUNT];
        latencies[Unit::L2Tlb as usize] = config.l2_tlb_cycles.into();
        latencies[Unit::WalkCache as usize] = config.walk_cache_cycles.into();
        latencies[Unit::HostWalkCache as usize] = config.walk_cache_cycles.into();
        latencies[Unit::NestedTlb as usize] = config.nested_tlb_cycles.into();
        // They are looked up together, so that neither is waited for alone.
        latencies[Unit::BesideL2 as usize] = config.l2_tlb_cycles.into();
        latencies[Unit::HostBesideL2 as usize] = config.l2_tlb_cycles.into();
        let mut miss_latencies = latencies;
        if let Some(cycles) = config.walk_cache_miss_cycles {
            miss_latencies[Unit::WalkCache as usize] = cycles.into();
            miss_latencies[Unit::HostWalkCache as usize] = cycles.into();
        }
        let empty = Slot { walk: WalkId::NONE, generation: 0, stage: 0 };
        Self {
            walker_level,
            slots: slots.map(|count| vec![empty; count]),
            walkers: Pool::new(config.walkers),
            bitmaps: config.bitmap_reader,
            latencies,
            miss_latencies,
            read_overhead: config.read_overhead_cycles.into(),
            check: config.segment_check_cycles.into(),
            selection: config.selection_cycles.into(),
            walks: Vec::new(),
            numbers: Numbers::default(),
            statistics: TranslationStatistics::default(),
        }
    }

    /// Number of page walkers.
    pub(crate) fn walkers(&self) -> u64 {
        self.walkers.units()
    }

    /// Takes note of an access in program order: a hit in the first-level TLB `unit` if there are
    /// no steps.
    #[inline]
    pub(crate) fn prepare(
        &mut self,
        memory: &mut Hierarchy,
        unit: Unit,
        slot: u32,
        steps: StepLists<'_>,
        now: u64,
    ) -> Translated {
        if steps.awaited.is_empty() {
            return self.entry(unit, slot, now);
        }
        let walk = self.new_walk(memory, steps.awaited, now);
        if !steps.background.is_empty() {
            let background = self.new_walk(memory, steps.background, now);
            self.walks[background.0 as usize].is_background = true;
            self.walks[walk.0 as usize].background = background;
        }
        Translated { walk, stage: ALL_STAGES, ready: UNKNOWN }
    }

    /// Who fills an entry that an access has found, if it is not there yet.
    #[inline]
    fn entry(&mut self, unit: Unit, slot: u32, now: u64) -> Translated {
        let slot = &mut self.slots[unit as usize][slot as usize];
        let here = Translated { walk: WalkId::NONE, stage: 0, ready: 0 };
        let Some(walk) = self.walks.get_mut(slot.walk.0 as usize) else { return here };
        if walk.generation != slot.generation || walk.end <= now {
            slot.walk = WalkId::NONE;
            return here;
        }
        let ready = walk.ends[usize::from(slot.stage)];
        if ready != UNKNOWN {
            return Translated { ready, ..here };
        }
        walk.uses.expected += 1;
        Translated { walk: slot.walk, stage: slot.stage, ready }
    }

    #[inline(never)]
    fn new_walk(&mut self, memory: &mut Hierarchy, steps: &[Step], now: u64) -> WalkId {
        let id = WalkId(self.numbers.take(&mut self.walks, now).unwrap_or_else(|| {
            self.walks.push(Walk::default());
            (self.walks.len() - 1) as u32
        }));
        let walk = &mut self.walks[id.0 as usize];
        walk.reuse(steps.last().map_or(0, |last| usize::from(last.stage) + 1));
        let generation = walk.generation;
        let mut kept = std::mem::take(&mut walk.steps);
        let mut needs = std::mem::take(&mut walk.needs);
        let mut stage = None;
        for step in steps {
            let needed = match step.action {
                Action::Read { address } => {
                    let (level, line) = (self.walker_level, address.value() >> LINE_SHIFT);
                    let found = memory.locate(level, line, false, Origin::Walker, now);
                    self.statistics.reads_by_level[kind(found.from)] += 1;
                    Needs::Line(found.data)
                }
                Action::Hit { unit, slot } => {
                    self.statistics.unit_accesses[unit as usize] += 1;
                    let entry = self.entry(unit, slot, now);
                    if entry.walk == id {
                        // An earlier stage of this translation fills it.
                        self.came(id);
                        Needs::Nothing
                    } else {
                        Needs::Entry(entry)
                    }
                }
                Action::Miss { unit } => {
                    self.statistics.unit_accesses[unit as usize] += 1;
                    Needs::Nothing
                }
                Action::Fill { unit, slot } => {
                    self.statistics.unit_accesses[unit as usize] += 1;
                    self.slots[unit as usize][slot as usize] =
                        Slot { walk: id, generation, stage: step.stage };
                    if stage == Some(step.stage) {
                        // It takes no time of its own.
                        continue;
                    }
                    Needs::Nothing
                }
                Action::Check => {
                    self.statistics.checks += 1;
                    Needs::Nothing
                }
                Action::Select => {
                    self.statistics.selections += 1;
                    Needs::Nothing
                }
            };
            stage = Some(step.stage);
            kept.push(*step);
            needs.push(needed);
        }
        let walk = &mut self.walks[id.0 as usize];
        walk.occupancy = Occupancy::of(&kept, self.bitmaps);
        (walk.steps, walk.needs) = (kept, needs);
        id
    }

    /// A translation outside time: the walker's reads leave their lines in the caches, and entries
    /// are there at once.
    pub(crate) fn warm(&mut self, memory: &mut Hierarchy, steps: StepLists<'_>) {
        for step in steps.awaited.iter().chain(steps.background) {
            match step.action {
                Action::Read { address } => {
                    let (level, line) = (self.walker_level, address.value() >> LINE_SHIFT);
                    memory.warm(level, line, false, Origin::Walker);
                }
                Action::Fill { unit, slot } => {
                    self.slots[unit as usize][slot as usize].walk = WalkId::NONE;
                }
                Action::Hit { .. } | Action::Miss { .. } | Action::Check | Action::Select => {}
            }
        }
    }

    /// One access fewer will come for this translation.
    fn came(&mut self, id: WalkId) {
        self.numbers.came(&mut self.walks, id.0);
    }

    /// An access asks for its translation at `time`, now or later. Returns when it is there if that
    /// is known; otherwise `waiter` will be told.
    #[inline]
    pub(crate) fn access(
        &mut self,
        agenda: &mut Agenda,
        translated: Translated,
        time: u64,
        waiter: Waiter,
    ) -> Option<u64> {
        if translated.walk == WalkId::NONE {
            return Some(translated.ready.max(time));
        }
        let (stage, thread) = (translated.stage, agenda.thread);
        let wanted = Wanted { stage, waiter, thread, lends_walker: false };
        self.ask(agenda, translated.walk, wanted, time)
    }

    /// What a translation asked for at `start` did until it was there at `end`.
    pub(crate) fn explain(
        &self,
        translated: Translated,
        start: u64,
        end: u64,
        timeline: &mut Timeline,
    ) {
        if let Some(walk) = self.walks.get(translated.walk.0 as usize) {
            timeline.extend(&walk.timeline, start, end);
        }
        timeline.push(end, Cause::FILL_WAIT);
    }

    /// The cycles that a hit in the first-level TLB waited for its entry.
    #[inline]
    pub(crate) fn waited(&mut self, cycles: u64) {
        self.statistics.cycles += cycles;
        self.statistics.shares[Share::FillWait as usize] += cycles;
    }

    fn ask(&mut self, agenda: &mut Agenda, id: WalkId, wanted: Wanted, time: u64) -> Option<u64> {
        let walk = &mut self.walks[id.0 as usize];
        let known = walk.end_of(wanted.stage);
        if known != UNKNOWN {
            self.came(id);
            return Some(known.max(time));
        }
        if walk.has_begun {
            walk.wanted.push((wanted, time));
            self.came(id);
            if wanted.lends_walker {
                self.lend(agenda, id, time);
            }
        } else {
            agenda.schedule(time, Event::Translate { walk: id, wanted });
        }
        None
    }

    /// Somebody wants a translation that had not begun when they asked.
    pub(crate) fn translate(&mut self, shared: &mut Shared, id: WalkId, wanted: Wanted) {
        let now = shared.agenda.now;
        if !self.walks[id.0 as usize].has_begun {
            self.begin(shared, id, now);
        }
        if let Some(time) = self.ask(&mut shared.agenda, id, wanted, now) {
            shared.agenda.tell_thread(wanted.thread, wanted.waiter, time);
        }
    }

    fn begin(&mut self, shared: &mut Shared, id: WalkId, time: u64) {
        let walk = &mut self.walks[id.0 as usize];
        walk.has_begun = true;
        (walk.start, walk.now) = (time, time);
        self.proceed(shared, id);
    }

    /// A translation, and all that it waits for, needs no walker of its own any more.
    fn lend(&mut self, agenda: &mut Agenda, id: WalkId, time: u64) {
        let walk = &mut self.walks[id.0 as usize];
        if walk.may_borrow || walk.end != UNKNOWN || matches!(walk.walker, Walker::Has(_)) {
            return;
        }
        walk.may_borrow = true;
        if matches!(walk.walker, Walker::Asked(_)) {
            // Otherwise it has yet to come to the walkers.
            if self.walkers.withdraw(&id) {
                agenda.schedule(time.max(agenda.now), Event::Walker { walk: id });
            }
        }
        for index in 0..self.walks[id.0 as usize].awaits.len() {
            let awaited = self.walks[id.0 as usize].awaits[index];
            self.lend(agenda, awaited, time);
        }
    }

    /// A translation has come to where it needs a walker.
    pub(crate) fn ask_for_walker(&mut self, shared: &mut Shared, id: WalkId) {
        let now = shared.agenda.now;
        if self.walks[id.0 as usize].may_borrow || self.walkers.request(now, id) {
            self.get_walker(shared, id);
        } else {
            self.set_alarm(&mut shared.agenda);
        }
    }

    /// Walkers may have become free.
    pub(crate) fn walker_free(&mut self, shared: &mut Shared) {
        while let Some(id) = self.walkers.next(shared.agenda.now) {
            self.get_walker(shared, id);
        }
        self.set_alarm(&mut shared.agenda);
    }

    fn set_alarm(&mut self, agenda: &mut Agenda) {
        if let Some(time) = self.walkers.alarm() {
            agenda.schedule(time, Event::WalkerFree);
        }
    }

    fn get_walker(&mut self, shared: &mut Shared, id: WalkId) {
        let now = shared.agenda.now;
        let walk = &mut self.walks[id.0 as usize];
        let Walker::Asked(asked) = walk.walker else { unreachable!("{id:?} did not ask") };
        walk.walker = if walk.may_borrow { Walker::Borrowed } else { Walker::Has(now) };
        walk.now = now;
        walk.timeline.push(now, Cause::WALKER_QUEUE);
        self.statistics.shares[Share::WalkerQueue as usize] += now - asked;
        self.perform_stage(shared, id);
        self.proceed(shared, id);
    }

    /// Goes on, stage by stage, until something has to be waited for.
    fn proceed(&mut self, shared: &mut Shared, id: WalkId) {
        while self.walks[id.0 as usize].pending == 0 {
            if !self.end_stage(shared, id) {
                return;
            }
            let walk = &mut self.walks[id.0 as usize];
            let needs_walker =
                walk.occupancy.is_some_and(|occupancy| walk.stage.contains(&occupancy.first));
            if needs_walker && !walk.is_background && walk.walker == Walker::None {
                walk.walker = Walker::Asked(walk.now);
                shared.agenda.schedule(walk.now, Event::Walker { walk: id });
                walk.pending = u16::MAX;
                return;
            }
            self.perform_stage(shared, id);
        }
    }

    /// Performs the steps of one stage side by side.
    fn perform_stage(&mut self, shared: &mut Shared, id: WalkId) {
        let walk = &mut self.walks[id.0 as usize];
        let (stage, now) = (walk.stage.clone(), walk.now);
        walk.slowest = Ended { at: now, ..Ended::default() };
        walk.pending = stage.len() as u16;
        let lends_walker = walk.may_borrow || matches!(walk.walker, Walker::Has(_));
        for index in stage {
            let walk = &self.walks[id.0 as usize];
            let waiter = Waiter::Step { walk: id, step: index as u16 };
            let done = match (walk.steps[index].action, walk.needs[index]) {
                (Action::Read { .. }, Needs::Line(data)) => {
                    let Shared { agenda, waiters, memory } = shared;
                    let level = self.walker_level;
                    memory.access(agenda, waiters, level, data, now + self.read_overhead, waiter)
                }
                (_, Needs::Entry(entry)) if entry.walk != WalkId::NONE => {
                    let (stage, thread) = (entry.stage, shared.agenda.thread);
                    let wanted = Wanted { stage, waiter, thread, lends_walker };
                    let known = self.ask(&mut shared.agenda, entry.walk, wanted, now);
                    if known.is_none() {
                        self.walks[id.0 as usize].awaits.push(entry.walk);
                    }
                    known
                }
                (_, Needs::Entry(entry)) => Some(entry.ready.max(now)),
                _ => Some(now),
            };
            if let Some(done) = done {
                self.end_step(&shared.memory, id, index, done);
            }
        }
    }

    /// What a step waited for is there at `time`.
    pub(crate) fn step_done(&mut self, shared: &mut Shared, id: WalkId, step: u16, time: u64) {
        self.end_step(&shared.memory, id, usize::from(step), time);
        self.proceed(shared, id);
    }

    /// What a step needs is there at `time`.
    fn end_step(&mut self, memory: &Hierarchy, id: WalkId, index: usize, time: u64) {
        let walk = &mut self.walks[id.0 as usize];
        let Step { action, purpose, .. } = walk.steps[index];
        let now = walk.now;
        let of = |at, share| Ended { at, share, fill_wait: 0, mshr_until: 0 };
        let ended = match action {
            Action::Hit { unit, .. } => {
                let found = now + self.latencies[unit as usize];
                let at = found.max(time);
                let share = look_up_share(unit, purpose);
                Ended { at, share, fill_wait: at - found, mshr_until: 0 }
            }
            Action::Miss { unit } => {
                of(now + self.miss_latencies[unit as usize], look_up_share(unit, purpose))
            }
            Action::Read { .. } => {
                let mshr_until = match walk.needs[index] {
                    Needs::Line(data) => {
                        memory.served_how(self.walker_level, data, now, time).waited_until
                    }
                    Needs::Nothing | Needs::Entry(_) => 0,
                };
                Ended { at: time, share: purpose as usize, fill_wait: 0, mshr_until }
            }
            Action::Check => of(now + self.check, Share::SegmentCheck as usize),
            Action::Select => of(now + self.selection, Share::Selection as usize),
            Action::Fill { .. } => of(now, 0),
        };
        if ended.at > walk.slowest.at {
            walk.slowest = ended;
        }
        walk.pending -= 1;
    }

    /// Ends the stage under way, if there is one, and turns to the next; whether there is one.
    fn end_stage(&mut self, shared: &mut Shared, id: WalkId) -> bool {
        let walk = &mut self.walks[id.0 as usize];
        if !walk.stage.is_empty() {
            let Ended { at, share, fill_wait, mshr_until } = walk.slowest;
            if at > walk.now {
                if mshr_until > walk.now {
                    walk.timeline.push(mshr_until.min(at), Cause::WALK_MSHR);
                }
                walk.timeline.push(at - fill_wait, Cause::share(share));
                walk.timeline.push(at, Cause::FILL_WAIT);
            }
            if !walk.is_background {
                self.statistics.shares[Share::FillWait as usize] += fill_wait;
                self.statistics.shares[share] += at - walk.now - fill_wait;
            }
            if let (Walker::Has(since), Some(occupancy)) = (walk.walker, walk.occupancy)
                && walk.stage.contains(&occupancy.last)
            {
                self.statistics.walker_cycles += at - since;
                self.walkers.release(at);
                if let Some(time) = self.walkers.alarm() {
                    shared.agenda.schedule(time, Event::WalkerFree);
                }
            }
            walk.awaits.clear();
            walk.now = at;
            let stage = walk.steps[walk.stage.start].stage;
            walk.ends[usize::from(stage)] = at;
            walk.tell(&mut shared.agenda, stage, at);
        }
        let start = walk.stage.end;
        let Some(first) = walk.steps.get(start) else {
            self.finish(shared, id);
            return false;
        };
        let length = walk.steps[start..].iter().take_while(|step| step.stage == first.stage);
        walk.stage = start..start + length.count();
        true
    }

    fn finish(&mut self, shared: &mut Shared, id: WalkId) {
        let walk = &mut self.walks[id.0 as usize];
        let end = walk.now;
        walk.end = end;
        walk.tell(&mut shared.agenda, ALL_STAGES, end);
        if !walk.is_background {
            self.statistics.translations += 1;
            self.statistics.cycles += end - walk.start;
        }
        if walk.background != WalkId::NONE {
            let (stage, thread) = (ALL_STAGES, shared.agenda.thread);
            let nobody = Waiter::Nobody;
            let wanted = Wanted { stage, waiter: nobody, thread, lends_walker: false };
            shared.agenda.schedule(end, Event::Translate { walk: walk.background, wanted });
        }
        self.numbers.retire(&mut self.walks, id.0);
    }
}

impl Walk {
    /// Becomes another translation, of which the steps are to be told.
    fn reuse(&mut self, stages: usize) {
        self.generation = self.generation.wrapping_add(1);
        self.steps.clear();
        self.needs.clear();
        self.has_begun = false;
        self.walker = Walker::None;
        self.may_borrow = false;
        self.stage = 0..0;
        self.pending = 0;
        self.ends.clear();
        self.ends.resize(stages, UNKNOWN);
        self.timeline.clear();
        self.end = UNKNOWN;
        self.background = WalkId::NONE;
        self.is_background = false;
        self.uses = Uses::ONE;
    }

    fn end_of(&self, stage: u8) -> u64 {
        if stage == ALL_STAGES { self.end } else { self.ends[usize::from(stage)] }
    }

    /// Tells those who wait for the end of a stage.
    fn tell(&mut self, agenda: &mut Agenda, stage: u8, time: u64) {
        self.wanted.retain(|(wanted, from)| {
            if wanted.stage == stage {
                agenda.tell_thread(wanted.thread, wanted.waiter, time.max(*from));
            }
            wanted.stage != stage
        });
    }
}

fn look_up_share(unit: Unit, purpose: Purpose) -> usize {
    let share = match (unit, purpose) {
        (Unit::WalkCache | Unit::HostWalkCache, _) => Share::WalkCache,
        (_, Purpose::Bitmap | Purpose::HostBitmap) => Share::BitmapLookup,
        (_, Purpose::HostPage) => Share::NestedTlb,
        _ => Share::L2Tlb,
    };
    share as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a translation left behind must not change one that has its number later.
    #[test]
    fn a_reused_translation_is_as_a_new_one() {
        let mut used = Walk {
            needs: vec![Needs::Nothing],
            has_begun: true,
            walker: Walker::Has(3),
            may_borrow: true,
            stage: 1..2,
            pending: 4,
            ends: vec![5, 6, 7],
            end: 8,
            background: WalkId(9),
            is_background: true,
            ..Walk::default()
        };
        used.timeline.push(1, Cause::WALKER_QUEUE);
        let mut new = Walk::default();
        for walk in [&mut used, &mut new] {
            walk.reuse(2);
        }
        assert_eq!(format!("{used:?}"), format!("{new:?}"));
    }
}
