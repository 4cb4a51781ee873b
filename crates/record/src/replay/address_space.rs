//! Mappings of a recorded program, updated by its system calls, so that the trace can start with the
//! memory that was mapped before.

use std::ops::Range;
use std::sync::Arc;

use perforate_types::{Advice, Backing, Permissions, ProgramEvent, RangeMap, VirtualAddress};

use super::advised::AdvisedRanges;

/// A mapping of a process. Its addresses are its key in [`AddressSpace::areas`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Area {
    permissions: Permissions,
    accessible: bool,
    backing: Backing,
    shared: bool,
    /// Name as in `/proc/PID/maps`; `None` if the mapping has none.
    name: Option<Arc<str>>,
}

impl Area {
    /// Makes the events that map the part of the area from `start` to `end`, with all pages if `populate`, and
    /// name it.
    fn events(&self, start: u64, end: u64, populate: bool) -> impl Iterator<Item = ProgramEvent> {
        let (start, length) = (VirtualAddress::new(start), end - start);
        let map = ProgramEvent::Map {
            start,
            length,
            permissions: self.permissions,
            accessible: self.accessible,
            backing: self.backing,
            shared: self.shared,
            populate,
        };
        let name = self.name.as_deref().map(String::from);
        let name = name.map(|name| ProgramEvent::Name { start, length, name });
        [map].into_iter().chain(name)
    }
}

/// Mappings of one recorded process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSpace {
    areas: RangeMap<Area>,
    heap: Option<Range<u64>>,
    advised: AdvisedRanges,
}

impl AddressSpace {
    /// Changes the mappings as an event of the trace does.
    pub fn apply(&mut self, event: &ProgramEvent) {
        match event {
            ProgramEvent::Map {
                start, length, permissions, accessible, backing, shared, ..
            } => {
                let range = start.value()..start.value().saturating_add(*length);
                let (permissions, accessible) = (*permissions, *accessible);
                let (backing, shared) = (*backing, *shared);
                let area = Area { permissions, accessible, backing, shared, name: None };
                self.advised.forget(range.clone());
                self.areas.replace(range, area);
            }
            ProgramEvent::Unmap { start, length } => {
                let range = start.value()..start.value().saturating_add(*length);
                self.areas.remove(&range);
                self.advised.forget(range);
            }
            ProgramEvent::Advise { start, length, advice } => {
                let range = start.value()..start.value().saturating_add(*length);
                self.advised.advise(range, *advice);
            }
            ProgramEvent::Protect { start, length, permissions, accessible } => {
                let range = start.value()..start.value().saturating_add(*length);
                self.change(&range, |area| {
                    (area.permissions, area.accessible) = (*permissions, *accessible);
                });
            }
            ProgramEvent::Name { start, length, name } => {
                let range = start.value()..start.value().saturating_add(*length);
                let name = (!name.is_empty()).then(|| Arc::from(name.as_str()));
                self.change(&range, |area| area.name.clone_from(&name));
            }
            ProgramEvent::Remap { from, from_length, to, to_length } => {
                self.remap(from.value(), *from_length, to.value(), *to_length);
            }
            ProgramEvent::Brk { start, end } => {
                let old_end = self.heap.as_ref().map_or(0, |heap| heap.end);
                if end.value() < old_end {
                    self.advised.forget(end.value()..old_end);
                }
                self.heap = Some(start.value()..end.value());
            }
            ProgramEvent::Fork { .. }
            | ProgramEvent::Exec
            | ProgramEvent::Exit { .. }
            | ProgramEvent::Gap { .. }
            | ProgramEvent::Phase { .. }
            | ProgramEvent::Switch { .. } => {}
        }
    }

    /// Changes the areas in an address range. Areas that extend beyond it are split at its ends.
    fn change(&mut self, range: &Range<u64>, change: impl Fn(&mut Area)) {
        for (part, mut area) in self.areas.remove(range) {
            change(&mut area);
            self.areas.replace(part, area);
        }
    }

    fn remap(&mut self, from: u64, from_length: u64, to: u64, to_length: u64) {
        // Programs may pass any length; addresses end at u64::MAX.
        let (end, to_end) = (from.saturating_add(from_length), to.saturating_add(to_length));
        let Some((_, area)) = self.areas.find(from) else { return };
        let area = area.clone();
        self.areas.remove(&(from..end));
        self.areas.replace(to..to_end, area);
        self.advised.remap(from..end, to..to_end);
    }

