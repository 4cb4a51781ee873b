//! Records written by hand, replayed.

use super::*;
use crate::blocks::dictionary_entry;
use crate::record::{access, access_template, block, control};
use perforate_types::{Instruction, ProcessId};

/// Keeps what it gets.
#[derive(Default)]
struct Kept {
    instructions: Vec<(u64, bool, Vec<MemoryAccess>)>,
    events: Vec<(usize, ProgramEvent)>,
}

impl Sink for Kept {
    fn push(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), CaptureError> {
        let instruction = (instruction.ip.value(), instruction.taken, accesses.to_vec());
        self.instructions.push(instruction);
        Ok(())
    }

    fn event(&mut self, event: ProgramEvent) -> Result<(), CaptureError> {
        self.events.push((self.instructions.len(), event));
        Ok(())
    }
}

/// Block 0 at 0x1000: mov [rdi], eax; jne 0x1000. Block 1 at 0x1004: rep movsb. Block 2, the
/// same alone at 0x1004. Block 3 at 0x1006: lock add [rdi], eax; ret.
fn dictionary() -> Vec<u8> {
    let mut bytes = dictionary_entry(0x1000, &[&[0x89, 0x07], &[0x75, 0xfc]]);
    bytes.extend(dictionary_entry(0x1004, &[&[0xf3, 0xa4]]));
    bytes.extend(dictionary_entry(0x1004, &[&[0xf3, 0xa4]]));
    bytes.extend(dictionary_entry(0x1006, &[&[0xf0, 0x01, 0x07], &[0xc3]]));
    bytes
}

fn replay_of(rings: &[&[u64]], limit: u64) -> (Replay<Kept>, Step) {
    let mut replay = Replay::new();
    replay.output = Some(Output::new(Kept::default(), limit));
    for (ring, records) in rings.iter().enumerate() {
        replay.waiting(ring).extend_from_slice(records);
    }
    let step = replay.advance(&dictionary()).unwrap();
    (replay, step)
}

fn kept(replay: Replay<Kept>) -> Kept {
    replay.output.unwrap().sink
}

const START: u64 = 0x8500_0000_0000_0000;

fn segment(ticket: u64) -> u64 {
    control(Control::Segment, ticket)
}

fn end(next: u64) -> u64 {
    control(Control::End, next)
}

fn byte(write: bool, address: u64) -> u64 {
    access(access_template(0), write, 0, address)
}

#[test]
fn a_branch_is_taken_if_the_next_block_is_elsewhere() {
    let store = access(access_template(0), true, 2, 0x5000);
    let records = [START, segment(0), block(0), store, block(0), store, block(3), end(0)];
    let (replay, step) = replay_of(&[&records], u64::MAX);
    assert_eq!(step, Step::Starved);
    let taken: Vec<(u64, bool)> =
        kept(replay).instructions.iter().map(|(ip, taken, _)| (*ip, *taken)).collect();
    // The second jne falls through to 0x1004, but block 3 at 0x1006 follows: taken as well.
    let expected = [
        (0x1000, false),
        (0x1002, true),
        (0x1000, false),
        (0x1002, true),
        (0x1006, false),
        (0x1009, true),
    ];
    assert_eq!(taken, expected);
}

#[test]
fn the_end_of_a_segment_names_what_follows() {
    // Next block 1 (written as 2) lies right behind block 0: not taken.
    let (replay, _) = replay_of(&[&[START, segment(0), block(0), end(2)]], u64::MAX);
    assert!(!kept(replay).instructions[1].1);
    let (replay, _) = replay_of(&[&[START, segment(0), block(0), end(1)]], u64::MAX);
    assert!(kept(replay).instructions[1].1);
}

