//! Loads and stores: translation, the data of stores before them, caches.

use super::*;
use crate::LINE_BYTES;
use crate::agenda::UNKNOWN;
use crate::critical_path::{Cause, Timeline};
use crate::hierarchy::{Data, L1D, Origin};
use crate::translation::Translated;

/// No load or store.
pub(super) const NONE: u32 = u32::MAX;

/// A load that is more than a hit, or a store that has to wait for its translation.
#[derive(Clone, Debug)]
struct Access {
    /// Its instruction.
    slot: u32,
    is_store: bool,
    translation: Translated,
    /// The line it reads, unless a store before it has the data.
    line: Data,
    further_lines: Vec<Data>,
    /// The youngest store before it to the same address.
    store: Option<u64>,
    /// It has its data from that store.
    is_forwarded: bool,
    issue: u64,
    translated: u64,
    /// Lines that have not come.
    pending: usize,
    done: u64,
    /// The next of the same instruction.
    next: u32,
}

impl Access {
    fn new(slot: u32, translation: Translated, line: Data) -> Self {
        Self {
            slot,
            is_store: false,
            translation,
            line,
            further_lines: Vec::new(),
            store: None,
            is_forwarded: false,
            issue: 0,
            translated: 0,
            pending: 0,
            done: 0,
            next: NONE,
        }
    }
}

/// All of them that are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Accesses {
    list: Vec<Access>,
    /// What each did when.
    timelines: Vec<Timeline>,
    free: Vec<u32>,
}

impl Accesses {
    fn add(&mut self, access: Access) -> u32 {
        if let Some(id) = self.free.pop() {
            self.list[id as usize] = access;
            return id;
        }
        self.list.push(access);
        self.timelines.push(Timeline::default());
        (self.list.len() - 1) as u32
    }

    #[inline]
    fn at(&mut self, id: u32) -> &mut Access {
        &mut self.list[id as usize]
    }
}

/// Line of the last byte accessed.
#[inline]
pub(super) fn last_line(address: u64, size: u16) -> u64 {
    let within = address & (LINE_BYTES - 1);
    (address >> LINE_SHIFT) + ((within + u64::from(size.max(1)) - 1) >> LINE_SHIFT)
}

