//! Tests of the replay with hand-written records.

use super::output::Limits;
use super::*;
use crate::instructions::blocks::dictionary_entry;
use crate::record::{access, access_template, control};
use crate::system_calls::number;
use perforate_kept::{self as kept, TextHash};
use perforate_types::{Instruction, ProcessId};
use std::fmt::Write;

/// Sink that stores all instructions and events.
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
    ) -> Result<(), RecordError> {
        let instruction = (instruction.ip.value(), instruction.taken, accesses.to_vec());
        self.instructions.push(instruction);
        Ok(())
    }

    fn event(&mut self, event: ProgramEvent) -> Result<(), RecordError> {
        self.events.push((self.instructions.len(), event));
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

/// Dictionary of the tests. Block 0 at 0x1000: mov [rdi], eax; jne 0x1000. Block 1 at 0x1004: rep movsb.
/// Block 2, also at 0x1004: the same instruction alone. Block 3 at 0x1006: lock add [rdi], eax; ret.
fn dictionary() -> Vec<Vec<u8>> {
    vec![
        dictionary_entry(0x1000, &[&[0x89, 0x07], &[0x75, 0xfc]]),
        dictionary_entry(0x1004, &[&[0xf3, 0xa4]]),
        dictionary_entry(0x1004, &[&[0xf3, 0xa4]]),
        dictionary_entry(0x1006, &[&[0xf0, 0x01, 0x07], &[0xc3]]),
    ]
}

/// Makes the record of an execution of a block.
fn block(number: u32) -> u64 {
    record::block(number, 1)
}

/// Makes the records of a thread of image 0, which is process 0 of the trace.
fn thread(records: &[u64]) -> Vec<u64> {
    [&[control(Control::ThreadStart, 0), 100], records].concat()
}

fn batch(ring: usize, records: Vec<u64>) -> Batch {
    Batch { ring, records, answer: None }
}

/// Makes a replay with a process that is in the trace already.
fn started(limit: u64) -> Replay<Kept> {
    let mut replay = Replay::new();
    let limits = Limits { instructions: limit, ..Limits::NONE };
    replay.output = Some(Output::new(Kept::default(), limits));
    replay.images.load(0).unwrap();
    let image = replay.images.get(0).unwrap();
    (image.is_known, image.is_mapped) = (true, true);
    replay
}

fn replay_of(rings: &[&[u64]], limit: u64) -> (Replay<Kept>, Step) {
    let mut replay = started(limit);
    for (ring, records) in rings.iter().enumerate() {
        replay.add(batch(ring, thread(records)));
    }
    let step = replay.advance(&dictionary()).unwrap();
    (replay, step)
}

fn kept(replay: Replay<Kept>) -> Kept {
    replay.output.unwrap().sink
}

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
    let records = [segment(0), block(0), store, block(0), store, block(3), end(0)];
    let (replay, step) = replay_of(&[&records], u64::MAX);
    assert_eq!(step, Step::Starved);
    let taken: Vec<(u64, bool)> =
        kept(replay).instructions.iter().map(|(ip, taken, _)| (*ip, *taken)).collect();
    // The second jne would fall through to 0x1004, but block 3 at 0x1006 follows, so it is taken as
    // well.
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
fn the_end_of_a_segment_gives_the_next_block() {
    // The next block, 1 (encoded as 2), directly follows block 0: not taken.
    let (replay, _) = replay_of(&[&[segment(0), block(0), end(2)]], u64::MAX);
    assert!(!kept(replay).instructions[1].1);
    let (replay, _) = replay_of(&[&[segment(0), block(0), end(1)]], u64::MAX);
    assert!(kept(replay).instructions[1].1);
}

#[test]
fn segments_of_two_threads_follow_their_tickets() {
    let first = [segment(0), block(3), end(0), segment(2), block(3), end(0)];
    let second = [segment(1), block(0), end(0)];
    let (replay, _) = replay_of(&[&first, &second], u64::MAX);
    let kept = kept(replay);
    let ips: Vec<u64> = kept.instructions.iter().map(|(ip, ..)| *ip).collect();
    assert_eq!(ips, [0x1006, 0x1009, 0x1000, 0x1002, 0x1006, 0x1009]);
    assert_eq!(kept.events, [(2, switch(0, 1)), (4, switch(0, 0))]);
}

#[test]
fn missing_tickets_are_awaited() {
    let (mut replay, step) = replay_of(&[&[segment(1), block(3), end(0)]], u64::MAX);
    assert_eq!(step, Step::Starved);
    assert_eq!(replay.output.as_ref().unwrap().instructions, 0);
    replay.add(batch(1, thread(&[segment(0), block(0), end(0)])));
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
    assert_eq!(kept(replay).instructions[0].0, 0x1000, "ticket 0 first");
}

#[test]
fn iterations_of_a_repeated_copy_are_one_instruction() {
    let mut records = vec![segment(0), block(1)];
    for offset in 0..3 {
        records.extend([byte(false, 0x5000 + offset), byte(true, 0x6000 + offset), block(2)]);
    }
    // At the last iteration, nothing is left to copy.
    records.extend([block(3), end(0)]);
    let (replay, _) = replay_of(&[&records], u64::MAX);
    let kept = kept(replay);
    let moved = vec![accesses::access(0x5000, 3, false), accesses::access(0x6000, 3, true)];
    assert_eq!(kept.instructions[0], (0x1004, false, moved));
    assert_eq!(kept.instructions[1].0, 0x1006);
}

/// Without iterations, a repeated instruction is executed all the same; with more accesses than an instruction of
/// a trace can have, it is several.
#[test]
fn a_repeated_instruction_has_as_many_parts_as_its_accesses_need() {
    for (iterations, parts) in
        [(0, &[0][..]), (1, &[1]), (254, &[254]), (255, &[254, 1]), (510, &[254, 254, 2])]
    {
        let far = (0..iterations).map(|number| byte(true, 0x10_0000 + number * 4096));
        let records: Vec<u64> =
            [segment(0), block(1)].into_iter().chain(far).chain([end(0)]).collect();
        let (replay, _) = replay_of(&[&records], u64::MAX);
        let kept = kept(replay);
        let counts: Vec<usize> = kept.instructions.iter().map(|(.., all)| all.len()).collect();
        assert_eq!(counts, parts, "{iterations}");
        assert!(kept.instructions.iter().all(|(ip, ..)| *ip == 0x1004));
    }
    // The next execution is another instruction, even without iterations.
    let far = (0..255).map(|number| byte(true, 0x10_0000 + number * 4096));
    let begin = [segment(0), block(1)].into_iter().chain(far);
    let records: Vec<u64> = begin.chain([end(0), segment(1), block(1), end(0)]).collect();
    let (replay, _) = replay_of(&[&records], u64::MAX);
    assert_eq!(kept(replay).instructions.len(), 3);
}

#[test]
fn a_block_left_early_is_cut_short() {
    // Block 4 has three instructions. The emulator leaves it before the second instruction and runs
    // that from block 5. No instruction may be recorded twice.
    let mut entries = dictionary();
    entries.push(dictionary_entry(0x2000, &[&[0x90], &[0x89, 0x07], &[0x90]]));
    entries.push(dictionary_entry(0x2001, &[&[0x89, 0x07], &[0x90]]));
    let mut replay = started(u64::MAX);
    let records = thread(&[segment(0), block(4), block(5), end(0)]);
    replay.add(batch(0, records));
    replay.advance(&entries).unwrap();
    let ips: Vec<u64> = kept(replay).instructions.iter().map(|(ip, ..)| *ip).collect();
    assert_eq!(ips, [0x2000, 0x2001, 0x2003]);
}

#[test]
fn system_calls_become_events_in_their_place() {
    let call = control(Control::Syscall, number::MUNMAP);
    let words = [0x10_0000, 4096, 0, 0, 0, 0];
    let mut records = vec![segment(0), block(3), call];
    records.extend(words);
    records.extend([end(0), segment(1), control(Control::Return, number::MUNMAP), 0, end(0)]);
    let (replay, _) = replay_of(&[&records], u64::MAX);
    let start = perforate_types::VirtualAddress::new(0x10_0000);
    assert_eq!(kept(replay).events, [(2, ProgramEvent::Unmap { start, length: 4096 })]);
}

#[test]
fn the_limit_is_exact() {
    let records = [segment(0), block(3), block(3), block(3), end(0)];
    let (replay, step) = replay_of(&[&records], 3);
    assert_eq!(step, Step::Full(Ending::Limit));
    assert_eq!(kept(replay).instructions.len(), 3);
}

#[test]
fn damage_is_an_error() {
    for records in [
        &[block(0)][..],
        &[segment(0), block(99)],
        &[segment(0), segment(1)],
        &[segment(0), u64::MAX],
    ] {
        let mut replay = started(u64::MAX);
        replay.add(batch(0, thread(records)));
        let error = replay.advance(&dictionary()).unwrap_err();
        assert!(matches!(error, RecordError::Damaged(_)), "{records:x?}");
    }
}

/// Makes the records of the first thread of another image.
fn other_image(image: u64, records: &[u64]) -> Vec<u64> {
    [&[control(Control::ThreadStart, image), 100 + image], records].concat()
}

fn switch(process: u16, thread: u16) -> ProgramEvent {
    ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(thread) }
}

