//! Areas of a program, from the events of its trace.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use perforate_types::{Backing, ProcessId, ProgramEvent, RangeMap, VirtualAddress};

use crate::{Area, AreaKind};

/// Largest distance of a touch below a stack that extends it, in bytes: Linux's default limit.
const STACK_GROWTH: u64 = 8 << 20;
/// Largest gap between touched addresses of one area in a trace without mappings, in bytes.
pub(crate) const LARGEST_GAP: u64 = 2 << 20;

/// Memory that is mapped now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    kind: AreaKind,
    name: u32,
    /// False for PROT_NONE: reserved addresses, which are no part of an area.
    accessible: bool,
    /// True for MAP_SHARED: processes that fork share writes.
    shared: bool,
}

/// Memory that was mapped at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    kind: AreaKind,
    name: u32,
    since: u64,
    /// Instruction before which the part was unmapped for the last time; `None` while it is mapped.
    until: Option<u64>,
}

#[derive(Clone, Default)]
struct Process {
    mapped: RangeMap<Mapping>,
    parts: RangeMap<Part>,
    heap: Option<Range<u64>>,
}

/// Mappings of all processes at one moment, and the areas so far.
///
/// Where addresses were mapped as different kinds at different times, they belong to the kind that takes
/// advice; of two such kinds, to the later one.
pub(crate) struct AreaMap {
    processes: BTreeMap<ProcessId, Process>,
    running: ProcessId,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// True if addresses outside all mappings become areas, as for traces without mappings.
    is_implicit: bool,
}

impl AreaMap {
    /// Creates the map of a trace. `has_events` is true if the trace says what was mapped.
    pub(crate) fn new(has_events: bool) -> Self {
        Self {
            processes: BTreeMap::new(),
            running: ProcessId(0),
            names: Vec::new(),
            numbers: HashMap::new(),
            is_implicit: !has_events,
        }
    }

    pub(crate) fn running(&self) -> ProcessId {
        self.running
    }

    /// Follows an event before instruction `now`. Calls `forget` with each process and range of pages whose
    /// translations the event removes.
    pub(crate) fn on_event(
        &mut self,
        event: &ProgramEvent,
        now: u64,
        forget: &mut dyn FnMut(ProcessId, Range<u64>),
    ) {
        let running = self.running;
        let mut forget_bytes = |process, bytes: &Range<u64>| {
            forget(process, bytes.start >> 12..bytes.end.div_ceil(4096));
        };
        match *event {
            ProgramEvent::Map { start, length, accessible, backing, shared, .. } => {
                let bytes = bytes_of(start, length);
                forget_bytes(running, &bytes);
                let kind = kind_of(backing, shared);
                let name = self.name_of(default_name(kind));
                self.map(running, bytes, Mapping { kind, name, accessible, shared }, now);
            }
            ProgramEvent::Unmap { start, length } => {
                let bytes = bytes_of(start, length);
                forget_bytes(running, &bytes);
                self.unmap(running, &bytes, now);
            }
            ProgramEvent::Protect { start, length, accessible, .. } => {
                let bytes = bytes_of(start, length);
                forget_bytes(running, &bytes);
                let before = self.unmap(running, &bytes, now);
                for (bytes, mapping) in before {
                    self.map(running, bytes, Mapping { accessible, ..mapping }, now);
                }
            }
            ProgramEvent::Advise { start, length, advice } => {
                if matches!(advice, perforate_types::Advice::DontNeed) {
                    forget_bytes(running, &bytes_of(start, length));
                }
            }
            ProgramEvent::Remap { from, from_length, to, to_length } => {
                let (from, to) = (bytes_of(from, from_length), bytes_of(to, to_length));
                let moved = self.unmap(running, &from, now);
                // Growth in place keeps translations.
                if from.start != to.start {
                    forget_bytes(running, &from);
                    forget_bytes(running, &to);
                } else if to.end < from.end {
                    forget_bytes(running, &(to.end..from.end));
                }
                if let Some((_, mapping)) = moved.first() {
                    self.map(running, to, *mapping, now);
                }
            }
            ProgramEvent::Brk { start, end } => {
                let name = self.name_of(default_name(AreaKind::Heap));
                let mut heap = pages_around(start.value()..end.value().max(start.value()));
                let process = self.processes.entry(running).or_default();
                // The heap may begin in the last page of the program's data.
                if process.mapped.find(heap.start).is_some_and(|(_, it)| it.kind != AreaKind::Heap)
                {
                    heap.start += 4096;
                    heap.end = heap.end.max(heap.start);
                }
                let old = process.heap.replace(heap.clone()).unwrap_or(heap.start..heap.start);
                if heap.end < old.end {
                    forget_bytes(running, &(heap.end..old.end));
                    self.unmap(running, &(heap.end..old.end), now);
                }
                let kind = AreaKind::Heap;
                let mapping = Mapping { kind, name, accessible: true, shared: false };
                self.map(running, old.end.min(heap.end)..heap.end, mapping, now);
            }
            ProgramEvent::Name { start, length, ref name } => {
                self.rename(running, &bytes_of(start, length), name);
            }
            ProgramEvent::Fork { child } => {
                let parent = self.processes.entry(running).or_default();
                let (mapped, heap) = (parent.mapped.clone(), parent.heap.clone());
                self.processes.entry(child).or_default().heap = heap;
                for (bytes, mapping) in mapped.iter() {
                    self.map(child, bytes, *mapping, now);
                }
            }
            ProgramEvent::Exec => self.end(running, now, forget),
            ProgramEvent::Exit { process } => self.end(process, now, forget),
            ProgramEvent::Switch { process, .. } => self.running = process,
            ProgramEvent::Gap { .. } | ProgramEvent::Phase { .. } => {}
        }
    }

