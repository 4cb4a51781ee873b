//! Tests of the store: its requests and accesses must be consistent and reproducible.

use std::collections::BTreeMap;

use perforate_trace::Source;
use perforate_types::{AccessKind, Advice, Chunk, ProgramEvent};

use super::*;
use crate::WorkloadSpec;
use crate::traced::complete;

/// Checker of every event and access against the current mappings, which records the accesses.
#[derive(Default)]
struct Recorder {
    /// Length of each mapping in bytes, by its start address.
    maps: BTreeMap<u64, u64>,
    /// Numbers of pages that were touched since they were mapped or dropped.
    pages: BTreeMap<u64, ()>,
    advised_bytes: u64,
    /// Addresses of all accesses, in order.
    log: Vec<u64>,
}

impl Recorder {
    fn holds(&self, start: u64, length: u64) -> bool {
        // A free extent may span adjacent mappings.
        let mut at = start;
        while at < start + length {
            match self.maps.range(..=at).next_back() {
                Some((map, bytes)) if map + bytes > at => at = map + bytes,
                _ => return false,
            }
        }
        true
    }

    fn on_chunk(&mut self, chunk: &Chunk) {
        let mut events = chunk.events.iter().peekable();
        let mut accesses = chunk.accesses.iter();
        for (number, instruction) in chunk.instructions.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= number) {
                self.event(event);
            }
            assert_eq!(instruction.ip.value(), 0, "code is left out");
            for access in accesses.by_ref().take(instruction.accesses.into()) {
                let address = access.address.value();
                assert!(self.holds(address, access.size.into()), "{address:#x} is not mapped");
                assert!(address % PAGE_BYTES + u64::from(access.size) <= PAGE_BYTES);
                let loads = instruction.destinations[0] != 0;
                assert_eq!(loads, access.kind == AccessKind::Read);
                self.pages.insert(address / PAGE_BYTES, ());
                self.log.push(address);
            }
        }
        events.for_each(|(_, event)| self.event(event));
    }

    fn event(&mut self, event: &ProgramEvent) {
        match event {
            ProgramEvent::Map { start, length, .. } => {
                let start = start.value();
                assert!(start.is_multiple_of(PAGE_BYTES) && length.is_multiple_of(PAGE_BYTES));
                let above = self.maps.range(start..).next();
                assert!(above.is_none_or(|(&next, _)| start + length <= next), "overlaps");
                let below = self.maps.range(..start).next_back();
                assert!(below.is_none_or(|(map, bytes)| map + bytes <= start), "overlaps");
                self.maps.insert(start, *length);
            }
            ProgramEvent::Advise { start, length, advice } => {
                assert_eq!(*advice, Advice::DontNeed);
                assert!(self.holds(start.value(), *length), "advice beyond mappings");
                let first = start.value() / PAGE_BYTES;
                let given_back = first..first + length / PAGE_BYTES;
                self.pages.retain(|page, ()| !given_back.contains(page));
                self.advised_bytes += length;
            }
            other => panic!("not expected: {other:?}"),
        }
    }
}

/// Options for this many keys with values of this size.
fn options(keys: u64, value_bytes: u64, padding: bool) -> StoreOptions {
    StoreOptions {
        keys: Count::new(keys),
        value: BoundedSize::new(value_bytes),
        compact: !padding,
        ..StoreOptions::default()
    }
}