#[test]
fn forks_come_before_the_childs_instructions() {
    let fork = control(Control::Fork, 1);
    let parent = [segment(0), block(0), fork, 0, end(0), segment(2), block(0), end(0)];
    let child = [segment(1), block(3), control(Control::Exit, 1), end(0)];
    let mut replay = started(u64::MAX);
    // The child's records arrive first.
    replay.add(batch(1, other_image(1, &child)));
    replay.add(batch(0, thread(&parent)));
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
    let (child, exit) = (ProcessId(1), ProgramEvent::Exit { process: ProcessId(1) });
    let kept = kept(replay);
    let ips: Vec<u64> = kept.instructions.iter().map(|(ip, ..)| *ip).collect();
    assert_eq!(ips[2..4], [0x1006, 0x1009]);
    // Thread 0 is the parent's, because rings are examined in order.
    let expected =
        [(2, ProgramEvent::Fork { child }), (2, switch(1, 1)), (4, exit), (4, switch(0, 0))];
    assert_eq!(kept.events, expected);
}

#[test]
fn a_vfork_runs_in_its_parents_memory_until_it_is_replaced() {
    let parent = [segment(0), block(0), control(Control::Fork, 1), 1, end(0)];
    let exec = control(Control::Syscall, number::EXECVE);
    let child = [segment(1), block(3), exec, 0, 0, 0, 0, 0, 0, end(0)];
    let thread_end = control(Control::ThreadEnd, 0);
    let program = [segment(2), control(Control::Image, 2), end(0), segment(3)];
    let program = [&program[..], &[control(Control::Start, 0), 1, end(0)]].concat();
    let program = [&program[..], &[segment(4), block(3), end(0)]].concat();
    let mut replay = started(u64::MAX);
    replay.add(batch(0, thread(&parent)));
    replay.add(batch(1, other_image(1, &[&child[..], &[thread_end]].concat())));
    // The same process of the operating system, 101, with the next image.
    let mut records = other_image(2, &program);
    records[1] = 101;
    replay.add(batch(2, records));
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Image { ring: 2, image: 2 });
    let start = Step::Start { ring: 2, skipped: 0, phase: 1 };
    assert_eq!(replay.advance(&dictionary()).unwrap(), start);
    replay.start_image(2, |_| Vec::new()).unwrap();
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
    // No fork event: the parent's pages are not shared, and process 1 starts empty.
    assert_eq!(kept(replay).events, [(2, switch(0, 1)), (4, switch(1, 2))]);
}

