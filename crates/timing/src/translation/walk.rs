//! Progress of one translation through its steps, in order of time.

use super::*;
use crate::agenda::{Agenda, Event, List, Thread};
use crate::critical_path::Cause;
use crate::hierarchy::{Data, Served};
use crate::shared::Shared;

/// Result of another unit that a task has to wait for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Needs {
    #[default]
    Nothing,
    /// Cache line that the task reads.
    Line(Data),
    /// TLB or walk-cache entry that an older walk may still be filling.
    Entry(Translated),
}

impl Needs {
    /// Returns the walk that still fills the entry that a look-up hit; [`Self::Nothing`] if the entry is filled.
    #[inline(always)]
    pub(super) fn entry(entry: Translated) -> Self {
        if entry.is_here() { Self::Nothing } else { Self::Entry(entry) }
    }
}

/// Look-up at the beginning of a translation or stage that waits for nothing. Its cycles are added to what follows, so
/// that it needs no [`Task`] of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lead {
    pub(super) cycles: u16,
    /// Index of the [`Share`] that the cycles count towards.
    pub(super) share: u8,
}

impl Lead {
    /// Adds the cycles to their share.
    #[inline(always)]
    fn count(self, statistics: &mut TranslationStatistics) {
        statistics.shares[usize::from(self.share)] += u64::from(self.cycles);
    }
}

/// Step of a translation that takes time: a look-up, check or read. The tasks of one stage run in parallel;
/// the next stage begins when the slowest has completed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Task {
    /// Cycle at which the stage (group of parallel tasks) ends, once known; only set in the first task of the
    /// stage.
    pub(super) end: u64,
    pub(super) needs: Needs,
    /// Cycles of a look-up or check; 0 for a read.
    pub(super) latency: u16,
    /// Index of the [`Share`] that the cycles count towards. When a stage has ended, its first task has the
    /// share of the slowest.
    pub(super) share: u8,
    /// Number of parallel tasks in the stage that begins with this task; 0 in its other tasks.
    pub(super) stage: u8,
    /// [`Lead::share`] of the stage that begins with this task.
    lead_share: u8,
    /// [`Lead::cycles`] of the stage that begins with this task; 0 without a look-up before it.
    lead_cycles: u16,
    /// `wait` is for MSHRs, at the beginning; otherwise for a TLB entry to be filled, at the end.
    waited_for_mshr: bool,
    /// For the slowest of a group of parallel tasks: cycles that it waited.
    wait: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The translation has been noted in program order, but no access has requested it yet.
    #[default]
    Idle,
    Begun,
}

/// Page walker of a translation: requested, granted or borrowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Holds {
    /// No walker requested yet, or none needed.
    #[default]
    None,
    /// Walker requested, not yet granted.
    Asked,
    /// Walker granted to this translation.
    Walker,
    /// Runs on the walker of another translation, which waits for this one.
    Borrowed,
}

/// Completion of a task, or of the slowest task of a stage (group of parallel tasks).
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    at: u64,
    wait: u32,
    waited_for_mshr: bool,
    share: u8,
}

/// State of one translation: its tasks, progress, page walker, and the parties that wait for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    start: u64,
    /// Cycle at which the current stage (group of parallel tasks) began, or the next one begins.
    now: u64,
    pub(super) end: u64,
    /// Cycle at which the translation requested a walker; after the grant, cycle of the grant.
    walker_since: u64,
    slowest: Ended,
    /// Look-up without a page walker that the translation begins with.
    pub(super) lead: Lead,
    /// Number of the first task, in the ring buffer of tasks.
    pub(super) first: u32,
    pub(super) tasks: u16,
    /// First task of the current or next stage (group of parallel tasks), as an index among the tasks of the
    /// translation.
    next: u16,
    /// Number of parallel tasks under way that have not completed.
    pending: u16,
    /// Indices of the first and the last task that need a page walker.
    pub(super) first_walkers: u16,
    pub(super) last_walkers: u16,
    /// A page walker makes at least one read: otherwise the translation needs no walker.
    pub(super) reads: bool,
    phase: Phase,
    holds: Holds,
    /// A walk that waits for this translation lends it a page walker.
    may_borrow: bool,
    pub(super) is_background: bool,
    owner_thread: Thread,
    /// Access that missed the first-level TLB and waits for the whole translation, and the cycle of its
    /// request.
    owner: Waiter,
    owner_from: u64,
    /// Parties that wait for a single task, because it fills the entry that they hit.
    waiters: List,
    /// Number of the background walk that begins when this one has completed, or [`NONE`].
    pub(super) background: u32,
}