    /// Makes map events for the mapped parts of an address range, as if they were mapped anew.
    pub fn mappings(&self, range: Range<u64>) -> Vec<ProgramEvent> {
        self.areas
            .within(range)
            .flat_map(|(part, area)| area.events(part.start, part.end, false))
            .collect()
    }

    /// Makes the events of PR_SET_VMA_ANON_NAME, which gives the anonymous memory in an address range a name.
    /// Mapped files and attached segments keep theirs.
    pub fn naming_events(&self, range: Range<u64>, name: &str) -> Vec<ProgramEvent> {
        let anonymous = self.areas.within(range).filter(|(_, area)| {
            let is_file = area.name.as_deref().is_some_and(|name| name.starts_with('/'));
            area.backing == Backing::Anonymous && !is_file
        });
        let events = anonymous.map(|(part, area)| {
            let kind = if area.shared { "anon_shmem" } else { "anon" };
            let name = if name.is_empty() { String::new() } else { format!("[{kind}:{name}]") };
            let start = VirtualAddress::new(part.start);
            ProgramEvent::Name { start, length: part.end - part.start, name }
        });
        events.collect()
    }

    /// Address range of the mapping that begins at `start`; `None` if no mapping begins there.
    pub fn area(&self, start: u64) -> Option<Range<u64>> {
        self.areas.find(start).map(|(range, _)| range).filter(|range| range.start == start)
    }

    /// True if the program may read the byte at `address`, or write it if `is_write`.
    pub fn allows(&self, address: u64, is_write: bool) -> bool {
        match self.areas.find(address) {
            Some((_, area)) => area.accessible && (area.permissions.write || !is_write),
            None => self.heap.as_ref().is_some_and(|heap| heap.contains(&address)),
        }
    }

    /// Start address of the heap; `None` until it is known.
    pub fn heap_start(&self) -> Option<u64> {
        self.heap.as_ref().map(|heap| heap.start)
    }

    /// Makes events that populate the pages that are in memory or swapped out, for an address space whose
    /// mappings are already in the trace; see [`AddressSpace::events`] for `present`.
    pub fn populating_events(
        &self,
        present: impl FnMut(Range<u64>) -> Vec<Range<u64>>,
    ) -> Vec<ProgramEvent> {
        let areas = self.areas.iter().filter(|(_, area)| area.accessible);
        let ranges =
            areas.map(|(range, _)| range).chain(self.heap.clone().filter(|heap| !heap.is_empty()));
        ranges.flat_map(present).map(populate_event).collect()
    }

    /// Makes events that turn an empty address space into this one. `present` returns the parts of an address
    /// range whose pages are in memory or swapped out. These are populated, after the program's advice about
    /// large pages is given.
    pub fn events(
        &self,
        mut present: impl FnMut(Range<u64>) -> Vec<Range<u64>>,
    ) -> Vec<ProgramEvent> {
        let (mut events, mut later) = (Vec::new(), Vec::new());
        for (range, area) in self.areas.iter() {
            let runs = if area.accessible { present(range.clone()) } else { Vec::new() };
            let is_advised = self.advised.overlaps(&range);
            let populate = !is_advised && runs.first() == Some(&range);
            events.extend(area.events(range.start, range.end, populate));
            if !populate {
                let events = if is_advised { &mut later } else { &mut events };
                events.extend(runs.into_iter().map(populate_event));
            }
        }
        if let Some(heap) = self.heap.clone().filter(|heap| !heap.is_empty()) {
            let (start, end) = (VirtualAddress::new(heap.start), VirtualAddress::new(heap.end));
            events.push(ProgramEvent::Brk { start, end });
            later.extend(present(heap).into_iter().map(populate_event));
        }
        events.extend(self.advised.events());
        events.extend(later);
        events
    }
}

