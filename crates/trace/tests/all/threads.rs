//! Threads and programs in another order: nothing is lost or added, and each keeps its own order.

use std::collections::BTreeMap;

use perforate_trace::{
    ConcurrentPrograms, InterleavedThreads, Limited, SharedOut, Source, SourceMetadata, TraceError,
};
use perforate_types::{
    Chunk, ChunkItem, Instruction, MemoryAccess, ProcessId, ProgramEvent, ThreadId, access_count,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::{instruction, map, read, read_all};

/// Instructions of a turn, as `ConcurrentPrograms` and `InterleavedThreads` document it.
const TURN: usize = 500;

/// Source that delivers the given chunks, in pieces of any length up to its chunk.
pub struct Given {
    chunks: Vec<Chunk>,
    metadata: SourceMetadata,
}

impl Source for Given {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        match self.chunks.pop() {
            Some(next) => *chunk = next,
            None => return Ok(false),
        }
        Ok(true)
    }

    fn skip(&mut self, _: u64) -> Result<u64, TraceError> {
        unreachable!("no test skips the chunks themselves")
    }
}

/// Runs of instructions: the length of each, its process and thread, and whether a request follows it.
pub type Runs = Vec<(usize, (u16, u16), bool)>;

pub fn runs() -> impl Strategy<Value = Runs> {
    let length = prop_oneof![0..4usize, TURN - 2..TURN + 3, 1..2 * TURN];
    vec((length, (0..2u16, 0..3u16), prop::bool::weighted(0.3)), 1..12)
}

/// Makes a source of the runs, a chunk for every second run. Every instruction has its number as its address,
/// and up to two accesses.
pub fn given(runs: &Runs) -> Given {
    let (mut chunks, mut number) = (Vec::new(), 0);
    for pair in runs.chunks(2) {
        let mut chunk = Chunk::default();
        for &(length, (process, thread), asks) in pair {
            chunk.push_event(switch(process, thread));
            for _ in 0..length {
                number += 1;
                let accesses = [read(number), read(number + 8)];
                chunk.push(instruction(number), &accesses[..number as usize % 3]);
            }
            if asks {
                number += 1;
                chunk.push_event(map(number * 4096));
            }
        }
        chunks.push(chunk);
    }
    chunks.reverse();
    Given { chunks, metadata: SourceMetadata::default() }
}

fn switch(process: u16, thread: u16) -> ProgramEvent {
    ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(thread) }
}

fn whole(source: &mut dyn Source) -> Chunk {
    let (all, error) = read_all(source);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(all.accesses.len(), access_count(&all.instructions));
    all
}

/// An instruction with its accesses, or a request to the operating system.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Instruction(Instruction, Vec<MemoryAccess>),
    Request(ProgramEvent),
}

/// Splits a chunk by process and thread, each with its instructions and requests in order.
fn by_thread(chunk: &Chunk) -> BTreeMap<(u16, u16), Vec<Item>> {
    let (mut running, mut threads) = ((0, 0), BTreeMap::<_, Vec<Item>>::new());
    for item in chunk.in_order() {
        let item = match item {
            ChunkItem::Event(ProgramEvent::Switch { process, thread }) => {
                running = (process.0, thread.0);
                continue;
            }
            ChunkItem::Event(event) => Item::Request(event.clone()),
            ChunkItem::Instruction(one, accesses) => Item::Instruction(*one, accesses.to_vec()),
        };
        threads.entry(running).or_default().push(item);
    }
    threads
}

/// Requests with the number of instructions before each.
fn requests(chunk: &Chunk) -> Vec<(u32, ProgramEvent)> {
    let is_request =
        |(_, event): &&(u32, ProgramEvent)| !matches!(event, ProgramEvent::Switch { .. });
    chunk.events.iter().filter(is_request).cloned().collect()
}