impl Task {
    /// Makes a task whose cycles, `latency` for a look-up or check, count towards `share`; with `begins_stage`
    /// the first of a stage, which begins with the look-up `lead`.
    #[inline(always)]
    pub(super) fn new(
        needs: Needs,
        (latency, share): (u16, u8),
        begins_stage: bool,
        lead: Lead,
    ) -> Self {
        Self {
            end: UNKNOWN,
            needs,
            latency,
            share,
            stage: begins_stage.into(),
            lead_share: lead.share,
            lead_cycles: lead.cycles,
            ..Self::default()
        }
    }

    #[inline(always)]
    fn lead(&self) -> Lead {
        Lead { cycles: self.lead_cycles, share: self.lead_share }
    }

    /// Completion of the task, in a stage that began at cycle `start`; the line or entry that it needs came
    /// at cycle `time`.
    #[inline(always)]
    fn ended(&self, memory: &Hierarchy, walker_level: usize, start: u64, time: u64) -> Ended {
        match self.needs {
            Needs::Nothing => self.looked_up(start),
            Needs::Entry(_) => self.with_entry(start, time),
            Needs::Line(data) => {
                self.with_line(memory.served_how(walker_level, data, start, time), (start, time))
            }
        }
    }

    /// Completion of a look-up or check that began at cycle `start` and waited for nothing.
    #[inline(always)]
    fn looked_up(&self, start: u64) -> Ended {
        Ended { at: start + u64::from(self.latency), share: self.share, ..Ended::default() }
    }

    /// Completion of a look-up that began at cycle `start`, whose entry came at cycle `time`.
    #[inline(always)]
    fn with_entry(&self, start: u64, time: u64) -> Ended {
        let found = self.looked_up(start);
        let at = found.at.max(time);
        Ended { at, wait: (at - found.at) as u32, ..found }
    }

    /// Completion of a read that began at cycle `start`, whose line came at cycle `time`, as `served` says.
    #[inline(always)]
    fn with_line(&self, served: Served, (start, time): (u64, u64)) -> Ended {
        let wait = served.waited_until.saturating_sub(start) as u32;
        Ended { at: time, wait, waited_for_mshr: true, share: self.share }
    }
}

impl Walk {
    pub(super) fn new(first: u32) -> Self {
        Self { end: UNKNOWN, first, first_walkers: u16::MAX, background: NONE, ..Self::default() }
    }

    /// Number of the task that is added next.
    #[inline(always)]
    pub(super) fn next_task(&self) -> u32 {
        self.first + u32::from(self.tasks)
    }

    /// Number of the first task of the last stage.
    fn last_stage(&self, tasks: &Ring<Task>) -> u32 {
        let mut number = self.next_task().wrapping_sub(1);
        while tasks[number].stage == 0 {
            number = number.wrapping_sub(1);
        }
        number
    }

    /// True if a page walker must be requested before the next stage, a group of `stage` parallel tasks.
    #[inline]
    fn asks_for_walker(&self, stage: u8) -> bool {
        self.holds == Holds::None
            && self.first_walkers.wrapping_sub(self.next) < u16::from(stage)
            && self.reads
            && !self.is_background
    }

