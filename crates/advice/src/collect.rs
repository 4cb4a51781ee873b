//! The pass over the trace: areas, use of each page, and the references that TLBs hear.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use perforate_trace::Source;
use perforate_types::{
    AccessKind, Chunk, Instruction, MemoryAccess, ProcessId, ProgramEvent, access_count,
};

use crate::area_map::AreaMap;
use crate::page_id::{BitSet, PageId, PageIds};
use crate::{AdviceError, Area, Progress};

/// End of user addresses, in pages.
const USER_PAGES: u64 = 1 << 35;
/// Largest number of references that are kept, in 256MB of memory.
const MAXIMUM_REFERENCES: usize = 1 << 26;
/// Bit of a reference that marks an instruction fetch.
const FETCH: u32 = 1 << 31;

/// Counts of 4KB pages, with memory only where there are some.
#[derive(Default)]
pub(crate) struct PageCounts(Vec<Option<Box<[u64; 512]>>>);

impl PageCounts {
    #[inline]
    pub(crate) fn add(&mut self, id: PageId, count: u64) {
        let region = (id.0 >> 9) as usize;
        if region >= self.0.len() {
            self.0.resize_with(region + 1, || None);
        }
        let counts = self.0[region].get_or_insert_with(|| Box::new([0; 512]));
        counts[(id.0 & 511) as usize] += count;
    }

    /// Sum over a range of ids.
    pub(crate) fn sum(&self, ids: &Range<u32>) -> u64 {
        let regions = (ids.start >> 9) as usize..(ids.end.div_ceil(512) as usize).min(self.0.len());
        let of = |region: usize| {
            let first = (region as u32) << 9;
            let within = ids.start.saturating_sub(first)..(ids.end - first).min(512);
            let counts = self.0[region].as_ref();
            counts
                .map_or(0, |counts| counts[within.start as usize..within.end as usize].iter().sum())
        };
        regions.map(of).sum()
    }
}

/// Change between two references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Translations of these ids are invalid; the next access to each page is a first touch.
    Forget(Range<u32>),
    /// The program touched the pages of these ids in instructions that the trace leaves out: the next access
    /// to each is no first touch.
    Touched(Range<u32>),
    /// Another process runs; TLBs without tags are flushed.
    Switch,
    /// Walks count from here.
    StartMeasuring,
}

/// A reference to a page by an instruction fetch or a data access.
#[derive(Clone, Copy)]
pub(crate) struct Reference(u32);

impl Reference {
    pub(crate) fn new(id: PageId, is_fetch: bool) -> Self {
        Self(id.0 | if is_fetch { FETCH } else { 0 })
    }

    pub(crate) fn id(self) -> PageId {
        PageId(self.0 & !FETCH)
    }

    pub(crate) fn is_fetch(self) -> bool {
        self.0 & FETCH != 0
    }
}

/// References in order, without those to the page of the previous reference of the same kind (fetch or
/// data): its entry is the most recently used one of every TLB that holds it, so such a reference changes
/// nothing.
#[derive(Default)]
pub(crate) struct References {
    pub(crate) list: Vec<Reference>,
    /// Marks with the number of references before each.
    pub(crate) marks: Vec<(usize, Mark)>,
}

impl References {
    /// References up to each mark, and the mark; at the end those after the last mark.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&[Reference], Option<&Mark>)> {
        let ends = self.marks.iter().map(|(end, mark)| (*end, Some(mark)));
        let mut start = 0;
        ends.chain([(self.list.len(), None)]).map(move |(end, mark)| {
            let part = &self.list[start..end];
            start = end;
            (part, mark)
        })
    }
}

/// Listener to the references of a trace.
pub(crate) trait Listener {
    /// True if the listener hears instruction fetches, and accesses are counted by page.
    const WANTS_ALL: bool;

    /// Hears a reference. Returns false to end the pass.
    fn hear(&mut self, reference: Reference) -> bool;
    fn mark(&mut self, mark: Mark);
}

impl Listener for References {
    const WANTS_ALL: bool = true;

    #[inline]
    fn hear(&mut self, reference: Reference) -> bool {
        self.list.push(reference);
        self.list.len() < MAXIMUM_REFERENCES
    }

    fn mark(&mut self, mark: Mark) {
        self.marks.push((self.list.len(), mark));
    }
}