/// Makes an event that populates the pages of an address range.
pub fn populate_event(range: Range<u64>) -> ProgramEvent {
    ProgramEvent::Advise {
        start: VirtualAddress::new(range.start),
        length: range.end - range.start,
        advice: Advice::POPULATE_WRITE,
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // One run of pages.
mod tests {
    use super::*;

    fn map(start: u64, length: u64, permissions: Permissions) -> ProgramEvent {
        ProgramEvent::Map {
            start: VirtualAddress::new(start),
            length,
            permissions,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        }
    }

    fn unmap(start: u64, length: u64) -> ProgramEvent {
        ProgramEvent::Unmap { start: VirtualAddress::new(start), length }
    }

    fn after(events: &[ProgramEvent]) -> Vec<ProgramEvent> {
        let mut space = AddressSpace::default();
        for event in events {
            space.apply(event);
        }
        space.events(|_| Vec::new())
    }

    const RW: Permissions = Permissions::READ_WRITE;

    #[test]
    fn a_hole_in_the_middle_leaves_both_ends() {
        let left = after(&[map(0x10000, 0x4000, RW), unmap(0x11000, 0x1000)]);
        assert_eq!(left, [map(0x10000, 0x1000, RW), map(0x12000, 0x2000, RW)]);
    }

    #[test]
    fn accesses_are_allowed_where_memory_is_mapped() {
        let mut space = AddressSpace::default();
        space.apply(&map(0x10000, 0x2000, RW));
        space.apply(&map(0x12000, 0x1000, Permissions::READ));
        let (start, end) = (VirtualAddress::new(0x50000), VirtualAddress::new(0x52000));
        space.apply(&ProgramEvent::Brk { start, end });
        for (address, read, write) in [
            (0xffff, false, false),
            (0x10000, true, true),
            (0x12fff, true, false),
            (0x13000, false, false),
            (0x51fff, true, true),
            (0x52000, false, false),
        ] {
            let found = (space.allows(address, false), space.allows(address, true));
            assert_eq!(found, (read, write), "{address:x}");
        }
    }

    #[test]
    fn a_new_mapping_replaces_and_protection_cuts() {
        let read = Permissions::READ;
        let over = after(&[map(0x10000, 0x3000, RW), map(0x11000, 0x1000, read)]);
        let expected =
            [map(0x10000, 0x1000, RW), map(0x11000, 0x1000, read), map(0x12000, 0x1000, RW)];
        assert_eq!(over, expected);
        let protect = ProgramEvent::Protect {
            start: VirtualAddress::new(0x11000),
            length: 0x1000,
            permissions: read,
            accessible: true,
        };
        assert_eq!(after(&[map(0x10000, 0x3000, RW), protect]), expected);
    }

    #[test]
    fn remap_moves_and_grows() {
        let remap = ProgramEvent::Remap {
            from: VirtualAddress::new(0x11000),
            from_length: 0x1000,
            to: VirtualAddress::new(0x80000),
            to_length: 0x3000,
        };
        let moved = after(&[map(0x10000, 0x2000, RW), remap]);
        assert_eq!(moved, [map(0x10000, 0x1000, RW), map(0x80000, 0x3000, RW)]);
        let grow = ProgramEvent::Remap {
            from: VirtualAddress::new(0x10000),
            from_length: 0x2000,
            to: VirtualAddress::new(0x10000),
            to_length: 0x3000,
        };
        assert_eq!(after(&[map(0x10000, 0x2000, RW), grow]), [map(0x10000, 0x3000, RW)]);
    }

    #[test]
    fn lengths_are_clamped_to_the_last_address() {
        let remap = ProgramEvent::Remap {
            from: VirtualAddress::new(0x10000),
            from_length: u64::MAX,
            to: VirtualAddress::new(0x80000),
            to_length: u64::MAX,
        };
        let protect = ProgramEvent::Protect {
            start: VirtualAddress::new(0x10000),
            length: u64::MAX,
            permissions: Permissions::READ,
            accessible: true,
        };
        let all = [map(0x10000, u64::MAX, RW), remap, protect];
        let expected = [map(0x80000, u64::MAX - 0x80000, Permissions::READ)];
        assert_eq!(after(&all), expected);
        assert_eq!(after(&[map(0x10000, 0x1000, RW), unmap(0x8000, u64::MAX)]), []);
    }

    #[test]
    fn advice_comes_before_the_pages_it_is_for() {
        let advise = |start, length, advice| ProgramEvent::Advise {
            start: VirtualAddress::new(start),
            length,
            advice,
        };
        let mut space = AddressSpace::default();
        let (start, end) = (VirtualAddress::new(0x50000), VirtualAddress::new(0x58000));
        let heap = ProgramEvent::Brk { start, end };
        let advice = [
            advise(0x11000, 0x2000, perforate_types::Advice::NoHugePage),
            advise(0x54000, 0x4000, perforate_types::Advice::HugePage),
        ];
        for event in [map(0x10000, 0x4000, RW), map(0x20000, 0x1000, RW), heap.clone()] {
            space.apply(&event);
        }
        advice.iter().for_each(|event| space.apply(event));
        let mut whole = map(0x20000, 0x1000, RW);
        if let ProgramEvent::Map { populate, .. } = &mut whole {
            *populate = true;
        }
        let [small, large] = advice.clone();
        let expected = [
            map(0x10000, 0x4000, RW),
            whole,
            heap,
            small,
            large,
            populate_event(0x10000..0x14000),
            populate_event(0x50000..0x58000),
        ];
        assert_eq!(space.events(|range| vec![range]), expected);
        // Memory that is mapped anew, unmapped or freed has no advice.
        space.apply(&map(0x12000, 0x1000, RW));
        space.apply(&ProgramEvent::Brk { start, end: VirtualAddress::new(0x54000) });
        let left = space.events(|_| Vec::new());
        let left: Vec<_> =
            left.iter().filter(|event| matches!(event, ProgramEvent::Advise { .. })).collect();
        assert_eq!(left, [&advise(0x11000, 0x1000, perforate_types::Advice::NoHugePage)]);
    }

    /// Advice moves with memory that mremap moves, and extends to the added memory; the old area keeps
    /// none.
    #[test]
    fn advice_moves_with_its_memory() {
        let advise = |start, length| ProgramEvent::Advise {
            start: VirtualAddress::new(start),
            length,
            advice: perforate_types::Advice::HugePage,
        };
        let remap = |from, from_length, to, to_length| ProgramEvent::Remap {
            from: VirtualAddress::new(from),
            from_length,
            to: VirtualAddress::new(to),
            to_length,
        };
        let advised = [map(0x10000, 0x4000, RW), advise(0x12000, 0x2000)];
        let then = |event| after(&[&advised[..], &[event]].concat());
        // The whole area; its half without advice; its end, which grows.
        let moved = then(remap(0x10000, 0x4000, 0x80000, 0x4000));
        assert_eq!(moved, [map(0x80000, 0x4000, RW), advise(0x82000, 0x2000)]);
        let without = then(remap(0x10000, 0x2000, 0x80000, 0x2000));
        let expected =
            [map(0x12000, 0x2000, RW), map(0x80000, 0x2000, RW), advise(0x12000, 0x2000)];
        assert_eq!(without, expected);
        let grown = then(remap(0x13000, 0x1000, 0x80000, 0x3000));
        let expected = [
            map(0x10000, 0x3000, RW),
            map(0x80000, 0x3000, RW),
            advise(0x12000, 0x1000),
            advise(0x80000, 0x3000),
        ];
        assert_eq!(grown, expected);
    }

    #[test]
    fn names_follow_their_memory() {
        let name = |start, length, name: &str| ProgramEvent::Name {
            start: VirtualAddress::new(start),
            length,
            name: name.into(),
        };
        let remap = ProgramEvent::Remap {
            from: VirtualAddress::new(0x11000),
            from_length: 0x2000,
            to: VirtualAddress::new(0x80000),
            to_length: 0x4000,
        };
        let events = [
            map(0x10000, 0x4000, RW),
            name(0x11000, 0x2000, "[anon:a]"),
            remap,
            name(0x80000, 0x1000, ""),
            name(0x90000, 0x1000, "/nothing"),
        ];
        let expected = [
            map(0x10000, 0x1000, RW),
            map(0x13000, 0x1000, RW),
            map(0x80000, 0x1000, RW),
            map(0x81000, 0x3000, RW),
            name(0x81000, 0x3000, "[anon:a]"),
        ];
        assert_eq!(after(&events), expected);
        let again = [&events[..], &[map(0x81000, 0x3000, RW)]].concat();
        assert_eq!(after(&again), expected[..4], "a new mapping has no name");
    }

    #[test]
    fn pages_that_exist_are_populated() {
        let mut space = AddressSpace::default();
        space.apply(&map(0x10000, 0x2000, RW));
        space.apply(&map(0x20000, 0x3000, RW));
        let (start, end) = (VirtualAddress::new(0x50000), VirtualAddress::new(0x52000));
        space.apply(&ProgramEvent::Brk { start, end });
        let events = space.events(|range| match range.start {
            0x10000 => vec![0x10000..0x12000],
            0x20000 => vec![0x21000..0x22000],
            _ => vec![0x50000..0x51000],
        });
        let mut whole = map(0x10000, 0x2000, RW);
        if let ProgramEvent::Map { populate, .. } = &mut whole {
            *populate = true;
        }
        let expected = [
            whole,
            map(0x20000, 0x3000, RW),
            populate_event(0x21000..0x22000),
            ProgramEvent::Brk { start, end },
            populate_event(0x50000..0x51000),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn later_windows_begin_with_the_pages_that_exist() {
        let mut space = AddressSpace::default();
        let inaccessible = ProgramEvent::Protect {
            start: VirtualAddress::new(0x11000),
            length: 0x1000,
            permissions: RW,
            accessible: false,
        };
        let (start, end) = (VirtualAddress::new(0x50000), VirtualAddress::new(0x52000));
        for event in [map(0x10000, 0x3000, RW), inaccessible] {
            space.apply(&event);
        }
        let expected = [populate_event(0x10000..0x11000), populate_event(0x12000..0x13000)];
        assert_eq!(space.populating_events(|range| vec![range]), expected);
        space.apply(&ProgramEvent::Brk { start, end: start });
        assert_eq!(space.populating_events(|range| vec![range]).len(), 2, "an empty heap");
        space.apply(&ProgramEvent::Brk { start, end });
        let events = space.populating_events(|range| vec![range]);
        assert_eq!(events[2..], [populate_event(0x50000..0x52000)]);
        assert!(!space.allows(0x11000, false) && space.allows(0x12000, true));
        assert_eq!(
            (space.heap_start(), space.area(0x12000), space.area(0x12001)),
            (Some(0x50000), Some(0x12000..0x13000), None)
        );
        let parts = |range: Range<u64>| {
            space
                .mappings(range)
                .iter()
                .map(|event| match event {
                    ProgramEvent::Map { start, length, .. } => (start.value(), *length),
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(parts(0x10800..0x12000), [(0x10800, 0x800), (0x11000, 0x1000)]);
        assert_eq!(parts(0x12fff..0x20000), [(0x12fff, 1)]);
        assert_eq!((parts(0x13000..0x20000), parts(0..0x10000)), (vec![], vec![]));
    }

    /// Files and other names are kept; shared memory is named as such.
    #[test]
    fn only_anonymous_memory_gets_a_name() {
        let mut space = AddressSpace::default();
        let of = |start, backing, shared| match map(start, 0x1000, RW) {
            ProgramEvent::Map { start, length, permissions, accessible, populate, .. } => {
                ProgramEvent::Map {
                    start,
                    length,
                    permissions,
                    accessible,
                    backing,
                    shared,
                    populate,
                }
            }
            other => other,
        };
        let name = |start, length, name: &str| ProgramEvent::Name {
            start: VirtualAddress::new(start),
            length,
            name: name.into(),
        };
        for event in [
            of(0x10000, Backing::Anonymous, false),
            of(0x11000, Backing::Anonymous, true),
            of(0x12000, Backing::File, false),
            of(0x13000, Backing::Anonymous, true),
            name(0x13000, 0x1000, "/SYSV1"),
        ] {
            space.apply(&event);
        }
        let named = [name(0x10800, 0x800, "[anon:a]"), name(0x11000, 0x1000, "[anon_shmem:a]")];
        assert_eq!(space.naming_events(0x10800..0x14000, "a"), named);
        assert_eq!(space.naming_events(0x10000..0x11000, ""), [name(0x10000, 0x1000, "")]);
    }
}