/// Runs `act` on a filled store, and records all its events and accesses.
fn record(
    options: StoreOptions,
    seed: u64,
    act: impl AsyncFn(&mut Store, &mut Process<'_>),
) -> (Recorder, Store) {
    let mut store = None;
    let chunk = complete(async |t: &mut Tracer| {
        t.leave_code_out();
        let mut process = Process::new(t);
        let mut made = Store::new(&mut process, &options, seed);
        for _ in 0..options.keys.get() {
            made.insert(&mut process).await;
        }
        act(&mut made, &mut process).await;
        store = Some(made);
    });
    let mut recorder = Recorder::default();
    recorder.on_chunk(&chunk);
    (recorder, store.unwrap())
}

fn load(keys: u64, value_bytes: u64, padding: bool, seed: u64) -> (Recorder, Store) {
    record(options(keys, value_bytes, padding), seed, async |_, _| ())
}

#[test]
fn the_seed_determines_the_trace() {
    let run = |seed| {
        let spec = WorkloadSpec::parse("store:keys=2000,live=50%,page-reads=100,reads=50");
        let mut source = spec.unwrap().source(seed, None);
        let (mut chunk, mut all, mut phases) = (Chunk::default(), Vec::new(), Vec::new());
        while source.next_chunk(&mut chunk).unwrap() {
            let [first, ..] = &chunk.events[..] else {
                all.extend(chunk.accesses.iter().copied());
                continue;
            };
            if let (0, ProgramEvent::Phase { name, figures }) = first {
                phases.push((name.clone(), figures.clone()));
            }
            all.extend(chunk.accesses.iter().copied());
        }
        (all, phases)
    };
    let (accesses, phases) = run(1);
    assert_eq!((&accesses, &phases), (&run(1).0, &run(1).1));
    assert_ne!(accesses, run(2).0);
    let names: Vec<&str> = phases.iter().map(|(name, _)| name.as_str()).collect();
    let reads = ["page-reads-warm-up", "page-reads", "reads-warm-up", "reads"];
    assert_eq!(names[0], "deletions");
    assert_eq!(names[1..], reads);
    let figure = |phase: usize, name: &str| {
        phases[phase].1.iter().find(|(known, _)| known == name).unwrap().1
    };
    assert_eq!((figure(0, "live_keys"), figure(1, "live_keys")), (2000, 1000));
    assert!(figure(1, "touched_bytes") < figure(0, "touched_bytes"));
}

/// A value of 16KB has 6 bytes more with its header: class 20KB, extent 24KB. Five of the extent's
/// pages are touched, at whatever line the value begins.
#[test]
fn five_of_six_pages_of_a_16k_value_are_touched() {
    let keys = 1_000;
    let (recorder, store) = load(keys, 16_384, true, 7);
    // Small parts and metadata: 1000 × (24 + 24 + 16) bytes in slabs (16 + 6 + 12 pages at most),
    // tables of up to 1024 slots, 1000 descriptors (32 pages), the allocator's page map.
    let touched = recorder.pages.len() as u64;
    assert!((5 * keys..5 * keys + 200).contains(&touched), "{touched}");
    let highest = recorder.pages.keys().next_back().unwrap();
    let lowest = recorder.pages.keys().next().unwrap();
    assert!(highest - lowest >= 6 * keys, "spread over at least six pages a key");
    // Without the extra page, the same five pages are contiguous.
    let (without, _) = load(keys, 16_384, false, 7);
    let touched = without.pages.len() as u64;
    assert!((5 * keys..5 * keys + 200).contains(&touched), "{touched}");
    let around: u64 = recorder.maps.values().sum();
    assert!(without.maps.values().sum::<u64>() < around);
    assert_eq!(store.live_keys(), keys);
    assert_eq!(store.requested_bytes(), keys * (24 + 18 + 16 + 16_390) + 1_024 * 8);
}

/// Values below 16KB share slabs: 12,282 bytes and their header are 12,288 bytes, which is a class.
#[test]
fn small_values_share_slabs_without_gaps() {
    let keys = 1_000;
    let (recorder, _) = load(keys, 12_282, true, 7);
    let touched = recorder.pages.len() as u64;
    assert!((3 * keys..3 * keys + 200).contains(&touched), "{touched}");
}

#[test]
fn reads_stay_inside_what_is_live_and_was_written() {
    let thin_out = async |store: &mut Store, process: &mut Process<'_>| {
        store.delete_until(process, 600, &mut Random::new(3)).await;
    };
    let (recorder, store) = record(options(3_000, 16_384, true), 3, thin_out);
    assert_eq!(store.live_keys(), 600);
    // Four fifths of the extents, 24KB each, were returned; slabs may keep some of the rest.
    assert!(recorder.advised_bytes >= 2_400 * 24_576, "{}", recorder.advised_bytes);
    let pages = recorder.pages.len();
    assert!((600 * 5..600 * 5 + 400).contains(&pages), "{pages}");
    let before = recorder.log.len();
    let (recorder, store) = record(options(3_000, 16_384, true), 3, async |store, process| {
        thin_out(store, process).await;
        let mut random = Random::new(5);
        for _ in 0..5_000 {
            store.read(process, &mut random);
        }
    });
    // Reads touch existing pages and the reply's five pages; no other page is new.
    assert!(recorder.pages.len() <= pages + 5, "{} of {pages}", recorder.pages.len());
    let places = store.places();
    assert_eq!(places.len(), 2 + 4 * 600);
    assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "places overlap");
    let reads = &recorder.log[before..];
    for &address in reads {
        let after = places.partition_point(|&(start, _)| start <= address);
        let (start, bytes) = places[after - 1];
        assert!(address < start + bytes, "{address:#x} is in no live object");
    }
    // Slot, entry, name, object, five pages of the value, five of the reply: at least 14 accesses.
    assert!(reads.len() >= 14 * 5_000 && reads.len() < 17 * 5_000);
}

