//! Areas by name and offset, from the events of a trace: addresses of a recorded run are those of that run
//! only.

use std::ops::Range;

use perforate_types::{Backing, ProcessId, ProgramEvent, RangeMap, VirtualAddress};

use super::area::{AdvisedArea, AreaPart, WHOLE};

const PAGE_BYTES: u64 = 4096;
/// Size in bytes from which mappings have numbers, as in `preload_advice/areas.rs`.
const LEAST_NUMBERED_BYTES: u64 = 2 << 20;

/// Addresses of a mapping. A trace may state any length: it ends with the addresses.
fn bytes(start: VirtualAddress, length: u64) -> Range<u64> {
    start.value()..start.value().saturating_add(length)
}

/// Areas of the first process of a trace that advice can name, from its events up to now.
///
/// Traces do not tell mappings at fixed addresses, which have no number, from others. A mapping that
/// replaces others counts as fixed. Anonymous memory right after the program's file is its static data, as in
/// `preload_advice/begin.rs`. The emulator of recordings also places mappings right after other files.
#[derive(Clone, Debug, Default)]
pub struct AreaNumbers {
    /// Areas so far, in the order of creation.
    areas: Vec<(AreaPart, Range<u64>)>,
    /// Addresses of the mappings that exist now.
    mapped: RangeMap<()>,
    /// Name of the program's file, which is the first that is mapped, and the end of its last mapping.
    program: Option<(String, u64)>,
    first: Option<ProcessId>,
    running: ProcessId,
    mappings: u32,
    shared: u32,
}

impl AreaNumbers {
    /// Follows an event.
    pub fn on_event(&mut self, event: &ProgramEvent) {
        if let ProgramEvent::Switch { process, .. } = event {
            self.running = *process;
        }
        if *self.first.get_or_insert(self.running) != self.running {
            return;
        }
        match *event {
            ProgramEvent::Map { start, length, backing, shared, .. } => {
                self.map(bytes(start, length), backing, shared);
            }
            ProgramEvent::Unmap { start, length } => {
                self.mapped.remove(&bytes(start, length));
            }
            ProgramEvent::Remap { from, from_length, to, to_length } => {
                self.mapped.remove(&bytes(from, from_length));
                let to = bytes(to, to_length);
                let moved =
                    self.areas.iter_mut().rev().find(|(_, area)| area.start == from.value());
                if let Some((_, area)) = moved {
                    *area = to.clone();
                }
                self.mapped.replace(to, ());
            }
            ProgramEvent::Brk { start, end } => {
                let bytes = start.value() / PAGE_BYTES * PAGE_BYTES..end.value();
                match self.areas.iter_mut().find(|(part, _)| *part == AreaPart::Heap) {
                    Some((_, heap)) => heap.end = heap.end.max(bytes.end),
                    None => self.areas.push((AreaPart::Heap, bytes)),
                }
            }
            ProgramEvent::Name { start, length, ref name } => {
                let Range { end, .. } = bytes(start, length);
                match &mut self.program {
                    None => self.program = Some((name.clone(), end)),
                    Some((program, last)) if program == name => *last = end,
                    Some(_) => {}
                }
            }
            ProgramEvent::Exec => *self = Self { running: self.running, ..Self::default() },
            _ => {}
        }
    }

    fn map(&mut self, bytes: Range<u64>, backing: Backing, shared: bool) {
        let is_fixed = !self.mapped.remove(&bytes).is_empty();
        let is_private = backing == Backing::Anonymous && !shared;
        let follows_program = self.program.as_ref().is_some_and(|(_, end)| *end == bytes.start);
        if is_private && !is_fixed && follows_program {
            self.areas.push((AreaPart::Static, bytes.clone()));
        } else if !is_fixed
            && (is_private || shared)
            && bytes.end - bytes.start >= LEAST_NUMBERED_BYTES
        {
            let counter = if shared { &mut self.shared } else { &mut self.mappings };
            let part = if shared { AreaPart::Shared } else { AreaPart::Mapping };
            self.areas.push((part(*counter), bytes.clone()));
            *counter += 1;
        }
        self.mapped.insert(bytes, ());
    }