/// The emulator gives the child a copy. Natively, memory that the child maps also belongs to its
/// parent.
#[test]
fn mappings_of_a_vfork_child_belong_to_its_parent() {
    let parent = [segment(0), control(Control::Fork, 1), 1, end(0)];
    let call = |number, first, second, result| {
        let begin = control(Control::Syscall, number);
        [begin, first, second, 3, 0x22, 0, 0, control(Control::Return, number), result]
    };
    let mapping = call(number::MMAP, 0, 4096, 0x10_0000);
    let unmapping = call(number::MUNMAP, 0x20_0000, 4096, 0);
    let access = access(access_template(0), true, 3, 0x10_0ff8);
    let outside = access + 8;
    let child = [&[segment(1)][..], &mapping, &unmapping, &[block(0), access, outside, end(0)]];
    let mut replay = started(u64::MAX);
    replay.add(batch(0, thread(&parent)));
    replay.add(batch(1, other_image(1, &child.concat())));
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
    assert!(replay.images.get(0).unwrap().space.allows(0x10_0000, true));
    assert_eq!(replay.unmapped, 1, "behind the mapping");
    let kept = kept(replay);
    let [(_, first), (_, second)] = &kept.events[..] else { panic!("{:?}", kept.events) };
    assert_eq!(*first, switch(0, 1));
    assert!(matches!(second, ProgramEvent::Map { .. }), "and no Unmap: {second:?}");
}