/// Areas and pages of a trace.
pub(crate) struct Memory {
    pub(crate) areas: Vec<Area>,
    pub(crate) ids: PageIds,
    /// Pages that were touched or populated at some time.
    pub(crate) touched: BitSet,
    /// Data accesses of the measured part by page.
    pub(crate) accesses: PageCounts,
    /// Pages written after a fork while shared, by page.
    pub(crate) copied: PageCounts,
    /// Instructions that were analysed, without set-up and warm-up.
    pub(crate) instructions: u64,
    /// Data accesses of the measured part.
    pub(crate) data_accesses: u64,
    /// True if the trace was longer than what is analysed.
    pub(crate) is_cut: bool,
}

/// Page of the previous access of one kind.
#[derive(Clone, Copy)]
struct Latest {
    page: u64,
    is_written: bool,
}

const NO_PAGE: Latest = Latest { page: u64::MAX, is_written: false };

struct Pass<'a, L> {
    listener: &'a mut L,
    map: AreaMap,
    ids: PageIds,
    touched: BitSet,
    /// Pages that were touched since they were mapped.
    known: BitSet,
    accesses: PageCounts,
    copied: PageCounts,
    /// Pages that a process shares with another one since a fork.
    shared: BitSet,
    /// Partner of a process in its last fork.
    partners: HashMap<ProcessId, ProcessId>,
    data: Latest,
    /// Id of the page of `data`; `None` if the page is not mapped.
    data_id: Option<PageId>,
    /// Number of accesses to the page of `data` since the latest change of page.
    pending: u64,
    fetch: u64,
    now: u64,
    data_accesses: u64,
    /// True after instructions that the trace leaves out.
    is_sampled: bool,
    is_over: bool,
    is_out_of_ids: bool,
}

/// Follows a trace to its end, or until the listener has enough. Accesses count from `warmup` instructions after
/// the program's set-up.
///
/// # Errors
/// The trace is damaged, or touches more addresses than there are ids; or `stop` was set.
pub(crate) fn collect<L: Listener>(
    source: &mut dyn Source,
    warmup: u64,
    listener: &mut L,
    stop: &AtomicBool,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<Memory, AdviceError> {
    let metadata = source.metadata();
    let total = metadata.instructions;
    let mut setup_until = metadata.setup_until;
    let mut measure_at = if setup_until.is_some() { None } else { Some(warmup) };
    let mut measured_from = 0;
    let mut pass = Pass {
        listener,
        map: AreaMap::new(metadata.has_events),
        ids: PageIds::new(),
        touched: BitSet::default(),
        known: BitSet::default(),
        accesses: PageCounts::default(),
        copied: PageCounts::default(),
        shared: BitSet::default(),
        partners: HashMap::new(),
        data: NO_PAGE,
        data_id: None,
        pending: 0,
        fetch: u64::MAX,
        now: 0,
        data_accesses: 0,
        is_sampled: false,
        is_over: false,
        is_out_of_ids: false,
    };
    let mut chunk = Chunk::default();
    while !pass.is_over && source.next_chunk(&mut chunk)? {
        let (mut instruction, mut accesses) = (0, chunk.accesses.as_slice());
        let mut events = chunk.events.iter().peekable();
        loop {
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= instruction) {
                if let ProgramEvent::Phase { name, .. } = event
                    && setup_until.is_some_and(|phase| phase == name)
                {
                    setup_until = None;
                    measure_at = Some(pass.now + warmup);
                }
                pass.event(event);
            }
            if measure_at == Some(pass.now) {
                pass.start_measuring();
                (measure_at, measured_from) = (None, pass.now);
            }
            // Up to the next event, or the start of measuring.
            let mut end = chunk.instructions.len();
            if let Some((at, _)) = events.peek() {
                end = end.min(*at as usize);
            }
            if let Some(at) = measure_at {
                let left = usize::try_from(at - pass.now).unwrap_or(usize::MAX);
                end = end.min(instruction.saturating_add(left));
            }
            if end == instruction {
                match events.next() {
                    Some((_, event)) => pass.event(event),
                    None => break,
                }
                continue;
            }
            accesses = pass.run(&chunk.instructions[instruction..end], accesses);
            instruction = end;
        }
        on_progress(Progress { done: pass.now, total });
        if stop.load(Ordering::Relaxed) {
            return Err(AdviceError::Stopped);
        }
    }
    pass.count_pending();
    if pass.is_out_of_ids {
        return Err(AdviceError::TooManyAddresses);
    }
    Ok(Memory {
        areas: pass.map.areas(pass.now),
        ids: pass.ids,
        touched: pass.touched,
        accesses: pass.accesses,
        copied: pass.copied,
        instructions: pass.now - measured_from,
        data_accesses: pass.data_accesses,
        is_cut: pass.is_over,
    })
}