    /// True if an access of the running process to this page succeeds. An access may make a mapping: below a
    /// stack, or anywhere in a trace without mappings.
    pub(crate) fn touch(&mut self, page: u64, is_fetch: bool, now: u64) -> bool {
        let (running, address) = (self.running, page << 12);
        let process = self.processes.entry(running).or_default();
        if let Some((_, mapping)) = process.mapped.find(address) {
            return mapping.accessible;
        }
        let next = process.mapped.next_above(address);
        if let Some((stack, &mapping)) = next.filter(|(_, next)| next.kind == AreaKind::Stack)
            && stack.start - address <= STACK_GROWTH
        {
            self.map(running, address..stack.start, mapping, now);
            return true;
        }
        if self.is_implicit {
            let kind = if is_fetch { AreaKind::File } else { AreaKind::Anonymous };
            let name = self.name_of("");
            let mapping = Mapping { kind, name, accessible: true, shared: false };
            self.map(running, address..address + 4096, mapping, now);
        }
        self.is_implicit
    }

    /// True if writes of the process to this page are not seen by processes that it forks.
    pub(crate) fn is_private(&self, process: ProcessId, page: u64) -> bool {
        let memory = self.processes.get(&process);
        let found = memory.and_then(|memory| memory.mapped.find(page << 12));
        found.is_some_and(|(_, mapping)| !mapping.shared)
    }