#[test]
fn segments_of_two_threads_follow_their_tickets() {
    let first = [START, segment(0), block(3), end(0), segment(2), block(3), end(0)];
    let second = [START, segment(1), block(0), end(0)];
    let (replay, _) = replay_of(&[&first, &second], u64::MAX);
    let kept = kept(replay);
    let ips: Vec<u64> = kept.instructions.iter().map(|(ip, ..)| *ip).collect();
    assert_eq!(ips, [0x1006, 0x1009, 0x1000, 0x1002, 0x1006, 0x1009]);
    let switch = |thread| ProgramEvent::Switch { process: ProcessId(0), thread: ThreadId(thread) };
    assert_eq!(kept.events, [(2, switch(1)), (4, switch(0))]);
}

#[test]
fn a_ticket_that_is_missing_is_waited_for() {
    let (mut replay, step) = replay_of(&[&[START, segment(1), block(3), end(0)]], u64::MAX);
    assert_eq!(step, Step::Starved);
    assert_eq!(replay.output.as_ref().unwrap().instructions, 0);
    replay.waiting(1).extend_from_slice(&[START, segment(0), block(0), end(0)]);
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
    assert_eq!(kept(replay).instructions[0].0, 0x1000, "ticket 0 first");
}

#[test]
fn iterations_of_a_repeated_copy_are_one_instruction() {
    let mut records = vec![START, segment(0), block(1)];
    for offset in 0..3 {
        records.extend([byte(false, 0x5000 + offset), byte(true, 0x6000 + offset), block(2)]);
    }
    // The last time nothing is left to copy.
    records.extend([block(3), end(0)]);
    let (replay, _) = replay_of(&[&records], u64::MAX);
    let kept = kept(replay);
    let moved = vec![accesses::access(0x5000, 3, false), accesses::access(0x6000, 3, true)];
    assert_eq!(kept.instructions[0], (0x1004, false, moved));
    assert_eq!(kept.instructions[1].0, 0x1006);
}

#[test]
fn a_block_left_early_is_cut_short() {
    // Block 4 has three instructions; the emulator leaves it before the second, runs that from
    // block 5, and nothing is recorded twice.
    let mut bytes = dictionary();
    bytes.extend(dictionary_entry(0x2000, &[&[0x90], &[0x89, 0x07], &[0x90]]));
    bytes.extend(dictionary_entry(0x2001, &[&[0x89, 0x07], &[0x90]]));
    let mut replay = Replay::new();
    replay.output = Some(Output::new(Kept::default(), u64::MAX));
    replay.waiting(0).extend_from_slice(&[START, segment(0), block(4), block(5), end(0)]);
    replay.advance(&bytes).unwrap();
    let ips: Vec<u64> = kept(replay).instructions.iter().map(|(ip, ..)| *ip).collect();
    assert_eq!(ips, [0x2000, 0x2001, 0x2003]);
}

#[test]
fn system_calls_become_events_in_their_place() {
    let call = control(Control::Syscall, number::MUNMAP);
    let words = [0x10_0000, 4096, 0, 0, 0, 0];
    let mut records = vec![START, segment(0), block(3), call];
    records.extend(words);
    records.extend([end(0), segment(1), control(Control::Return, number::MUNMAP), 0, end(0)]);
    let (replay, _) = replay_of(&[&records], u64::MAX);
    let start = perforate_types::VirtualAddress::new(0x10_0000);
    assert_eq!(kept(replay).events, [(2, ProgramEvent::Unmap { start, length: 4096 })]);
}

#[test]
fn the_limit_is_exact() {
    let records = [START, segment(0), block(3), block(3), block(3), end(0)];
    let (replay, step) = replay_of(&[&records], 3);
    assert_eq!(step, Step::Full);
    assert_eq!(kept(replay).instructions.len(), 3);
}

#[test]
fn damage_is_an_error() {
    for records in [
        &[START, block(0)][..],
        &[START, segment(0), block(99)],
        &[START, segment(0), segment(1)],
        &[START, segment(0), u64::MAX],
    ] {
        let mut replay = Replay::new();
        replay.output = Some(Output::new(Kept::default(), u64::MAX));
        replay.waiting(0).extend_from_slice(records);
        let error = replay.advance(&dictionary()).unwrap_err();
        assert!(matches!(error, CaptureError::Damaged(_)), "{records:x?}");
    }
}