    /// Ends the current stage (group of parallel tasks), whose first task is `task` and whose slowest one
    /// completed as `ended` says: counts its cycles and moves on. Returns true if the page walker is
    /// released.
    #[inline(always)]
    fn end_stage(
        &mut self,
        task: &mut Task,
        ended: Ended,
        statistics: &mut TranslationStatistics,
    ) -> bool {
        let Ended { at, wait, waited_for_mshr, share } = ended;
        (task.end, task.share) = (at, share);
        (task.wait, task.waited_for_mshr) = (wait, waited_for_mshr);
        if !self.is_background {
            let fill_wait = if waited_for_mshr { 0 } else { u64::from(wait) };
            statistics.shares[Share::FillWait as usize] += fill_wait;
            let begun = self.now + u64::from(task.lead_cycles);
            statistics.shares[usize::from(share)] += at - begun - fill_wait;
        }
        let stage = u16::from(task.stage);
        let releases =
            self.holds == Holds::Walker && self.last_walkers.wrapping_sub(self.next) < stage;
        if releases {
            statistics.walker_cycles += at - self.walker_since;
        }
        (self.now, self.next) = (at, self.next + stage);
        releases
    }
}

impl Translation {
    /// Cycle at which a translation, or the task waited for, completes; `None` if not known yet.
    #[inline]
    fn end_of(&self, Translated { walk, task }: Translated) -> Option<u64> {
        let end = if task == NONE { self.walks[walk].end } else { self.tasks[task].end };
        (end != UNKNOWN).then_some(end)
    }

    /// Requests a translation at `request.time`, now or later. Returns the cycle from which it is available,
    /// if known; otherwise the waiter gets a message later.
    #[inline]
    pub(crate) fn request(
        &mut self,
        shared: &mut Shared,
        translated: Translated,
        request: Request,
    ) -> Option<u64> {
        if translated.is_here() {
            return Some(request.time);
        }
        if let Some(end) = self.end_of(translated) {
            return Some(end.max(request.time));
        }
        self.await_translation(shared, translated, request)
    }

    fn await_translation(
        &mut self,
        shared: &mut Shared,
        translated: Translated,
        request: Request,
    ) -> Option<u64> {
        let Translated { walk: id, task } = translated;
        let Request { time, waiter, at_dispatch, lends_walker } = request;
        let is_of_owner = task == NONE;
        let begins_now =
            time <= shared.agenda.now || (self.begins_at_dispatch && at_dispatch && is_of_owner);
        if begins_now && self.walks[id].phase == Phase::Idle {
            self.begin(shared, id, time, lends_walker);
            if let Some(end) = self.end_of(translated) {
                return Some(end.max(time));
            }
        }
        let (walk, agenda) = (&mut self.walks[id], &mut shared.agenda);
        match (is_of_owner, waiter) {
            // A load on a wrong path: the access on the right path comes later, and becomes the owner.
            (true, Waiter::Ahead(_)) => {
                let last = walk.last_stage(&self.tasks);
                agenda.wait_for_task(&mut walk.waiters, waiter, time, last);
            }
            (true, _) => {
                (walk.owner, walk.owner_from, walk.owner_thread) = (waiter, time, agenda.thread);
            }
            (false, _) => agenda.wait_for_task(&mut walk.waiters, waiter, time, task),
        }
        if walk.phase == Phase::Idle {
            agenda.schedule(time, Event::Translate { walk: id, lends_walker });
        } else if lends_walker {
            self.lend(agenda, id, time);
        }
        None
    }

    /// Handles the event of a request: begins translation `id` unless it has begun already, or lends it a
    /// walker.
    pub(crate) fn translate(&mut self, shared: &mut Shared, id: u32, lends_walker: bool) {
        let now = shared.agenda.now;
        if self.walks[id].phase == Phase::Idle {
            self.begin(shared, id, now, lends_walker);
        } else if lends_walker {
            self.lend(&mut shared.agenda, id, now);
        }
    }

    fn begin(&mut self, shared: &mut Shared, id: u32, time: u64, may_borrow: bool) {
        let walk = &mut self.walks[id];
        walk.phase = Phase::Begun;
        walk.may_borrow |= may_borrow;
        (walk.start, walk.now) = (time, time + u64::from(walk.lead.cycles));
        if !walk.is_background {
            walk.lead.count(&mut self.statistics);
        }
        if !self.waits_for_walker(&mut shared.agenda, id) {
            self.proceed(shared, id, None);
        }
    }