    fn name_of(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn map(&mut self, process: ProcessId, bytes: Range<u64>, mapping: Mapping, now: u64) {
        self.unmap(process, &bytes, now);
        let Process { mapped, parts, .. } = self.processes.entry(process).or_default();
        mapped.insert(bytes.clone(), mapping);
        if !mapping.accessible {
            return;
        }
        let Mapping { kind, name, .. } = mapping;
        let before = parts.remove(&bytes);
        parts.insert(bytes.clone(), Part { kind, name, since: now, until: None });
        for (bytes, part) in before {
            let keeps = part.kind.takes_advice() && !kind.takes_advice();
            let (kind, name) = if keeps { (part.kind, part.name) } else { (kind, name) };
            parts.remove(&bytes);
            parts.insert(bytes, Part { kind, name, since: part.since, until: None });
        }
    }

    /// Names the mapped memory in a range; an empty name gives back the name of its kind.
    fn rename(&mut self, process: ProcessId, bytes: &Range<u64>, name: &str) {
        let own = (!name.is_empty()).then(|| self.name_of(name));
        let removed = self.processes.entry(process).or_default().mapped.remove(bytes);
        for (bytes, mapping) in removed {
            let name = own.unwrap_or_else(|| self.name_of(default_name(mapping.kind)));
            let Process { mapped, parts, .. } = self.processes.entry(process).or_default();
            mapped.insert(bytes.clone(), Mapping { name, ..mapping });
            for (bytes, part) in parts.remove(&bytes) {
                // Memory that takes advice keeps its name from what was mapped there for a time.
                let name = if part.kind == mapping.kind { name } else { part.name };
                parts.insert(bytes, Part { name, ..part });
            }
        }
    }

    fn unmap(
        &mut self,
        process: ProcessId,
        bytes: &Range<u64>,
        now: u64,
    ) -> Vec<(Range<u64>, Mapping)> {
        let Process { mapped, parts, .. } = self.processes.entry(process).or_default();
        let removed = mapped.remove(bytes);
        for (bytes, _) in &removed {
            for (bytes, part) in parts.remove(bytes) {
                parts.insert(bytes, Part { until: Some(part.until.unwrap_or(now)), ..part });
            }
        }
        removed
    }

    fn end(&mut self, process: ProcessId, now: u64, forget: &mut dyn FnMut(ProcessId, Range<u64>)) {
        let all = 0..u64::MAX;
        self.unmap(process, &all, now);
        self.processes.entry(process).or_default().heap = None;
        forget(process, all.start >> 12..all.end >> 12);
    }

    /// Areas in order of process and address, at the end of a trace of `instructions`.
    pub(crate) fn areas(&self, instructions: u64) -> Vec<Area> {
        let largest_gap = if self.is_implicit { LARGEST_GAP } else { 0 };
        let mut areas: Vec<Area> = Vec::new();
        for (&process, memory) in &self.processes {
            for (bytes, part) in memory.parts.iter() {
                let name = &self.names[part.name as usize];
                let lifetime = part.since..part.until.unwrap_or(instructions);
                let joins = |area: &&mut Area| {
                    area.process == process
                        && area.kind == part.kind
                        && area.name == *name
                        && bytes.start - area.bytes.end <= largest_gap
                };
                match areas.last_mut().filter(joins) {
                    Some(area) => {
                        area.bytes.end = bytes.end;
                        area.lifetime.start = area.lifetime.start.min(lifetime.start);
                        area.lifetime.end = area.lifetime.end.max(lifetime.end);
                    }
                    None => {
                        let (kind, name) = (part.kind, name.clone());
                        areas.push(Area { process, name, kind, bytes, lifetime });
                    }
                }
            }
        }
        areas
    }
}

fn bytes_of(start: VirtualAddress, length: u64) -> Range<u64> {
    pages_around(start.value()..start.value().saturating_add(length))
}

fn pages_around(bytes: Range<u64>) -> Range<u64> {
    bytes.start & !4095..bytes.end.checked_next_multiple_of(4096).unwrap_or(!4095)
}

fn kind_of(backing: Backing, shared: bool) -> AreaKind {
    match backing {
        Backing::Anonymous if shared => AreaKind::Shared,
        Backing::Anonymous => AreaKind::Anonymous,
        Backing::File => AreaKind::File,
        Backing::Stack => AreaKind::Stack,
        Backing::Heap => AreaKind::Heap,
    }
}

/// Name of areas of a kind in traces that have no names.
fn default_name(kind: AreaKind) -> &'static str {
    match kind {
        AreaKind::Heap => "[heap]",
        AreaKind::Stack => "[stack]",
        AreaKind::Anonymous | AreaKind::File | AreaKind::Shared | AreaKind::Unknown => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perforate_types::{Permissions, ThreadId};

    fn map(map: &mut AreaMap, start: u64, pages: u64, backing: Backing) {
        let event = ProgramEvent::Map {
            start: VirtualAddress::new(start),
            length: pages * 4096,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing,
            shared: false,
            populate: false,
        };
        map.on_event(&event, 0, &mut |_, _| {});
    }

    fn name(map: &mut AreaMap, start: u64, pages: u64, name: &str) {
        let (start, length) = (VirtualAddress::new(start), pages * 4096);
        let event = ProgramEvent::Name { start, length, name: name.into() };
        map.on_event(&event, 0, &mut |_, _| panic!("a name changes no translation"));
    }

    #[test]
    fn names_divide_areas_and_an_empty_name_joins_them_again() {
        let mut memory = AreaMap::new(true);
        map(&mut memory, 0x10000, 8, Backing::Anonymous);
        map(&mut memory, 0x18000, 2, Backing::File);
        name(&mut memory, 0x12000, 2, "[anon:arena]");
        // What is named reaches into the file, and to addresses where nothing is mapped.
        name(&mut memory, 0x18000, 100, "/lib/a.so");
        let found = |memory: &AreaMap| -> Vec<(Range<u64>, String)> {
            memory.areas(1).into_iter().map(|area| (area.bytes, area.name)).collect()
        };
        let named = |range: Range<u64>, name: &str| (range, name.to_owned());
        let file = named(0x18000..0x1a000, "/lib/a.so");
        assert_eq!(
            found(&memory),
            [
                named(0x10000..0x12000, ""),
                named(0x12000..0x14000, "[anon:arena]"),
                named(0x14000..0x18000, ""),
                file.clone(),
            ]
        );
        name(&mut memory, 0x12000, 2, "");
        assert_eq!(found(&memory), [named(0x10000..0x18000, ""), file]);
    }

    /// Pages of the test's addresses: a heap of at most 8 pages, and mappings above.
    const PAGES: u64 = 48;
    const HEAP: u64 = 8;

    /// Mapped pages of a process: true if they are accessible, and a number that no earlier translation of the
    /// page had.
    type Mapped = BTreeMap<u64, (bool, u64)>;

    fn event_of(below: &mut impl FnMut(u64) -> u64, mapped: &Mapped) -> Option<ProgramEvent> {
        let from = HEAP + below(PAGES - HEAP);
        let pages = 1 + below(PAGES - from);
        let (start, length) = (VirtualAddress::new(from << 12), pages << 12);
        let accessible = below(4) > 0;
        let permissions = Permissions::READ_WRITE;
        Some(match below(14) {
            0..3 => ProgramEvent::Map {
                start,
                length,
                permissions,
                accessible,
                backing: Backing::Anonymous,
                shared: false,
                populate: false,
            },
            3..5 => ProgramEvent::Unmap { start, length },
            5..7 => ProgramEvent::Protect { start, length, permissions, accessible },
            7 => ProgramEvent::Advise { start, length, advice: perforate_types::Advice::DontNeed },
            8 => ProgramEvent::Advise { start, length, advice: perforate_types::Advice::Free },
            9 | 10 => {
                // Memory that is mapped in one manner moves to other addresses, or grows into free ones.
                let first = mapped.get(&from)?.0;
                let pages = (from..from + pages).take_while(|page| {
                    mapped.get(page).is_some_and(|&(accessible, _)| accessible == first)
                });
                let pages = pages.count() as u64;
                let to = if below(2) == 0 { from } else { HEAP + below(PAGES - HEAP) };
                let to_pages = 1 + below(PAGES - to);
                let is_apart = to >= from + pages || to + to_pages <= from;
                let is_free = |mut pages: Range<u64>| pages.all(|page| !mapped.contains_key(&page));
                if to != from && !is_apart || to == from && !is_free(from + pages..to + to_pages) {
                    return None;
                }
                let (to, to_length) = (VirtualAddress::new(to << 12), to_pages << 12);
                ProgramEvent::Remap { from: start, from_length: pages << 12, to, to_length }
            }
            11 => {
                let end = VirtualAddress::new(below((HEAP << 12) + 1));
                ProgramEvent::Brk { start: VirtualAddress::new(0), end }
            }
            12 => ProgramEvent::Exec,
            _ => {
                let process = below(2) as u16;
                ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(process) }
            }
        })
    }

