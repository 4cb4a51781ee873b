//! Generator of the events and accesses of a sequence.

use perforate_types::{
    AccessKind, Advice, Backing, Permissions, ProcessId, ProgramEvent, ThreadId, VirtualAddress,
};

use crate::sequences::places::Places;
use crate::sequences::{Choices, Step};

/// Process numbers that forks, switches and exits refer to.
const PROCESSES: [u16; 5] = [0, 1, 2, 3, u16::MAX];
/// Values of madvise's advice: MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_PAGEOUT, MADV_POPULATE_READ,
/// MADV_POPULATE_WRITE, MADV_COLLAPSE, and an unknown one without effect.
const OTHER_ADVICE: [i32; 7] = [12, 13, 21, 22, 23, 25, -1];

/// Generates a sequence of `steps` events and accesses, the first of which maps memory.
pub fn sequence(choices: &mut impl Choices, steps: u64) -> Vec<Step> {
    let mut places = Places::default();
    let mut sequence = vec![Step::Event(map(&mut places, choices))];
    while (sequence.len() as u64) < steps {
        sequence.push(step(&mut places, choices));
    }
    sequence
}

fn step(places: &mut Places, choices: &mut impl Choices) -> Step {
    if choices.below(5) < 2 {
        let address = places.page(choices).min((1 << 52) - 1) * 4096 + choices.below(4096);
        let kind = match choices.below(8) {
            0 => AccessKind::Fetch,
            1..=4 => AccessKind::Write,
            _ => AccessKind::Read,
        };
        return Step::Access { kind, address: VirtualAddress::new(address) };
    }
    Step::Event(event(places, choices))
}

fn event(places: &mut Places, choices: &mut impl Choices) -> ProgramEvent {
    match choices.below(32) {
        0..=7 => map(places, choices),
        8..=10 => {
            let (start, length) = places.range(choices);
            ProgramEvent::Unmap { start, length }
        }
        11..=13 => {
            let (start, length) = places.range(choices);
            let (permissions, accessible) = (permissions(choices), !choices.one_in(4));
            ProgramEvent::Protect { start, length, permissions, accessible }
        }
        14..=17 => {
            let (start, length) = places.range(choices);
            ProgramEvent::Advise { start, length, advice: advice(choices) }
        }
        18..=22 => remap(places, choices),
        23 | 24 => brk(places, choices),
        25 | 26 => ProgramEvent::Fork { child: process(choices) },
        27 | 28 => ProgramEvent::Switch { process: process(choices), thread: ThreadId(0) },
        29 => ProgramEvent::Exit { process: process(choices) },
        30 => ProgramEvent::Exec,
        _ if choices.one_in(2) => ProgramEvent::Gap { instructions: choices.below(u64::MAX) },
        _ if choices.one_in(2) => {
            let (start, length) = places.range(choices);
            ProgramEvent::Name { start, length, name: "/a/file".into() }
        }
        _ => ProgramEvent::Phase { name: "part".into(), figures: vec![("n".into(), u64::MAX)] },
    }
}

fn map(places: &mut Places, choices: &mut impl Choices) -> ProgramEvent {
    let (start, length) = places.range(choices);
    let backing = match choices.below(8) {
        0 => Backing::File,
        1 => Backing::Stack,
        2 => Backing::Heap,
        _ => Backing::Anonymous,
    };
    ProgramEvent::Map {
        start,
        length,
        permissions: permissions(choices),
        accessible: !choices.one_in(8),
        backing,
        shared: choices.one_in(4),
        populate: choices.one_in(4),
    }
}

/// Generates an mremap that moves, grows or shrinks a range. The new range may equal or overlap the
/// old one.
fn remap(places: &mut Places, choices: &mut impl Choices) -> ProgramEvent {
    let (from, from_length) = places.range(choices);
    let (to, to_length) = places.range(choices);
    let to = if choices.one_in(4) { from } else { to };
    let to_length = if choices.one_in(2) { from_length } else { to_length };
    ProgramEvent::Remap { from, from_length, to, to_length }
}

/// Generates a brk whose end may be anywhere, even before the start of the heap.
fn brk(places: &mut Places, choices: &mut impl Choices) -> ProgramEvent {
    let (start, length) = places.range(choices);
    let end = match choices.one_in(8) {
        true => VirtualAddress::new(start.value() / 2),
        false => VirtualAddress::new(start.value().saturating_add(length)),
    };
    ProgramEvent::Brk { start, end }
}

fn permissions(choices: &mut impl Choices) -> Permissions {
    [Permissions::READ, Permissions::READ_WRITE, Permissions::READ_EXECUTE, Permissions::ALL]
        [choices.below(4) as usize]
}

fn advice(choices: &mut impl Choices) -> Advice {
    match choices.below(8) {
        0 | 1 => Advice::DontNeed,
        2 => Advice::NoHugePage,
        3 => Advice::HugePage,
        4 => Advice::Free,
        _ => Advice::Other(OTHER_ADVICE[choices.below(OTHER_ADVICE.len() as u64) as usize]),
    }
}

fn process(choices: &mut impl Choices) -> ProcessId {
    ProcessId(PROCESSES[choices.below(PROCESSES.len() as u64) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use perforate_types::Random;

    use crate::sequences::Bytes;

    #[test]
    fn a_seed_makes_one_sequence() {
        let made = |seed| sequence(&mut Random::new(seed), 40);
        assert_eq!(made(3).len(), 40);
        assert_eq!(made(3), made(3));
        assert_ne!(made(3), made(4));
    }

    #[test]
    fn any_bytes_make_a_sequence() {
        assert_eq!(sequence(&mut Bytes::new(&[]), 3).len(), 3);
        assert_eq!(sequence(&mut Bytes::new(&[0xff; 500]), 60).len(), 60);
    }

    /// Checks that every kind of event occurs in 50 sequences of 50 steps.
    #[test]
    fn every_kind_of_event_comes() {
        let mut random = Random::new(1);
        let mut kinds = std::collections::BTreeSet::new();
        for step in (0..50).flat_map(|_| sequence(&mut random, 50)) {
            if let Step::Event(event) = step {
                let text = format!("{event:?}");
                kinds.insert(text.split([' ', '{']).next().unwrap().to_owned());
            }
        }
        assert_eq!(kinds.len(), 13, "{kinds:?}");
    }
}
