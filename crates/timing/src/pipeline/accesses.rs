//! Loads and stores: translation, store-to-load forwarding, cache accesses.

use super::demands::{ACCESS, Demand, WAITS};
use super::stores::{Further, Line};
use super::*;
use crate::LINE_BYTES;
use crate::critical_path::{Cause, Timeline};
use crate::hierarchy::{Data, Origin};
use crate::ring::Ring;
use crate::translation::{Request, Translated};

/// Initial capacity of the ring buffer of accesses.
const ACCESSES: usize = 4096;

/// Load that is not simply an L1 TLB and L1D hit, or store that has to wait for its translation. Others need
/// no record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Access {
    /// Number of the instruction that makes the access.
    instruction: u64,
    is_store: bool,
    /// The load takes its data from an older store (store-to-load forwarding).
    is_forwarded: bool,
    /// Cache level that supplied the line that arrived last.
    from: u8,
    /// Cache lines of the load that have not arrived.
    pending: u16,
    translated_by: Translated,
    /// First line that the load reads.
    line: Line,
    further: Further,
    /// Youngest older store to the address of this load that is not in the cache yet, or [`NONE`].
    store: u32,
    /// Access that the same instruction made before this one, or [`NONE`].
    next: u32,
    /// Cycle at which the virtual address is known; 0 before, and [`UNKNOWN`] if the access was begun on a wrong
    /// path, before its instruction is dispatched.
    issue: u64,
    translated: u64,
    /// Cycle at which the lines that have arrived so far are there.
    done: u64,
    /// Cycle until which the line that arrived last waited for an MSHR, or at which the forwarding store had
    /// its data.
    waited_until: u64,
}

impl Access {
    /// True for a load of one line whose translation is there and which no older store may forward to: it
    /// reads the line at once.
    #[inline]
    fn is_plain_load(&self) -> bool {
        self.translated_by.is_here()
            && self.store == NONE
            && self.further.count == 0
            && !self.is_store
    }
}

/// Ring buffers of accesses, numbered in program order, and of their lines.
#[derive(Clone, Debug)]
pub(crate) struct Accesses {
    all: Ring<Access>,
    /// State of all lines of loads and stores after their first, where an access spans several lines.
    further: Ring<Data>,
    /// Oldest access that an instruction in flight, or the critical path, may refer to; older ones may be
    /// overwritten.
    floor: u32,
    /// Oldest element of `further` that an instruction in flight may refer to.
    further_floor: u32,
    /// Latency of an L1D hit, in cycles.
    pub(crate) hit_cycles: u64,
}

impl Accesses {
    pub(super) fn new(hit_cycles: u64) -> Self {
        let (all, further) = (Ring::new(ACCESSES), Ring::new(64));
        Self { all, further, floor: 0, further_floor: 0, hit_cycles }
    }

    /// Number that the next access will get.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.all.next()
    }

    /// Number that the next element of `further` will get.
    #[inline]
    pub(super) fn next_further(&self) -> u32 {
        self.further.next()
    }

    /// Sets the oldest access and further line that an instruction in flight, or the critical path, may refer
    /// to; the ring buffers may overwrite older ones.
    pub(super) fn keep_from(&mut self, access: u32, further: u32) {
        (self.floor, self.further_floor) = (access, further);
    }

    #[inline(always)]
    fn push(&mut self, access: Access) -> u32 {
        while self.all.is_short_of(self.floor, 1) {
            self.all.grow();
        }
        self.all.push(access)
    }

    /// Cycle at which all loads in the list that begins with `first` have their data, if they were issued on a wrong
    /// path; [`UNKNOWN`] if one of them was not, or has none yet.
    pub(super) fn there_ahead(&self, first: u32) -> u64 {
        let (mut there, mut id) = (0, first);
        while id != NONE {
            let access = &self.all[id];
            if !access.is_store {
                there = if access.done == 0 { UNKNOWN } else { access.done.max(there) };
            }
            id = access.next;
        }
        there
    }

    /// Notes that the data of a load that was begun on a wrong path come at cycle `time`. Returns the number of the
    /// load's instruction.
    pub(super) fn comes_ahead(&mut self, id: u32, time: u64) -> u64 {
        let access = &mut self.all[id];
        access.done = time.max(access.done);
        access.instruction
    }

    /// Appends to `timeline` the intervals of an access, from the cycle at which its address is known:
    /// translation, wait, cache.
    pub(crate) fn explain(&self, id: u32, translation: &Translation, timeline: &mut Timeline) {
        let access = &self.all[id];
        let waited = (access.issue, access.translated);
        timeline.add_translation(translation, access.translated_by, waited);
        if access.is_forwarded {
            timeline.push(access.waited_until, Cause::FORWARDED);
            timeline.push(access.done, Cause::L1D);
        } else if !access.is_store {
            if access.waited_until > access.translated {
                timeline.push(access.waited_until, Cause::MSHR);
            }
            timeline.push(access.done, Cause::served_by(access.from.into()));
        }
    }
}