    /// Applies an event to the pages of the running process, one by one.
    fn apply(event: &ProgramEvent, mapped: &mut Mapped, heap: &mut u64, fresh: &mut u64) {
        let pages = |start: VirtualAddress, length: u64| {
            let first = start.value() >> 12;
            first..first + length / 4096
        };
        let mut renew = |mapped: &mut Mapped, pages: Range<u64>, accessible: Option<bool>| {
            for page in pages {
                *fresh += 1;
                match accessible {
                    Some(accessible) => mapped.insert(page, (accessible, *fresh)),
                    None => mapped.remove(&page),
                };
            }
        };
        match *event {
            ProgramEvent::Map { start, length, accessible, .. } => {
                renew(mapped, pages(start, length), Some(accessible));
            }
            ProgramEvent::Unmap { start, length } => renew(mapped, pages(start, length), None),
            ProgramEvent::Protect { start, length, accessible, .. } => {
                let all = pages(start, length).filter(|page| mapped.contains_key(page));
                for page in all.collect::<Vec<_>>() {
                    renew(mapped, page..page + 1, Some(accessible));
                }
            }
            ProgramEvent::Advise { start, length, advice: perforate_types::Advice::DontNeed } => {
                for page in pages(start, length) {
                    if let Some(&(accessible, _)) = mapped.get(&page) {
                        renew(mapped, page..page + 1, Some(accessible));
                    }
                }
            }
            ProgramEvent::Remap { from, from_length, to, to_length } => {
                let (from, to) = (pages(from, from_length), pages(to, to_length));
                let accessible = Some(mapped[&from.start].0);
                if from.start == to.start {
                    renew(mapped, to.end.min(from.end)..from.end, None);
                    renew(mapped, from.end..to.end.max(from.end), accessible);
                } else {
                    renew(mapped, from, None);
                    renew(mapped, to, accessible);
                }
            }
            ProgramEvent::Brk { end, .. } => {
                let end = end.value().div_ceil(4096);
                renew(mapped, end.min(*heap)..*heap, None);
                renew(mapped, *heap..end.max(*heap), Some(true));
                *heap = end;
            }
            ProgramEvent::Exec => {
                mapped.clear();
                *heap = 0;
            }
            _ => {}
        }
    }

