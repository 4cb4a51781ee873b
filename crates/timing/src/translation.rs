//! Turns the steps of a translation into cycles: TLB look-ups, walker slots, walker reads,
//! fills in flight.

use perforate_types::{Action, PhysicalAddress, Purpose, Step, Steps, Unit};

use crate::LINE_SHIFT;
use crate::config::WalkerConfig;
use crate::hierarchy::{Hierarchy, LEVELS, Origin, Served};
use crate::interval::Pool;

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

/// When the entry of a slot is there, and how long its fill took.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    ready: u64,
    latency: u64,
}

impl Slot {
    /// When an access at `now` can use the entry. One that comes before the fill began would
    /// have begun it: the fill moves forward, as for cache lines.
    #[inline]
    fn arrival(&mut self, now: u64) -> u64 {
        if self.ready <= now {
            return now;
        }
        self.ready = self.ready.min(now + self.latency);
        self.ready
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Translation {
    slots: [Vec<Slot>; Unit::COUNT],
    walkers: Pool,
    walker_level: usize,
    latencies: [u64; Unit::COUNT],
    read_overhead: u64,
    check: u64,
    selection: u64,
    pub(crate) statistics: TranslationStatistics,
}

/// The steps during which a walker is occupied, first and last included.
#[derive(Clone, Copy)]
struct Occupancy {
    first: usize,
    last: usize,
}

impl Occupancy {
    /// From the first to the last of what a walker does: reads, checks of segments, selections of
    /// B-blocks, look-ups of walk caches and of guest-physical addresses. None without a read: then nothing walks.
    fn of(list: &[Step]) -> Option<Self> {
        list.iter().position(|step| matches!(step.action, Action::Read { .. }))?;
        let is_walkers = |step: &Step| match step.action {
            Action::Read { .. } | Action::Check | Action::Select => true,
            Action::Hit { unit, .. } | Action::Miss { unit } => {
                unit.is_walkers() || step.purpose.is_host()
            }
            Action::Fill { .. } => false,
        };
        let first = list.iter().position(is_walkers)?;
        let last = list.iter().rposition(is_walkers)?;
        Some(Self { first, last })
    }
}

/// How one step ended.
struct Ended {
    at: u64,
    share: usize,
    fill_wait: u64,
}

impl Translation {
    /// `read_cycles` is the shortest a walker read can take in the cache it reads through.
    pub(crate) fn new(
        config: &WalkerConfig,
        read_cycles: u64,
        slots: [usize; Unit::COUNT],
    ) -> Self {
        let mut latencies = [0; Unit::COUNT];
        latencies[Unit::L2Tlb as usize] = config.l2_tlb_cycles.into();
        latencies[Unit::WalkCache as usize] = config.walk_cache_cycles.into();
        latencies[Unit::HostWalkCache as usize] = config.walk_cache_cycles.into();
        latencies[Unit::NestedTlb as usize] = config.nested_tlb_cycles.into();
        // They are looked up together, so that neither is waited for alone.
        latencies[Unit::BesideL2 as usize] = config.l2_tlb_cycles.into();
        latencies[Unit::HostBesideL2 as usize] = config.l2_tlb_cycles.into();
        Self {
            slots: slots.map(|count| vec![Slot::default(); count]),
            walkers: Pool::new(config.walkers, read_cycles),
            walker_level: Hierarchy::walker_level(config.attach),
            latencies,
            read_overhead: config.read_overhead_cycles.into(),
            check: config.segment_check_cycles.into(),
            selection: config.selection_cycles.into(),
            statistics: TranslationStatistics::default(),
        }
    }

    /// When the translation wanted at `now` is there: a hit in the first-level TLB `unit` if
    /// there are no steps, else what the steps take.
    #[inline]
    pub(crate) fn translate(
        &mut self,
        memory: &mut Hierarchy,
        unit: Unit,
        slot: u32,
        steps: &Steps,
        now: u64,
    ) -> u64 {
        if !steps.is_empty() {
            let done = self.perform(memory, steps.as_slice(), now);
            if !steps.background().is_empty() {
                self.perform_in_background(memory, steps.background(), done);
            }
            return done;
        }
        let arrival = self.slots[unit as usize][slot as usize].arrival(now);
        self.statistics.cycles += arrival - now;
        self.statistics.shares[Share::FillWait as usize] += arrival - now;
        arrival
    }

    #[inline(never)]
    fn perform(&mut self, memory: &mut Hierarchy, list: &[Step], start: u64) -> u64 {
        let occupancy = Occupancy::of(list);
        let mut offer = None;
        let mut now = start;
        let mut next = 0;
        while next < list.len() {
            let stage = list[next].stage;
            let length = list[next..].iter().take_while(|step| step.stage == stage).count();
            let range = next..next + length;
            if let Some(occupancy) = occupancy
                && range.contains(&occupancy.first)
            {
                let granted = self.walkers.offer(now);
                self.charge(Share::WalkerQueue, granted.start - now);
                offer = Some((granted, now));
                now = granted.start;
            }
            let mut done = self.stage(memory, &list[range.clone()], now);
            if let Some((granted, asked)) = offer
                && occupancy.is_some_and(|occupancy| range.contains(&occupancy.last))
            {
                let delay = self.walkers.book(granted, asked, done, memory.horizon);
                self.charge(Share::WalkerQueue, delay);
                self.statistics.walker_cycles += done - granted.start;
                self.postpone_fills(&list[..next], delay);
                done += delay;
                offer = None;
            }
            self.fill(&list[range], done, done - start);
            now = done;
            next += length;
        }
        self.statistics.translations += 1;
        self.statistics.cycles += now - start;
        now
    }

    /// Steps that no access waits for. They take part in the use of caches and memory, and what
    /// they fill is usable when they are done; no walker of page tables is occupied.
    #[inline(never)]
    fn perform_in_background(&mut self, memory: &mut Hierarchy, list: &[Step], start: u64) {
        let mut now = start;
        for stage in list.chunk_by(|one, other| one.stage == other.stage) {
            let done = stage.iter().map(|step| self.step(memory, *step, now).at).max();
            now = done.unwrap_or(now);
            self.fill(stage, now, now - start);
        }
    }

    fn charge(&mut self, share: Share, cycles: u64) {
        self.statistics.shares[share as usize] += cycles;
    }

    /// Performs the steps of one stage side by side; the time goes to the slowest.
    fn stage(&mut self, memory: &mut Hierarchy, steps: &[Step], now: u64) -> u64 {
        let mut slowest = Ended { at: now, share: 0, fill_wait: 0 };
        for step in steps {
            let ended = self.step(memory, *step, now);
            if ended.at > slowest.at {
                slowest = ended;
            }
        }
        self.charge(Share::FillWait, slowest.fill_wait);
        self.statistics.shares[slowest.share] += slowest.at - now - slowest.fill_wait;
        slowest.at
    }

    fn step(&mut self, memory: &mut Hierarchy, step: Step, now: u64) -> Ended {
        match step.action {
            Action::Hit { unit, slot } => {
                self.statistics.unit_accesses[unit as usize] += 1;
                let found = now + self.latencies[unit as usize];
                let at = self.slots[unit as usize][slot as usize].arrival(now).max(found);
                Ended { at, share: look_up_share(unit, step.purpose), fill_wait: at - found }
            }
            Action::Miss { unit } => {
                self.statistics.unit_accesses[unit as usize] += 1;
                let at = now + self.latencies[unit as usize];
                Ended { at, share: look_up_share(unit, step.purpose), fill_wait: 0 }
            }
            Action::Read { address } => {
                let served = self.read(memory, address, now + self.read_overhead);
                self.statistics.reads_by_level[served.from] += 1;
                Ended { at: served.done, share: step.purpose as usize, fill_wait: 0 }
            }
            Action::Check => {
                self.statistics.checks += 1;
                Ended { at: now + self.check, share: Share::SegmentCheck as usize, fill_wait: 0 }
            }
            Action::Select => {
                self.statistics.selections += 1;
                Ended { at: now + self.selection, share: Share::Selection as usize, fill_wait: 0 }
            }
            Action::Fill { unit, .. } => {
                self.statistics.unit_accesses[unit as usize] += 1;
                Ended { at: now, share: 0, fill_wait: 0 }
            }
        }
    }

    fn read(&mut self, memory: &mut Hierarchy, address: PhysicalAddress, now: u64) -> Served {
        let line = address.value() >> LINE_SHIFT;
        memory.access(self.walker_level, line, now, false, Origin::Walker)
    }

    /// Entries filled in this stage are usable from `ready` on.
    fn fill(&mut self, steps: &[Step], ready: u64, latency: u64) {
        for step in steps {
            if let Action::Fill { unit, slot } = step.action {
                self.slots[unit as usize][slot as usize] = Slot { ready, latency };
            }
        }
    }

    /// The walk fits `delay` cycles later than it was timed, and so do its fills so far.
    fn postpone_fills(&mut self, steps: &[Step], delay: u64) {
        if delay == 0 {
            return;
        }
        for step in steps {
            if let Action::Fill { unit, slot } = step.action {
                self.slots[unit as usize][slot as usize].ready += delay;
            }
        }
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