    /// Requests a page walker if the next stage of translation `id` needs one and the translation has none;
    /// returns true if it did.
    #[inline(always)]
    fn waits_for_walker(&mut self, agenda: &mut Agenda, id: u32) -> bool {
        let walk = &mut self.walks[id];
        let stage = self.tasks[walk.first.wrapping_add(walk.next.into())].stage;
        let waits = walk.asks_for_walker(stage);
        if waits {
            (walk.holds, walk.walker_since) = (Holds::Asked, walk.now);
            if walk.may_borrow || !self.walkers.expect(id, walk.now) {
                agenda.schedule(walk.now, Event::Walker { walk: id });
            }
        }
        waits
    }

    /// Lets a translation, and all that it waits for, run on the walker of the requester; withdraws their own
    /// requests for a walker.
    fn lend(&mut self, agenda: &mut Agenda, id: u32, time: u64) {
        let walk = &mut self.walks[id];
        if walk.may_borrow || walk.end != UNKNOWN || walk.holds == Holds::Walker {
            return;
        }
        walk.may_borrow = true;
        if walk.holds == Holds::Asked
            && let Some(asked) = self.walkers.withdraw(id, agenda.now)
        {
            agenda.schedule(asked.unwrap_or(time), Event::Walker { walk: id });
        }
        let Walk { first, next, tasks, .. } = self.walks[id];
        if next < tasks {
            let stage = first.wrapping_add(next.into());
            for task in 0..u32::from(self.tasks[stage].stage) {
                if let Needs::Entry(entry) = self.tasks[stage.wrapping_add(task)].needs {
                    self.lend(agenda, entry.walk, time);
                }
            }
        }
    }

    /// Requests a page walker for translation `id`, which has reached the first task that needs one.
    pub(crate) fn ask_for_walker(&mut self, shared: &mut Shared, id: u32) {
        if self.walks[id].may_borrow {
            self.use_walker(shared, id, (Holds::Borrowed, shared.agenda.now));
        } else if let Some(from) = self.walkers.ask(&mut shared.agenda, id) {
            self.get_walker(shared, id, from);
        }
    }

    /// Grants free page walkers to the translations in the queue.
    pub(crate) fn grant_walkers(&mut self, shared: &mut Shared) {
        self.walkers.grant(&mut shared.agenda);
    }

    /// Continues translation `id`, which has been granted a page walker from cycle `time` on.
    pub(crate) fn get_walker(&mut self, shared: &mut Shared, id: u32, time: u64) {
        self.walkers.begin(time);
        self.use_walker(shared, id, (Holds::Walker, time));
    }

    fn use_walker(&mut self, shared: &mut Shared, id: u32, (holds, time): (Holds, u64)) {
        let walk = &mut self.walks[id];
        let asked = std::mem::replace(&mut walk.walker_since, time);
        (walk.holds, walk.now) = (holds, time);
        self.statistics.shares[Share::WalkerQueue as usize] += time - asked;
        self.proceed(shared, id, None);
    }