    /// Exactly the translations that an event ends are forgotten, and exactly mapped memory that is
    /// accessible can be touched.
    #[test]
    fn translations_are_forgotten_when_they_end() {
        for seed in 0..40_u64 {
            let mut state = seed;
            let mut below = |limit: u64| {
                state =
                    state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                (state >> 33) % limit
            };
            let mut memory = AreaMap::new(true);
            let mut processes = [(Mapped::new(), 0), (Mapped::new(), 0)];
            let mut fresh = 0;
            for step in 0..200 {
                let running = memory.running();
                let (mapped, heap) = &mut processes[usize::from(running.0)];
                let Some(event) = event_of(&mut below, mapped) else { continue };
                let before = mapped.clone();
                apply(&event, mapped, heap, &mut fresh);
                let mut forgotten = Vec::new();
                memory.on_event(&event, step, &mut |process, pages| {
                    assert_eq!(process, running, "seed {seed}: {event:?}");
                    forgotten.push(pages);
                });
                for (page, old) in before {
                    let has_ended = mapped.get(&page) != Some(&old);
                    let is_forgotten = forgotten.iter().any(|pages| pages.contains(&page));
                    assert_eq!(is_forgotten, has_ended, "seed {seed}: page {page}, {event:?}");
                }
                let (mapped, _) = &processes[usize::from(memory.running().0)];
                for page in 0..PAGES {
                    let expected = mapped.get(&page).is_some_and(|&(accessible, _)| accessible);
                    let found = memory.touch(page, false, step);
                    assert_eq!(found, expected, "seed {seed}: page {page} after {event:?}");
                }
            }
        }
    }
}