impl<L: Listener> Pass<'_, L> {
    /// Follows instructions between two events. `accesses` begins with theirs; returns the others.
    fn run<'c>(
        &mut self,
        instructions: &[Instruction],
        accesses: &'c [MemoryAccess],
    ) -> &'c [MemoryAccess] {
        let (own, later) = accesses.split_at(access_count(instructions).min(accesses.len()));
        if L::WANTS_ALL {
            let mut rest = own;
            for instruction in instructions {
                let page = instruction.ip.value() >> 12;
                if page != self.fetch && instruction.ip.value() != 0 {
                    self.fetch_from(page);
                }
                if instruction.accesses > 0 {
                    let (own, later) =
                        rest.split_at(usize::from(instruction.accesses).min(rest.len()));
                    own.iter().for_each(|access| self.access(access));
                    rest = later;
                }
            }
        } else {
            own.iter().for_each(|access| self.access(access));
        }
        self.now += instructions.len() as u64;
        later
    }

    #[inline]
    fn access(&mut self, access: &MemoryAccess) {
        let first = access.address.value() >> 12;
        let end = access.address.value().wrapping_add(u64::from(access.size) - 1) >> 12;
        let is_write = access.kind == AccessKind::Write;
        self.access_page(first, is_write);
        if end != first {
            self.access_page(end, is_write);
        }
    }

    #[inline]
    fn access_page(&mut self, page: u64, is_write: bool) {
        if page != self.data.page {
            self.turn_to(page);
        }
        self.pending += 1;
        if is_write && !self.data.is_written {
            self.data.is_written = true;
            self.write();
        }
    }

    /// Begins a run of data accesses to another page.
    fn turn_to(&mut self, page: u64) {
        self.count_pending();
        self.data = Latest { page, is_written: false };
        self.data_id = self.reference(page, false);
    }

    fn count_pending(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if let Some(id) = self.data_id {
            if L::WANTS_ALL {
                self.accesses.add(id, pending);
            }
            self.data_accesses += pending;
        }
    }

    #[inline(never)]
    fn fetch_from(&mut self, page: u64) {
        self.fetch = page;
        self.reference(page, true);
    }

    /// Passes a reference on, if the page is mapped. Returns the page's id.
    fn reference(&mut self, page: u64, is_fetch: bool) -> Option<PageId> {
        if page >= USER_PAGES {
            return None;
        }
        let Some(id) = self.ids.id(self.map.running(), page) else {
            (self.is_over, self.is_out_of_ids) = (true, true);
            return None;
        };
        if !self.known.contains(id.0 as usize) {
            if !self.map.touch(page, is_fetch, self.now) {
                return None;
            }
            self.known.insert(id.0 as usize);
            self.touched.insert(id.0 as usize);
        }
        self.is_over |= !self.listener.hear(Reference::new(id, is_fetch));
        Some(id)
    }

    /// Counts the copy if the page of the first write in a run of accesses is shared after a fork.
    fn write(&mut self) {
        let Some(id) = self.data_id else { return };
        if !self.shared.remove(id.0 as usize) {
            return;
        }
        self.copied.add(id, 1);
        // The partner is then the only owner of the other copy, and writes without copying it.
        if let Some(&partner) = self.partners.get(&self.map.running())
            && let Some(other) = self.ids.id(partner, self.data.page)
        {
            self.shared.remove(other.0 as usize);
        }
        self.forget(id.0..id.0 + 1);
        self.listener.hear(Reference::new(id, false));
    }

    fn forget(&mut self, ids: Range<u32>) {
        let all = ids.start as usize..ids.end as usize;
        if self.known.within(all).next().is_some() {
            self.listener.mark(Mark::Forget(ids));
        }
    }

    fn start_measuring(&mut self) {
        self.count_pending();
        (self.accesses, self.data_accesses) = (PageCounts::default(), 0);
        self.listener.mark(Mark::StartMeasuring);
    }

    #[cold]
    fn event(&mut self, event: &ProgramEvent) {
        self.count_pending();
        (self.data, self.data_id, self.fetch) = (NO_PAGE, None, u64::MAX);
        let before = self.map.running();
        let mut forgotten = Vec::new();
        self.map.on_event(event, self.now, &mut |process, pages| forgotten.push((process, pages)));
        for (process, pages) in forgotten {
            for ids in self.ids.ranges(process, &pages) {
                self.forget(ids.clone());
                let ids = ids.start as usize..ids.end as usize;
                self.known.remove_range(ids.clone());
                self.shared.remove_range(ids);
            }
        }
        match event {
            ProgramEvent::Map { start, length, populate: true, .. } => {
                self.populate(start.value(), *length);
            }
            ProgramEvent::Advise { start, length, advice } if advice.populates() => {
                self.populate(start.value(), *length);
            }
            ProgramEvent::Gap { .. } => self.is_sampled = true,
            ProgramEvent::Fork { child } => self.share(before, *child),
            ProgramEvent::Switch { .. } if self.map.running() != before => {
                self.listener.mark(Mark::Switch);
            }
            _ => {}
        }
    }

    /// Marks pages as resident that the kernel maps before the program touches them. After a gap, recordings
    /// so name the pages that the program touched in it.
    fn populate(&mut self, start: u64, length: u64) {
        let pages = start >> 12..start.saturating_add(length).div_ceil(4096).min(USER_PAGES);
        let mut new = Vec::new();
        for page in pages {
            let Some(id) = self.ids.id(self.map.running(), page) else {
                (self.is_over, self.is_out_of_ids) = (true, true);
                return;
            };
            self.touched.insert(id.0 as usize);
            if self.is_sampled && self.known.insert(id.0 as usize) {
                new.push(id.0);
            }
        }
        for run in new.chunk_by(|id, next| id + 1 == *next) {
            self.listener.mark(Mark::Touched(run[0]..run[0] + run.len() as u32));
        }
    }

    /// Shares the private pages of a process with its child. The child's copies count as touched.
    fn share(&mut self, parent: ProcessId, child: ProcessId) {
        self.partners.insert(parent, child);
        self.partners.insert(child, parent);
        for ids in self.ids.ranges(parent, &(0..USER_PAGES)) {
            let all = ids.start as usize..ids.end as usize;
            let pages: Vec<usize> = self.known.within(all).collect();
            for number in pages {
                let (_, page) = self.ids.page(PageId(number as u32));
                if !self.map.is_private(parent, page) {
                    continue;
                }
                let Some(copy) = self.ids.id(child, page) else {
                    (self.is_over, self.is_out_of_ids) = (true, true);
                    return;
                };
                self.shared.insert(number);
                self.shared.insert(copy.0 as usize);
                self.touched.insert(copy.0 as usize);
            }
            self.forget(ids);
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_trace::{SourceMetadata, TraceError};
    use perforate_types::VirtualAddress;

    use super::*;

    /// Source without events that delivers one chunk.
    struct OneChunk(SourceMetadata, Option<Chunk>);

    impl Source for OneChunk {
        fn metadata(&self) -> &SourceMetadata {
            &self.0
        }

        fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
            let next = self.1.take();
            let is_there = next.is_some();
            *chunk = next.unwrap_or_default();
            Ok(is_there)
        }

        fn skip(&mut self, _: u64) -> Result<u64, TraceError> {
            unreachable!("no test skips")
        }
    }

    /// Instructions that read 8 bytes at each of their addresses. An address of 0 stands for no code.
    fn chunk(instructions: &[(u64, &[u64])]) -> Chunk {
        let mut chunk = Chunk::default();
        for (ip, addresses) in instructions {
            let ip = VirtualAddress::new(*ip);
            let instruction = Instruction { ip, length: 4, ..Instruction::default() };
            let access = |address: &u64| MemoryAccess {
                address: VirtualAddress::new(*address),
                size: 8,
                kind: AccessKind::Read,
            };
            chunk.push(instruction, &addresses.iter().map(access).collect::<Vec<_>>());
        }
        chunk
    }

    /// Pages of the references to fetches and to data, in order, and the data accesses that were counted.
    fn references(instructions: &[(u64, &[u64])]) -> (Vec<(u64, bool)>, u64) {
        let mut source = OneChunk(SourceMetadata::default(), Some(chunk(instructions)));
        let mut heard = References::default();
        let memory =
            collect(&mut source, 0, &mut heard, &AtomicBool::new(false), &mut |_| ()).unwrap();
        let page = |reference: &Reference| {
            let (_, page) = memory.ids.page(reference.id());
            (page, reference.is_fetch())
        };
        (heard.list.iter().map(page).collect(), memory.data_accesses)
    }

    #[test]
    fn references_to_the_page_before_of_their_kind_are_left_out() {
        let found = references(&[
            (0x1000, &[0x8000]),
            (0x1004, &[0x8008, 0x8ff8]),
            (0x1008, &[0x9000, 0x8000]),
            (0x2000, &[0x8010]),
            // The last byte lies in another page.
            (0x2004, &[0x8ffc]),
            (0x1000, &[]),
            (0, &[0x9008]),
        ]);
        let (fetch, data) = (|page| (page, true), |page| (page, false));
        let expected = [fetch(1), data(8), data(9), data(8), fetch(2), data(9), fetch(1)];
        assert_eq!(found, (expected.to_vec(), 9));
    }
}