    /// Names the areas in which these addresses lie, and counts the bytes that lie in none: in small mappings,
    /// which only [`AreaPart::Anonymous`] covers. Of several mappings that were at an address one after
    /// another, all are named.
    pub fn advice(&self, addresses: &[Range<u64>]) -> (Vec<AdvisedArea>, u64) {
        let mut advice = Vec::new();
        let mut left: RangeMap<()> = addresses.iter().cloned().collect();
        for (part, area) in &self.areas {
            let overlap = |range: &Range<u64>| range.start.max(area.start)..range.end.min(area.end);
            let parts = addresses.iter().map(overlap).filter(|part| !part.is_empty());
            let offsets = parts.map(|part| {
                let end = match part.end == area.end {
                    true => u64::MAX,
                    false => (part.end - area.start).next_multiple_of(PAGE_BYTES),
                };
                (part.start - area.start) / PAGE_BYTES * PAGE_BYTES..end
            });
            let ranges: Vec<_> = offsets.collect();
            left.remove(area);
            if ranges == [WHOLE] {
                advice.push(AdvisedArea::whole(part.clone()));
            } else if !ranges.is_empty() {
                advice.push(AdvisedArea { part: part.clone(), ranges });
            }
        }
        (advice, left.iter().map(|(range, ())| range.end - range.start).sum())
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{Permissions, ThreadId};

    use super::*;

    fn map(start: u64, length: u64, backing: Backing, shared: bool) -> ProgramEvent {
        ProgramEvent::Map {
            start: VirtualAddress::new(start),
            length,
            permissions: Permissions::ALL,
            accessible: true,
            backing,
            shared,
            populate: false,
        }
    }

    fn brk(start: u64, end: u64) -> ProgramEvent {
        let [start, end] = [start, end].map(VirtualAddress::new);
        ProgramEvent::Brk { start, end }
    }

    fn name(start: u64, length: u64, name: &str) -> ProgramEvent {
        ProgramEvent::Name { start: VirtualAddress::new(start), length, name: name.into() }
    }

    /// A trace may state lengths beyond the last address.
    #[test]
    fn mappings_end_with_the_addresses() {
        let mut numbers = AreaNumbers::default();
        let start = VirtualAddress::new(u64::MAX - 4095);
        for event in [
            map(start.value(), 1 << 30, Backing::Anonymous, false),
            name(start.value(), 1 << 30, "/bin/x"),
            ProgramEvent::Remap {
                from: start,
                from_length: 1 << 30,
                to: start,
                to_length: 1 << 30,
            },
            ProgramEvent::Unmap { start, length: 1 << 30 },
        ] {
            numbers.on_event(&event);
        }
        assert!(numbers.mapped.is_empty());
        assert_eq!(numbers.program, Some(("/bin/x".into(), u64::MAX)));
    }

    const MB: u64 = 1 << 20;

    /// A program file at 4M with 8MB of static data, a heap at 64M, a library at 1G whose data replace a
    /// part of it, a small mapping, two large ones and a shared one.
    fn program() -> AreaNumbers {
        let mut numbers = AreaNumbers::default();
        let anonymous = Backing::Anonymous;
        for event in [
            map(4 * MB, MB, Backing::File, false),
            name(4 * MB, MB, "/bin/x"),
            map(5 * MB, 8 * MB, anonymous, false),
            brk(64 * MB, 64 * MB),
            map(1024 * MB, 8 * MB, Backing::File, false),
            name(1024 * MB, 8 * MB, "/lib/y"),
            map(1028 * MB, 4 * MB, anonymous, false),
            map(2000 * MB, MB, anonymous, false),
            map(2048 * MB, 64 * MB, anonymous, false),
            map(3072 * MB, 32 * MB, anonymous, true),
            brk(64 * MB, 80 * MB),
            map(2112 * MB, 64 * MB, anonymous, false),
        ] {
            numbers.on_event(&event);
        }
        numbers
    }

    fn advice(numbers: &AreaNumbers, addresses: Range<u64>) -> (Vec<String>, u64) {
        let (areas, left) = numbers.advice(&[addresses]);
        (areas.iter().map(ToString::to_string).collect(), left)
    }

    #[test]
    fn areas_have_numbers_and_offsets() {
        let numbers = program();
        let one =
            |addresses, name: &str| assert_eq!(advice(&numbers, addresses), (vec![name.into()], 0));
        one(5 * MB..13 * MB, "static");
        one(64 * MB..80 * MB, "heap");
        one(66 * MB..70 * MB, "heap:2M-6M");
        one(2048 * MB..2112 * MB, "mapping0");
        one(2120 * MB..2176 * MB, "mapping1:8M-");
        one(3072 * MB..3076 * MB, "shared0:0-4M");
        let both = advice(&numbers, 2110 * MB..2114 * MB);
        assert_eq!(both, (vec!["mapping0:62M-".into(), "mapping1:0-2M".into()], 0));
        assert_eq!(advice(&numbers, 2000 * MB..2001 * MB), (vec![], MB), "too small for a number");
        assert_eq!(advice(&numbers, 1028 * MB..1032 * MB), (vec![], 4 * MB), "at a fixed address");
    }

    /// The emulator of recordings places mappings one after another, also after files.
    #[test]
    fn a_mapping_right_after_another_file_is_no_static_data() {
        let mut numbers = program();
        numbers.on_event(&map(1032 * MB, 64 * MB, Backing::Anonymous, false));
        assert_eq!(advice(&numbers, 1032 * MB..1096 * MB), (vec!["mapping2".into()], 0));
        assert_eq!(advice(&numbers, 5 * MB..13 * MB).0, ["static"]);
    }

    #[test]
    fn moved_mappings_keep_their_numbers() {
        let mut numbers = program();
        let [from, to] = [2112 * MB, 4096 * MB].map(VirtualAddress::new);
        numbers.on_event(&ProgramEvent::Remap {
            from,
            from_length: 64 * MB,
            to,
            to_length: 128 * MB,
        });
        let found = advice(&numbers, 4096 * MB..4224 * MB);
        assert_eq!(found, (vec!["mapping1".into()], 0));
        numbers.on_event(&map(2112 * MB, 4 * MB, Backing::Anonymous, false));
        assert_eq!(advice(&numbers, 2112 * MB..2116 * MB).0, ["mapping2"], "free addresses again");
    }

    #[test]
    fn other_processes_have_areas_of_their_own() {
        let mut numbers = program();
        let switch =
            |process| ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(0) };
        numbers.on_event(&switch(2));
        numbers.on_event(&map(5000 * MB, 4 * MB, Backing::Anonymous, false));
        numbers.on_event(&switch(0));
        numbers.on_event(&map(6000 * MB, 4 * MB, Backing::Anonymous, false));
        assert_eq!(advice(&numbers, 6000 * MB..6004 * MB).0, ["mapping2"]);
        numbers.on_event(&ProgramEvent::Exec);
        numbers.on_event(&map(7000 * MB, 4 * MB, Backing::Anonymous, false));
        assert_eq!(advice(&numbers, 7000 * MB..7004 * MB).0, ["mapping0"]);
    }
}