/// Number of cache lines that an access of `size` bytes touches.
#[inline]
pub(super) fn lines(address: u64, size: u16) -> u64 {
    let within = address & (LINE_BYTES - 1);
    1 + ((within + u64::from(size.max(1)) - 1) >> LINE_SHIFT)
}

impl Core {
    /// Adds a load to the instruction that [`Core::begin`] began. `steps` translate its address after a miss
    /// in the first-level data TLB; without steps, it hits entry `slot` there.
    #[inline]
    pub fn load<'a>(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        slot: u32,
        steps: impl Into<StepLists<'a>>,
    ) {
        let now = self.shared.agenda.now;
        let memory = &mut self.shared.memory;
        let place = (Unit::L1DataTlb, slot);
        let translated_by = self.translation.prepare(memory, place, steps.into(), now);
        let address = address.value();
        let number = address >> LINE_SHIFT;
        let (data, _) = memory.locate(self.levels.l1d, number, false, Origin::Program, now);
        let lines = lines(address, size);
        self.statistics.loads += 1;
        self.in_hand.loads += 1;
        self.in_hand.flags |= ACCESS;
        let mut store = self.stores.before(address, now);
        if self.in_hand.stores > 0 && store != NONE && self.in_hand.has_store(store) {
            // An instruction reads memory before it writes: its own stores do not forward to its loads.
            store = NONE;
        }
        if translated_by.is_here() && data.is_here() && store == NONE && lines == 1 {
            self.in_hand.hits += 1;
            return;
        }
        let further = self.further_lines(number, lines, false);
        self.in_hand.unloaded += 1;
        self.add_access(Access {
            translated_by,
            line: Line { number, data },
            further,
            pending: lines as u16,
            store,
            ..Access::default()
        });
    }

    /// Adds a store to the instruction that [`Core::begin`] began; it writes the cache after retirement.
    /// `steps` translate its address after a miss in the first-level data TLB; without steps, it hits entry
    /// `slot` there.
    #[inline]
    pub fn store<'a>(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        slot: u32,
        steps: impl Into<StepLists<'a>>,
    ) {
        let now = self.shared.agenda.now;
        let memory = &mut self.shared.memory;
        let place = (Unit::L1DataTlb, slot);
        let translated_by = self.translation.prepare(memory, place, steps.into(), now);
        let address = address.value();
        let (number, lines) = (address >> LINE_SHIFT, lines(address, size));
        if memory.has_others() {
            (number..number + lines).for_each(|line| memory.claim(self.core, line, now));
        }
        let (data, _) = memory.locate(self.levels.l1d, number, true, Origin::Program, now);
        let further = self.further_lines(number, lines, true);
        let all_lines = (Line { number, data }, further);
        let instruction = self.instructions.handed;
        let store = self.stores.push(instruction, address, all_lines);
        self.statistics.stores += 1;
        self.in_hand.add_store(store);
        if !translated_by.is_here() {
            self.in_hand.untranslated += 1;
            self.add_access(Access {
                is_store: true,
                translated_by,
                store: NONE,
                ..Access::default()
            });
        }
    }

    /// Looks up, in program order, the lines of an access after its first.
    #[inline]
    fn further_lines(&mut self, first: u64, lines: u64, write: bool) -> Further {
        if lines == 1 { Further::default() } else { self.look_up_further(first, lines, write) }
    }

    #[inline(never)]
    fn look_up_further(&mut self, first: u64, lines: u64, write: bool) -> Further {
        let Shared { memory, agenda } = &mut *self.shared;
        let further = &mut self.accesses.further;
        while further.is_short_of(self.accesses.further_floor, lines as usize) {
            further.grow();
        }
        let start = further.next();
        for line in first + 1..first + lines {
            let (data, _) =
                memory.locate(self.levels.l1d, line, write, Origin::Program, agenda.now);
            further.push(data);
        }
        Further { first: start, count: lines as u16 - 1 }
    }

    #[inline(always)]
    fn add_access(&mut self, access: Access) {
        let (instruction, next) = (self.instructions.handed, self.in_hand.first_access);
        self.in_hand.first_access = self.accesses.push(Access { instruction, next, ..access });
        self.in_hand.flags |= WAITS;
    }

    /// Requests the translations of an instruction's accesses at cycle `time`, when their addresses are
    /// known; `at_dispatch` if that is the cycle of its dispatch. `first` is the head of the list of
    /// accesses.
    #[inline(always)]
    pub(super) fn start_accesses(&mut self, first: u32, time: u64, at_dispatch: bool) {
        let mut id = first;
        while id != NONE {
            let access = &mut self.accesses.all[id];
            let (translated_by, next) = (access.translated_by, access.next);
            access.issue = time;
            if self.shortcuts.loads_read_at_once && access.is_plain_load() {
                access.translated = time;
                let line = access.line;
                self.read_line(id, line, time);
                id = next;
                continue;
            }
            let request = Request { at_dispatch, ..Request::new(time, Waiter::Translated(id)) };
            if let Some(translated) =
                self.translation.request(&mut self.shared, translated_by, request)
            {
                self.translated(id, translated);
            }
            id = next;
        }
    }

    /// Requests the translations of an instruction's accesses on a wrong path at cycle `time`, unless that has been
    /// done. `first` is the head of the list of accesses.
    pub(super) fn start_ahead(&mut self, first: u32, time: u64) {
        let mut id = first;
        while id != NONE {
            let access = &mut self.accesses.all[id];
            let (translated_by, next) = (access.translated_by, access.next);
            let was_begun = std::mem::replace(&mut access.issue, UNKNOWN) == UNKNOWN;
            let request = Request::new(time, Waiter::Ahead(id));
            if !was_begun
                && let Some(translated) =
                    self.translation.request(&mut self.shared, translated_by, request)
            {
                self.read_ahead(id, translated);
            }
            id = next;
        }
    }

    /// Begins to bring the lines of load `id`, which lies on a wrong path and is translated at cycle `time`.
    #[inline(never)]
    pub(super) fn read_ahead(&mut self, id: u32, time: u64) {
        let access = &mut self.accesses.all[id];
        let is_late = access.issue > 0 && access.issue <= time;
        if is_late || access.is_store || access.store != NONE {
            return;
        }
        let Access { line: Line { number, data }, further, .. } = *access;
        access.line.data = data.used();
        let Shared { memory, agenda } = &mut *self.shared;
        let level = self.levels.l1d;
        if further.count == 0 {
            let waiter = Waiter::LineAhead(id);
            if let Some(done) = memory.access(agenda, level, (data, number), time, waiter) {
                access.done = done;
            }
            return;
        }
        memory.access(agenda, level, (data, number), time, Waiter::Nobody);
        for place in 0..further.count {
            let data = &mut self.accesses.further[further.first.wrapping_add(place.into())];
            let line = (*data, number + 1 + u64::from(place));
            *data = data.used();
            memory.access(agenda, level, line, time, Waiter::Nobody);
        }
    }

    /// Continues access `id`, translated at cycle `time`: a load reads its lines or is forwarded, a store can
    /// retire.
    pub(super) fn translated(&mut self, id: u32, time: u64) {
        let access = &mut self.accesses.all[id];
        access.translated = time;
        let waited = time - access.issue;
        if access.translated_by.is_first_level_hit() {
            self.translation.statistics.add_fill_wait(waited);
        }
        if access.is_store {
            let instruction = access.instruction;
            let waiting = &mut self.instructions.waiting[instruction];
            waiting.untranslated -= 1;
            if time > waiting.stored {
                (waiting.stored, waiting.store) = (time, id);
            }
            return self.note_done(instruction);
        }
        self.statistics.load_translation_cycles += waited;
        if access.store == NONE {
            self.read_lines(id, false);
        } else {
            self.forward_or_read(id);
        }
    }

    /// Forwards a load from the older store to its address, or, if the store is in the cache when the load is
    /// translated, reads the lines.
    pub(super) fn forward_or_read(&mut self, id: u32) {
        let Access { store: number, translated, .. } = self.accesses.all[id];
        let has_retired = self.stores.has_retired(number);
        let store = self.stores.at(number);
        if store.released <= translated {
            return self.read_lines(id, false);
        }
        if store.released == UNKNOWN && translated > self.shared.agenda.now {
            // A store is written after it retires, and does not retire before older instructions.
            let result = if store.result == UNKNOWN { 0 } else { store.result };
            let earliest = self.retire.cycle.max(result) + self.accesses.hit_cycles;
            let is_certain = !has_retired && earliest > translated;
            if !(is_certain && self.shortcuts.stores_forward_early) {
                return self.shared.agenda.schedule(translated, Event::Forward { access: id });
            }
        }
        self.statistics.forwarded_loads += 1;
        self.accesses.all[id].is_forwarded = true;
        let store = self.stores.at(number);
        let (waiter, agenda) = (Waiter::Forwarded(id), &mut self.shared.agenda);
        if store.result == UNKNOWN {
            agenda.wait(&mut store.readers, waiter, translated);
        } else {
            agenda.tell(waiter, store.result.max(translated));
        }
        self.read_lines(id, true);
    }

    /// Completes the forwarding of a load whose store has its data at cycle `time`.
    pub(super) fn forwarded(&mut self, id: u32, time: u64) {
        self.accesses.all[id].waited_until = time;
        self.line_read(id, time + self.accesses.hit_cycles);
    }

    /// Accesses the cache for all lines of a load; if the load is forwarded, for all but the first.
    #[inline(always)]
    fn read_lines(&mut self, id: u32, is_forwarded: bool) {
        let Access { line, further, translated, .. } = self.accesses.all[id];
        if !is_forwarded {
            self.read_line(id, line, translated);
        }
        if further.count > 0 {
            self.read_further_lines(id, line.number, further, translated);
        }
    }

    #[inline(never)]
    fn read_further_lines(&mut self, id: u32, first: u64, further: Further, time: u64) {
        for place in 0..further.count {
            let data = self.accesses.further[further.first.wrapping_add(place.into())];
            self.read_line(id, Line { number: first + 1 + u64::from(place), data }, time);
        }
    }

    #[inline]
    fn read_line(&mut self, id: u32, line: Line, time: u64) {
        let Shared { memory, agenda } = &mut *self.shared;
        let line = (line.data, line.number);
        if let Some(done) = memory.access(agenda, self.levels.l1d, line, time, Waiter::Line(id)) {
            self.line_read(id, done);
        }
    }

    /// Notes that a line of load `id` arrived at cycle `time`; with the last line, the load is complete.
    pub(super) fn line_read(&mut self, id: u32, time: u64) {
        let access = &mut self.accesses.all[id];
        access.done = access.done.max(time);
        access.pending -= 1;
        if access.pending > 0 {
            return;
        }
        let access = &self.accesses.all[id];
        if !access.is_forwarded {
            // The line that came last had to be waited for.
            let (memory, level) = (&self.shared.memory, self.levels.l1d);
            let how = |data| memory.served_how(level, data, access.translated, access.done);
            let mut served = how(access.line.data);
            let mut place = 0;
            while served.from == level && place < access.further.count {
                served =
                    how(self.accesses.further[access.further.first.wrapping_add(place.into())]);
                place += 1;
            }
            let access = &mut self.accesses.all[id];
            (access.from, access.waited_until) = (served.from as u8, served.waited_until);
        }
        let Access { instruction, done, issue, .. } = self.accesses.all[id];
        self.statistics.load_cycles += done - issue;
        let waiting = &mut self.instructions.waiting[instruction];
        waiting.unloaded -= 1;
        if done > waiting.loaded {
            (waiting.loaded, waiting.load) = (done, id);
        }
        self.complete(instruction);
    }

    /// Writes the lines of store `number`, the next to retire, to the cache from cycle `time` on.
    #[inline]
    pub(super) fn write_store(&mut self, number: u32, time: u64) {
        let Store { line, further, .. } = self.stores.retire();
        self.write_line(number, line, time);
        for place in 0..further.count {
            let data = self.accesses.further[further.first.wrapping_add(place.into())];
            let line = Line { number: line.number + 1 + u64::from(place), data };
            self.write_line(number, line, time);
        }
    }

    #[inline]
    fn write_line(&mut self, number: u32, line: Line, time: u64) {
        let Shared { memory, agenda } = &mut *self.shared;
        let (line, waiter) = ((line.data, line.number), Waiter::Written(number));
        if let Some(done) = memory.access(agenda, self.levels.l1d, line, time, waiter) {
            self.line_written(number, done);
        }
    }

    /// Notes that a line of store `number` was written at cycle `time`, and frees store-queue entries.
    pub(super) fn line_written(&mut self, number: u32, time: u64) {
        let queue = &mut self.store_queue;
        self.stores.line_written(number, time, |released| queue.release(released));
        self.may_dispatch = true;
    }
}

impl Demand {
    /// True if this store belongs to the instruction itself.
    fn has_store(&self, store: u32) -> bool {
        store.wrapping_sub(self.first_store) < u32::from(self.stores)
    }

    fn add_store(&mut self, store: u32) {
        if self.stores == 0 {
            self.first_store = store;
        }
        self.stores += 1;
        self.flags |= ACCESS;
    }
}