    /// Runs the translation stage by stage (groups of parallel tasks), until it ends or has to wait. `done`
    /// is the cycle at which the line or entry of the next stage's only task comes, if known already.
    fn proceed(&mut self, shared: &mut Shared, id: u32, mut done: Option<u64>) {
        let Shared { agenda, memory } = shared;
        let walk = &mut self.walks[id];
        while walk.next != walk.tasks {
            let number = walk.first.wrapping_add(walk.next.into());
            let task = &mut self.tasks[number];
            if walk.asks_for_walker(task.stage) {
                self.waits_for_walker(agenda, id);
                return;
            }
            if task.stage > 1 {
                let stage = task.stage;
                return self.proceed_in_parallel(shared, id, stage);
            }
            let ended = match task.needs {
                Needs::Nothing => task.looked_up(walk.now),
                Needs::Line(data) => {
                    let start = walk.now + u64::from(task.lead_cycles);
                    let known = done.take().or_else(|| {
                        if !walk.is_background {
                            task.lead().count(&mut self.statistics);
                        }
                        let waiter = Waiter::Step { walk: id, task: walk.next };
                        let time = start + self.read_overhead;
                        memory.access(agenda, self.walker_level, (data, 0), time, waiter)
                    });
                    let Some(time) = known else { return };
                    let served = memory.served_how(self.walker_level, data, start, time);
                    task.with_line(served, (start, time))
                }
                needs @ Needs::Entry(_) => match done.take() {
                    Some(time) => task.with_entry(walk.now, time),
                    None => {
                        let next = walk.next;
                        return self.proceed_with_entry(shared, id, next, needs);
                    }
                },
            };
            if walk.end_stage(task, ended, &mut self.statistics) {
                self.statistics.walk_active_cycles += self.walkers.release(agenda, ended.at);
            }
            if !walk.waiters.is_empty() {
                agenda.tell_task(&mut walk.waiters, number, ended.at);
            }
        }
        walk.end = walk.now;
        if walk.owner != Waiter::Nobody {
            agenda.tell_thread(walk.owner_thread, walk.owner, walk.owner_from.max(walk.end));
        }
        if walk.is_background {
            return self.drop_background();
        }
        if walk.background != NONE {
            let background = Event::Translate { walk: walk.background, lends_walker: false };
            agenda.schedule(walk.end, background);
        }
        self.statistics.translations += 1;
        self.statistics.cycles += walk.end - walk.start;
    }

    /// Drops the oldest background walks that have completed.
    #[cold]
    fn drop_background(&mut self) {
        while self.background.front().is_some_and(|&walk| self.walks[walk].end != UNKNOWN) {
            self.background.pop_front();
        }
    }

    /// Like [`Self::proceed`], where the only task of the next stage needs an entry.
    #[inline(never)]
    fn proceed_with_entry(&mut self, shared: &mut Shared, id: u32, task: u16, needs: Needs) {
        if let Some(done) = self.perform(shared, id, task, needs, self.walks[id].now) {
            self.proceed(shared, id, Some(done));
        }
    }

    /// Like [`Self::proceed`], where the next stage has `stage` parallel tasks.
    #[inline(never)]
    fn proceed_in_parallel(&mut self, shared: &mut Shared, id: u32, stage: u8) {
        if let Some(ended) = self.perform_stage(shared, id, stage) {
            self.end_stage(&mut shared.agenda, id, ended);
            self.proceed(shared, id, None);
        }
    }

    /// Starts all tasks of the next stage in parallel. Returns the completion of the slowest, if all
    /// completions are known.
    fn perform_stage(&mut self, shared: &mut Shared, id: u32, stage: u8) -> Option<Ended> {
        let start = self.stage_start(id);
        let walk = &mut self.walks[id];
        let Walk { first, next, .. } = *walk;
        if !walk.is_background {
            self.tasks[first.wrapping_add(next.into())].lead().count(&mut self.statistics);
        }
        (walk.slowest, walk.pending) = (Ended { at: start, ..Ended::default() }, stage.into());
        let mut ended = None;
        for task in next..next + u16::from(stage) {
            let needs = self.tasks[first.wrapping_add(task.into())].needs;
            if let Some(done) = self.perform(shared, id, task, needs, start) {
                ended = self.end_task(&shared.memory, id, task, done);
            }
        }
        ended
    }

    /// Cycle at which the tasks of the current stage begin, after the look-up before them.
    fn stage_start(&self, id: u32) -> u64 {
        let Walk { now, first, next, .. } = self.walks[id];
        now + u64::from(self.tasks[first.wrapping_add(next.into())].lead_cycles)
    }