impl Core {
    /// A load of the instruction in hand, translated by `steps` from entry `slot` of the
    /// first-level data TLB.
    #[inline]
    pub fn load<'a>(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        slot: u32,
        steps: impl Into<StepLists<'a>>,
    ) {
        let steps = steps.into();
        let (unit, now) = (Unit::L1DataTlb, self.shared.agenda.now);
        let translation = self.translation.prepare(&mut self.shared.memory, unit, slot, steps, now);
        let address = address.value();
        let first = address >> LINE_SHIFT;
        let last = last_line(address, size);
        let line =
            self.shared.memory.locate(self.levels.l1d, first, false, Origin::Program, now).data;
        self.statistics.loads += 1;
        let current = self.window.current();
        let store = self.stores.before(address, now);
        let store = store.filter(|&store| !self.window.at(current).has_store(store));
        if translation.is_here(now) && line.is_here(now) && store.is_none() && first == last {
            return self.window.at(current).add_quick_load();
        }
        self.window.at(current).add_load();
        let further_lines = self.further_lines(first, last, false);
        let pending = 1 + further_lines.len();
        self.add_access(Access {
            further_lines,
            store,
            pending,
            ..Access::new(current, translation, line)
        });
    }

    /// A store of the instruction in hand, translated by `steps` from entry `slot` of the
    /// first-level data TLB. Its data are written after retirement.
    #[inline]
    pub fn store<'a>(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        slot: u32,
        steps: impl Into<StepLists<'a>>,
    ) {
        let steps = steps.into();
        let (unit, now) = (Unit::L1DataTlb, self.shared.agenda.now);
        let translation = self.translation.prepare(&mut self.shared.memory, unit, slot, steps, now);
        let address = address.value();
        let first = address >> LINE_SHIFT;
        let last = last_line(address, size);
        if self.shared.memory.has_others() {
            (first..=last).for_each(|line| self.shared.memory.claim(self.core, line, now));
        }
        let line =
            self.shared.memory.locate(self.levels.l1d, first, true, Origin::Program, now).data;
        let number = self.stores.push(self.window.handed_over(), address, line, now);
        if first < last {
            let further_lines = self.further_lines(first, last, true);
            let store = self.stores.get(number).expect("it has just begun");
            store.pending += further_lines.len();
            store.further_lines = further_lines;
        }
        self.statistics.stores += 1;
        let current = self.window.current();
        let is_translated = translation.is_here(now);
        self.window.at(current).add_store(number, is_translated);
        if !is_translated {
            self.add_access(Access { is_store: true, ..Access::new(current, translation, line) });
        }
    }

    fn further_lines(&mut self, first: u64, last: u64, write: bool) -> Vec<Data> {
        let Shared { memory, agenda, .. } = &mut *self.shared;
        let (level, now) = (self.levels.l1d, agenda.now);
        let locate = |line| memory.locate(level, line, write, Origin::Program, now).data;
        (first + 1..=last).map(locate).collect()
    }

    fn add_access(&mut self, access: Access) {
        let slot = access.slot;
        let next = self.window.at(slot).first_access;
        if next == NONE {
            self.window.clear_timelines(slot);
        }
        self.window.at(slot).first_access = self.accesses.add(Access { next, ..access });
    }

    /// The addresses of an instruction's accesses are known from `time` on.
    pub(super) fn start_accesses(&mut self, first: u32, time: u64) {
        let mut id = first;
        while id != NONE {
            let access = self.accesses.at(id);
            let (translation, next) = (access.translation, access.next);
            access.issue = time;
            let waiter = Waiter::Translated(id);
            let known = self.translation.access(&mut self.shared.agenda, translation, time, waiter);
            if let Some(translated) = known {
                self.translated(id, translated);
            }
            id = next;
        }
    }

    /// An access has its translation at `time`.
    pub(super) fn translated(&mut self, id: u32, time: u64) {
        let access = self.accesses.at(id);
        access.translated = time;
        let waited = time - access.issue;
        let (slot, is_store, has_store) = (access.slot, access.is_store, access.store.is_some());
        let (translation, issue) = (access.translation, access.issue);
        if translation.is_first_level_hit() {
            self.translation.waited(waited);
        }
        let timeline = &mut self.accesses.timelines[id as usize];
        timeline.clear();
        if waited > 0 {
            self.translation.explain(translation, issue, time, timeline);
        }
        if is_store {
            let entry = self.window.at(slot);
            entry.untranslated -= 1;
            if time > entry.stored {
                entry.stored = time;
                std::mem::swap(&mut self.window.timelines(slot).store, timeline);
            }
            self.accesses.free.push(id);
            return;
        }
        self.statistics.load_translation_cycles += waited;
        if has_store {
            self.forward_or_read(id);
        } else {
            self.read_lines(id, false);
        }
    }

    /// Whether the store before a load has written its data decides from where the load has them.
    pub(super) fn forward_or_read(&mut self, id: u32) {
        let Access { store, translated, .. } = *self.accesses.at(id);
        let number = store.expect("there is a store before it");
        let Some(store) = self.stores.get(number) else { return self.read_lines(id, false) };
        if store.released <= translated {
            return self.read_lines(id, false);
        }
        if store.released == UNKNOWN && translated > self.shared.agenda.now {
            return self.shared.agenda.schedule(translated, Event::Forward { access: id });
        }
        self.statistics.forwarded_loads += 1;
        self.accesses.at(id).is_forwarded = true;
        if store.result == UNKNOWN {
            let waiter = Waiter::Forwarded(id);
            self.shared.waiters.add(&mut store.readers, waiter, translated);
        } else {
            let time = store.result.max(translated);
            self.shared.agenda.tell(Waiter::Forwarded(id), time);
        }
        self.shared.memory.dismiss(self.accesses.at(id).line);
        self.read_lines(id, true);
    }

    /// The store before a load has its data at `time`.
    pub(super) fn forwarded(&mut self, id: u32, time: u64) {
        self.accesses.timelines[id as usize].push(time, Cause::FORWARDED);
        self.line_read(id, time + self.shared.memory.latency(L1D));
    }

    /// Reads the lines of a load; of a forwarded one those behind the first.
    fn read_lines(&mut self, id: u32, is_forwarded: bool) {
        let access = &mut self.accesses.list[id as usize];
        let (line, time) = (access.line, access.translated);
        let further_lines = std::mem::take(&mut access.further_lines);
        if !is_forwarded {
            self.read_line(id, line, time);
        }
        for line in further_lines {
            self.read_line(id, line, time);
        }
    }

    fn read_line(&mut self, id: u32, line: Data, time: u64) {
        let Shared { memory, agenda, waiters } = &mut *self.shared;
        let level = self.levels.l1d;
        let done = memory.access(agenda, waiters, level, line, time, Waiter::Line(id));
        if let Some(done) = done {
            self.line_read(id, done);
        }
    }

    /// A line of a load is there at `time`.
    pub(super) fn line_read(&mut self, id: u32, time: u64) {
        let access = self.accesses.at(id);
        access.done = access.done.max(time);
        access.pending -= 1;
        if access.pending > 0 {
            return;
        }
        let Access { slot, done, issue, translated, line, is_forwarded, .. } = *access;
        self.accesses.free.push(id);
        self.statistics.load_cycles += done - issue;
        let entry = self.window.at(slot);
        entry.unloaded -= 1;
        if done > entry.loaded {
            entry.loaded = done;
            let timeline = &mut self.accesses.timelines[id as usize];
            if is_forwarded {
                timeline.push(done, Cause::L1D);
            } else {
                let served = self.shared.memory.served_how(self.levels.l1d, line, translated, done);
                if served.waited_until > translated {
                    timeline.push(served.waited_until, Cause::MSHR);
                }
                timeline.push(done, Cause::served_by(served.from));
            }
            std::mem::swap(&mut self.window.timelines(slot).load, timeline);
        }
        self.complete(slot);
    }

    /// A store retires at `time`, and writes its lines.
    #[inline]
    pub(super) fn write_store(&mut self, number: u64, time: u64) {
        let store = self.stores.get(number).expect("it is not written before it retires");
        let (line, further_lines) = (store.line, std::mem::take(&mut store.further_lines));
        self.write_line(number, line, time);
        for line in further_lines {
            self.write_line(number, line, time);
        }
    }

    fn write_line(&mut self, number: u64, line: Data, time: u64) {
        let Shared { memory, agenda, waiters } = &mut *self.shared;
        let (level, waiter) = (self.levels.l1d, Waiter::Written(number));
        if let Some(done) = memory.access(agenda, waiters, level, line, time, waiter) {
            self.line_written(number, done);
        }
    }

    /// A line of a store is written at `time`.
    pub(super) fn line_written(&mut self, number: u64, time: u64) {
        let queue = &mut self.store_queue;
        self.stores.line_written(number, time, |released| queue.release(released));
        self.may_dispatch = true;
    }
}