/// Accesses of 8 bytes around the end of a mapping of one page, reads and writes: each byte has to be mapped.
#[test]
fn an_access_is_mapped_if_its_first_and_its_last_byte_are() {
    let call = |number, words: [u64; 6], result| {
        let begin = [control(Control::Syscall, number)];
        [&begin[..], &words, &[control(Control::Return, number), result]].concat()
    };
    let map = call(number::MMAP, [0, 4096, 3, 0x22, 0, 0], 0x10_0000);
    let read_only = call(number::MMAP, [0, 4096, 1, 0x22, 0, 0], 0x10_1000);
    for (write, address, alone, with_next) in [
        (false, 0x10_0ff8, 0, 0),
        (false, 0x10_0ff9, 1, 0),
        (true, 0x10_0ff9, 1, 1),
        (true, 0x10_0ff8, 0, 0),
        (false, 0x0f_fff9, 1, 1),
        (false, 0x10_1000, 1, 0),
        (true, 0x10_1000, 1, 1),
    ] {
        for (next, unmapped) in [(None, alone), (Some(&read_only), with_next)] {
            let access = access(access_template(0), write, 3, address);
            let next = next.map_or(&[][..], |next| next.as_slice());
            let records = [&[segment(0)][..], &map, next, &[block(0), access, end(0)]].concat();
            let (replay, _) = replay_of(&[&records], u64::MAX);
            assert_eq!(replay.unmapped, unmapped, "{write} {address:x} {}", next.len());
        }
    }
}

#[test]
fn instructions_of_a_window_that_is_not_kept_are_counted() {
    let mut replay = started(u64::MAX);
    replay.output.as_mut().unwrap().is_dropping = true;
    replay.add(batch(0, thread(&[segment(0), block(0), byte(true, 0x5000), block(3), end(0)])));
    replay.advance(&dictionary()).unwrap();
    let output = replay.output.as_ref().unwrap();
    assert_eq!((output.dropped, output.instructions, replay.unmapped), (4, 0, 0));
}

/// The recorder gets each record's figures once.
#[test]
fn the_start_of_a_recording_is_told_with_its_figures() {
    let records = [segment(0), control(Control::Start, 77), 3, block(3), end(0)];
    let (mut replay, step) = replay_of(&[&records], u64::MAX);
    assert_eq!(step, Step::Start { ring: 0, skipped: 77, phase: 3 });
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
    assert_eq!(kept(replay).instructions.len(), 2, "and goes on behind the start");
    let (mut replay, step) = replay_of(&[&[segment(0), control(Control::Image, 0)]], u64::MAX);
    assert_eq!(step, Step::Image { ring: 0, image: 0 });
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
}

/// Accesses before the first block, and those of a block after the end of its process, belong to no instruction.
#[test]
fn accesses_outside_of_blocks_are_of_no_instruction() {
    let store = access(access_template(0), true, 2, 0x5000);
    let before = [segment(0), store, block(3), store, end(0)];
    let (replay, _) = replay_of(&[&before], u64::MAX);
    let accesses: Vec<usize> =
        kept(replay).instructions.iter().map(|(.., accesses)| accesses.len()).collect();
    // An atomic addition reads and writes.
    assert_eq!(accesses, [2, 0]);
    let exit = control(Control::Exit, 0);
    let after = [segment(0), exit, block(3), store, block(3), store, end(0)];
    let (replay, _) = replay_of(&[&after], u64::MAX);
    assert_eq!((replay.unmapped, kept(replay).instructions.len()), (0, 0));
}