/// A value with its header is 16,390 bytes: 513 vectors to load and to store, few across pages.
/// Before them come slot, entry, name and object, with three other instructions each, and further
/// entries of the chain.
#[test]
fn values_are_copied_vector_by_vector() {
    let instructions = |reads: u64| {
        complete(async |t: &mut Tracer| {
            let mut process = Process::new(t);
            let mut store = Store::new(&mut process, &options(1, 16_384, true), 1);
            store.insert(&mut process).await;
            process.copying = Copying::Vectors;
            read(&store, &mut process, &mut Random::new(1), reads).await;
        })
        .instructions
        .len()
    };
    let read = instructions(3) - instructions(2);
    assert!((1026 + 16..1026 + 16 + 20).contains(&read), "{read}");
}

/// Freed memory is reused before the heap grows.
#[test]
fn freed_memory_is_used_again() {
    let mapped = |recorder: &Recorder| recorder.maps.values().sum::<u64>();
    let full = mapped(&load(2_000, 16_384, true, 5).0);
    let (recorder, store) = record(options(2_000, 16_384, true), 5, async |store, process| {
        store.delete_until(process, 1_000, &mut Random::new(5)).await;
        for _ in 0..900 {
            store.insert(process).await;
        }
    });
    assert_eq!(mapped(&recorder), full);
    assert_eq!(store.live_keys(), 1_900);
}

/// With `grows=yes` each mapping is a step of glibc's heap, 128KB and a page, right below the one before, but for
/// the allocator's own records, and longer if an object needs it. The rest is as with longer mappings.
#[test]
fn the_heap_may_grow_in_steps() {
    let steps = StoreOptions { grows: true, ..options(2_000, 4_096, true) };
    let (recorder, store) = record(steps, 3, async |_, _| ());
    let lengths: BTreeMap<u64, usize> =
        recorder.maps.values().fold(BTreeMap::new(), |mut lengths, &length| {
            *lengths.entry(length).or_default() += 1;
            lengths
        });
    // 2,000 slabs of 5KB objects in 20KB, and little else.
    assert!((75..100).contains(&lengths[&(132 << 10)]), "{lengths:?}");
    let (recorder, as_before) = load(2_000, 4_096, true, 3);
    assert!(!recorder.maps.values().any(|&length| length == 132 << 10));
    assert_eq!(store.requested_bytes(), as_before.requested_bytes());
}

/// A value of 4KB and its header of 10 bytes take 5KB, and two pages may be used in part: 13KB for each key.
#[test]
fn the_memory_of_a_store_is_in_whole_large_pages() {
    for (keys, megabytes) in [(1, 2), (157, 2), (158, 4), (500, 8)] {
        let options: StoreOptions =
            perforate_config::read(&format!("keys={keys},value=4K")).unwrap();
        assert_eq!(options.memory_bytes(), (2 << 30) + (megabytes << 20), "{keys}");
    }
}