/// Skips up to `skipped` instructions. Returns the number, and all that the source delivers afterwards.
fn rest_after(source: &mut dyn Source, skipped: usize) -> (usize, Chunk) {
    let count = source.skip(skipped as u64).unwrap() as usize;
    (count, whole(source))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn threads_keep_their_order_and_requests_their_place(
        runs in runs(),
        window in prop_oneof![1..8u64, 900..1100u64, Just(u64::MAX)],
        skipped in 0..3000usize,
    ) {
        let recorded = whole(&mut given(&runs));
        let together = whole(&mut InterleavedThreads::new(given(&runs), window));
        prop_assert!(by_thread(&together) == by_thread(&recorded));
        prop_assert_eq!(requests(&together), requests(&recorded));
        let (count, rest) = rest_after(&mut InterleavedThreads::new(given(&runs), window), skipped);
        prop_assert_eq!(count, skipped.min(together.instructions.len()));
        prop_assert!(rest.instructions == together.instructions[count..]);
        let left = access_count(&rest.instructions);
        prop_assert!(rest.accesses == together.accesses[together.accesses.len() - left..]);
        let shifted = together.events.iter().map(|(before, event)| {
            (before.saturating_sub(count as u32), event.clone())
        });
        prop_assert_eq!(rest.events, shifted.collect::<Vec<_>>());
    }

    #[test]
    fn threads_that_share_work_take_turns(runs in runs(), threads in 1..4u16) {
        let own: Runs = runs.iter().map(|&(length, _, asks)| (length, (0, 0), asks)).collect();
        let mut source = given(&own);
        for chunk in &mut source.chunks {
            let events = std::mem::take(&mut chunk.events);
            let is_request = |event: &ProgramEvent| !matches!(event, ProgramEvent::Switch { .. });
            chunk.events = events.into_iter().filter(|(_, event)| is_request(event)).collect();
        }
        let Given { chunks, metadata } = source;
        let copy = Given { chunks: chunks.clone(), metadata: metadata.clone() };
        let recorded = whole(&mut Given { chunks, metadata });
        let shared = whole(&mut SharedOut::new(copy, threads));
        prop_assert!(shared.instructions == recorded.instructions);
        prop_assert!(shared.accesses == recorded.accesses);
        prop_assert_eq!(requests(&shared), requests(&recorded));
        let switches = (1..recorded.instructions.len().div_ceil(TURN)).map(|turn| {
            ((turn * TURN) as u32, switch(0, turn as u16 % threads))
        });
        let switches: Vec<_> = switches.filter(|_| threads > 1).collect();
        let found = shared.events.iter().filter(|(_, one)| matches!(one, ProgramEvent::Switch { .. }));
        prop_assert_eq!(found.cloned().collect::<Vec<_>>(), switches);
    }

    #[test]
    fn programs_keep_their_order(one in runs(), other in runs(), skipped in 0..3000usize) {
        let sources = || -> Vec<Box<dyn Source>> { vec![Box::new(given(&one)), Box::new(given(&other))] };
        let both = whole(&mut ConcurrentPrograms::new(sources()));
        // Process 0 of the first program stays 0, and that of the second is 1; a process that appears later
        // is 2 or 3.
        let own = [&one, &other].map(|runs| by_thread(&whole(&mut given(runs))));
        let mut found = by_thread(&both);
        for (program, threads) in own.iter().enumerate() {
            for (&(process, thread), items) in threads {
                let numbers = if process == 0 { program as u16..=program as u16 } else { 2..=3 };
                let number = numbers.into_iter().find(|number| {
                    found.get(&(*number, thread)) == Some(items)
                });
                prop_assert!(number.is_some(), "{program}: {process}.{thread}");
                found.remove(&(number.unwrap(), thread));
            }
        }
        prop_assert!(found.is_empty(), "{:?}", found.keys());
        let (count, rest) = rest_after(&mut ConcurrentPrograms::new(sources()), skipped);
        prop_assert_eq!(count, skipped.min(both.instructions.len()));
        prop_assert_eq!(rest.instructions.len() + count, both.instructions.len());
        prop_assert_eq!(requests(&rest).len(), requests(&both).len());
    }

    #[test]
    fn a_limit_ends_a_source_and_keeps_the_events_before_it(runs in runs(), most in 0..3000usize) {
        let recorded = whole(&mut given(&runs));
        let limited = whole(&mut Limited::new(given(&runs), most as u64));
        let count = most.min(recorded.instructions.len());
        prop_assert!(limited.instructions == recorded.instructions[..count]);
        let before: Vec<_> = recorded.events.iter().filter(|(at, _)| (*at as usize) < most).collect();
        prop_assert_eq!(limited.events.iter().collect::<Vec<_>>(), before);
    }
}