/// An event whose memory lies apart natively is one event for each part.
#[test]
fn an_event_of_two_native_ranges_is_two_events() {
    use super::relocation::Layout;
    let call = control(Control::Syscall, number::MUNMAP);
    let mut records = vec![segment(0), call, 0x40_0080_1000, 0x2000, 0, 0, 0, 0];
    records.extend([control(Control::Return, number::MUNMAP), 0, end(0)]);
    let mut replay = started(u64::MAX);
    replay.images.get(0).unwrap().relocation = super::relocation::Relocation::new(&Layout {
        image: None,
        stack: Some(0x40_0000_1000..0x40_0080_2000),
        kernel_placed_end: None,
    });
    replay.add(batch(0, thread(&records)));
    replay.advance(&dictionary()).unwrap();
    let events = kept(replay).events;
    let lengths: Vec<u64> = events
        .iter()
        .map(|(_, event)| match event {
            ProgramEvent::Unmap { length, .. } => *length,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lengths, [0x1000, 0x1000]);
}

#[test]
fn a_program_that_is_replaced_loses_its_memory() {
    let exec = control(Control::Syscall, number::EXECVE);
    let before = [segment(0), block(3), exec, 0, 0, 0, 0, 0, 0, end(0)];
    let after = [segment(1), control(Control::Image, 1), end(0)];
    let after = [&after[..], &[segment(2), control(Control::Start, 0), 1, end(0)]].concat();
    let after = [&after[..], &[segment(3), block(0), end(0)]].concat();
    let mut replay = started(u64::MAX);
    let first = [&thread(&before)[..], &[control(Control::ThreadEnd, 0)]].concat();
    replay.add(batch(0, first));
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
    assert!(replay.images.is_any_alive(), "the next image is on its way");
    let mut records = other_image(1, &after);
    records[1] = 100;
    replay.add(batch(0, records));
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Image { ring: 0, image: 1 });
    replay.advance(&dictionary()).unwrap();
    replay.start_image(0, |_| Vec::new()).unwrap();
    replay.advance(&dictionary()).unwrap();
    assert_eq!(kept(replay).events, [(2, switch(0, 1)), (2, ProgramEvent::Exec)]);
}

/// Linux ends the other threads of a process that executes another program.
#[test]
fn threads_that_end_during_an_exec_do_not_end_the_process() {
    let exec = control(Control::Syscall, number::EXECVE);
    let thread_end = control(Control::ThreadEnd, 0);
    let first = [segment(0), block(3), exec, 0, 0, 0, 0, 0, 0, end(0), thread_end];
    let second = [segment(1), block(3), end(0), thread_end];
    let (replay, step) = replay_of(&[&first, &second], u64::MAX);
    assert_eq!(step, Step::Starved);
    assert!(replay.images.is_any_alive(), "the next image is on its way");
    let exit = ProgramEvent::Exit { process: ProcessId(0) };
    assert!(kept(replay).events.iter().all(|(_, event)| *event != exit));
}

/// Private mappings of 4MB: two begin inside a large page, one at its start.
#[test]
fn mappings_that_linux_places_elsewhere_are_counted() {
    let mapped = |at| {
        let call = [control(Control::Syscall, number::MMAP), 0, 4 << 20, 3, 0x22, 0, 0];
        [&call[..], &[control(Control::Return, number::MMAP), at]].concat()
    };
    let calls = [0x40_0300_4000, 0x40_0800_0000, 0x40_1000_1000].map(mapped).concat();
    let records = [&[segment(0), block(3)], &calls[..], &[end(0)]].concat();
    let (replay, _) = replay_of(&[&records], u64::MAX);
    assert_eq!(replay.misplaced, 2);
}

#[test]
fn a_process_ends_with_its_last_thread() {
    let thread_end = control(Control::ThreadEnd, 0);
    let [first, second] = [0, 1].map(|ticket| [segment(ticket), block(3), end(0)]);
    let (mut replay, _) = replay_of(&[&first, &second], u64::MAX);
    for (ring, is_alive) in [(0, true), (1, false)] {
        replay.add(batch(ring, vec![thread_end]));
        assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
        assert_eq!(replay.images.is_any_alive(), is_alive);
    }
    let exit = ProgramEvent::Exit { process: ProcessId(0) };
    assert_eq!(
        kept(replay).events.iter().filter(|(at, event)| (*at, event) == (4, &exit)).count(),
        1
    );
}

#[test]
fn a_killed_process_leaves_no_gap() {
    let fork = [segment(0), control(Control::Fork, 1), 0, end(0)];
    let call = control(Control::Return, 57);
    let after = [segment(3), call, 101, block(3), end(0)];
    // A thread was killed in a block; another thread of the process was killed before it wrote its
    // ticket, 2.
    let killed = [segment(1), block(0), control(Control::ThreadEnd, 0)];
    let mut replay = started(u64::MAX);
    replay.add(batch(0, thread(&[&fork[..], &after].concat())));
    replay.add(batch(1, other_image(1, &killed)));
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
    assert!(replay.skip_lost_ticket());
    assert_eq!(replay.advance(&dictionary()).unwrap(), Step::Starved);
    assert!(!replay.skip_lost_ticket());
    let kept = kept(replay);
    let exit = ProgramEvent::Exit { process: ProcessId(1) };
    assert!(kept.events.contains(&(2, exit)), "{:?}", kept.events);
    assert_eq!(kept.instructions.len(), 4);
}