    /// Starts a task of the next stage at cycle `start`. Returns the cycle at which the line or entry that it
    /// needs comes, if known.
    #[inline]
    fn perform(
        &mut self,
        shared: &mut Shared,
        id: u32,
        task: u16,
        needs: Needs,
        start: u64,
    ) -> Option<u64> {
        let walk = &self.walks[id];
        let waiter = Waiter::Step { walk: id, task };
        match needs {
            Needs::Nothing => Some(start),
            Needs::Line(data) => {
                let Shared { agenda, memory } = shared;
                let time = start + self.read_overhead;
                memory.access(agenda, self.walker_level, (data, 0), time, waiter)
            }
            Needs::Entry(entry) => {
                let lends_walker = walk.may_borrow || walk.holds == Holds::Walker;
                let request = Request { lends_walker, ..Request::new(start, waiter) };
                self.request(shared, entry, request)
            }
        }
    }

    /// Continues translation `id`: the line or entry that its task `task` waited for comes at cycle `time`.
    pub(crate) fn task_done(&mut self, shared: &mut Shared, id: u32, task: u16, time: u64) {
        let Walk { first, next, .. } = self.walks[id];
        if self.tasks[first.wrapping_add(next.into())].stage == 1 {
            return self.proceed(shared, id, Some(time));
        }
        if let Some(ended) = self.end_task(&shared.memory, id, task, time) {
            self.end_stage(&mut shared.agenda, id, ended);
            self.proceed(shared, id, None);
        }
    }

    /// Completes one of several parallel tasks. Returns the completion of the slowest if this was the last.
    fn end_task(&mut self, memory: &Hierarchy, id: u32, task: u16, time: u64) -> Option<Ended> {
        let start = self.stage_start(id);
        let walk = &mut self.walks[id];
        let task = &self.tasks[walk.first.wrapping_add(task.into())];
        let ended = task.ended(memory, self.walker_level, start, time);
        if ended.at > walk.slowest.at {
            walk.slowest = ended;
        }
        walk.pending -= 1;
        (walk.pending == 0).then_some(walk.slowest)
    }

    /// Ends a stage of several parallel tasks: counts its cycles, releases the walker if no longer needed,
    /// tells the waiters.
    fn end_stage(&mut self, agenda: &mut Agenda, id: u32, ended: Ended) {
        let walk = &mut self.walks[id];
        let number = walk.first.wrapping_add(walk.next.into());
        if walk.end_stage(&mut self.tasks[number], ended, &mut self.statistics) {
            self.statistics.walk_active_cycles += self.walkers.release(agenda, ended.at);
        }
        if !walk.waiters.is_empty() {
            agenda.tell_task(&mut walk.waiters, number, ended.at);
        }
    }

    /// Calls `stretch` for each interval of a translation in order of time, with the cycle at which it ends
    /// and its cause.
    pub(crate) fn explain(&self, id: u32, mut stretch: impl FnMut(u64, Cause)) {
        let walk = &self.walks[id];
        let mut begins = walk.start;
        if walk.lead.cycles > 0 {
            begins += u64::from(walk.lead.cycles);
            stretch(begins, Cause::share(walk.lead.share.into()));
        }
        for index in 0..walk.tasks {
            let task = &self.tasks[walk.first.wrapping_add(index.into())];
            if index == walk.first_walkers && walk.holds != Holds::None {
                stretch(walk.walker_since, Cause::WALKER_QUEUE);
                begins = begins.max(walk.walker_since);
            }
            if task.stage == 0 {
                continue;
            }
            if task.end == UNKNOWN {
                return;
            }
            if task.lead_cycles > 0 {
                begins += u64::from(task.lead_cycles);
                stretch(begins, Cause::share(task.lead_share.into()));
            }
            let mut fill_wait = u64::from(task.wait);
            if task.waited_for_mshr {
                if task.wait > 0 {
                    stretch((begins + fill_wait).min(task.end), Cause::WALK_MSHR);
                }
                fill_wait = 0;
            }
            stretch(task.end - fill_wait, Cause::share(task.share.into()));
            stretch(task.end, Cause::FILL_WAIT);
            begins = task.end;
        }
    }
}