#[test]
fn a_fork_that_fails_leaves_no_process() {
    let call = control(Control::Syscall, 57);
    let (fork, back) = (control(Control::Fork, 1), control(Control::Return, 57));
    let records = [segment(0), call, 0, 0, 0, 0, 0, 0, fork, 0, end(0), segment(1), back];
    let records = [&records[..], &[-11_i64 as u64, end(0)]].concat();
    let (replay, _) = replay_of(&[&records], u64::MAX);
    let exit = ProgramEvent::Exit { process: ProcessId(1) };
    assert_eq!(kept(replay).events.last(), Some(&(0, exit)));
}

/// Records of two threads of a program that often changes its mappings, and of a process that it forks.
fn random_records(seed: u64) -> [Vec<u64>; 3] {
    let mut state = seed;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % limit
    };
    let mut rings = [0, 0, 1].map(|image| vec![control(Control::ThreadStart, image), 100 + image]);
    rings[1][1] = 101;
    rings[2][1] = 102;
    // Each process begins with a mapping, and the first forks at its end.
    let (mut forked, mut ticket) = (false, 0);
    let next = |ring: &mut Vec<u64>, ticket: &mut u64| {
        ring.push(segment(*ticket));
        *ticket += 1;
    };
    for _ in 0..80 {
        let ring = &mut rings[below(if forked { 3 } else { 2 }) as usize];
        next(ring, &mut ticket);
        for _ in 0..below(4) {
            let address = 0x10_0000 + below(24) * 0x800 + below(8) * 0xff;
            let store = access(access_template(0), true, below(4) as u32, address);
            match below(3) {
                0 => ring.extend([block(0), store]),
                1 => ring.extend([
                    block(1),
                    byte(false, address),
                    byte(true, address + 64),
                    block(2),
                ]),
                _ => ring.extend([block(3), store]),
            }
        }
        let page = |number: u64| 0x10_0000 + number * 4096;
        let (start, length) = (page(below(12)), 1 + below(5 * 4096));
        let (protection, to) = (below(8), page(16 + below(12)));
        let flags = [0x22, 0x21, 0x02, 0x8022][below(4) as usize];
        let advice = [4, 8, 14, 15, 21, 23][below(6) as usize];
        let (call, words, result) = match below(10) {
            0..=3 => (number::MMAP, [0, length, protection, flags, 0, 0], start),
            4 => (number::MUNMAP, [start, length, 0, 0, 0, 0], 0),
            5 => (number::MPROTECT, [start, length, protection, 0, 0, 0], 0),
            6 => (number::MADVISE, [start, length, advice, 0, 0, 0], 0),
            7 => {
                (number::MREMAP, [start, length, length + below(9000), 1 + 4 * below(2), 0, 0], to)
            }
            8 => (number::BRK, [to, 0, 0, 0, 0, 0], to + below(3) * 5000),
            _ => (number::MUNMAP, [start, length, 0, 0, 0, 0], -12_i64 as u64),
        };
        ring.push(control(Control::Syscall, call));
        ring.extend(words);
        ring.push(end(0));
        next(ring, &mut ticket);
        ring.extend([control(Control::Return, call), result, end(below(3))]);
        if !forked && ticket > 60 {
            forked = true;
            next(&mut rings[0], &mut ticket);
            rings[0].extend([control(Control::Fork, 1), 0, end(0)]);
        }
    }
    rings
}

/// Compares the instructions, accesses and events made of random records with a file.
#[test]
fn traces_of_random_records_are_as_they_were() {
    let mut lines = String::new();
    for seed in 0..40 {
        let mut replay = started(if seed % 5 == 4 { 60 } else { u64::MAX });
        for (ring, records) in random_records(seed).into_iter().enumerate() {
            replay.add(batch(ring, records));
        }
        let step = replay.advance(&dictionary()).map_err(|error| error.to_string());
        let (unmapped, kept) = (replay.unmapped, kept(replay));
        let hash = TextHash::of(&format!("{:?} {:?}", kept.instructions, kept.events));
        let counts = (kept.instructions.len(), kept.events.len(), unmapped);
        writeln!(lines, "{seed} {step:?} {counts:?} {hash}").unwrap();
    }
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/src/replay/kept.txt"), &lines);
}
