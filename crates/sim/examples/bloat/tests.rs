//! The generator by itself: what it asks of memory must be consistent and the same each time.

use std::collections::BTreeMap;

use perforate_sim::{Machine, Scheme, SimError};
use perforate_types::{AccessKind, Advice, ProgramEvent};

use crate::SCHEMES;
use crate::program::{PAGE_BYTES, Program};
use crate::random::Random;
use crate::store::Store;
use crate::study::Study;

/// Checks every event and access against what is mapped.
#[derive(Default)]
struct Recorder {
    /// Mappings: start and length.
    maps: BTreeMap<u64, u64>,
    /// Pages by number, and how often each was touched since it was empty.
    pages: BTreeMap<u64, u64>,
    /// Everything that was said, folded into one number.
    digest: u64,
    advised_bytes: u64,
    log: Vec<u64>,
}

impl Recorder {
    fn holds(&self, start: u64, length: u64) -> bool {
        // A free extent may span neighbouring mappings.
        let mut at = start;
        while at < start + length {
            match self.maps.range(..=at).next_back() {
                Some((map, bytes)) if map + bytes > at => at = map + bytes,
                _ => return false,
            }
        }
        true
    }

    fn note(&mut self, number: u64) {
        self.digest = crate::random::mix(self.digest ^ number);
    }
}

impl Program for Recorder {
    fn event(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        match event {
            ProgramEvent::Map { start, length, .. } => {
                let start = start.value();
                assert!(start.is_multiple_of(PAGE_BYTES) && length.is_multiple_of(PAGE_BYTES));
                let above = self.maps.range(start..).next();
                assert!(above.is_none_or(|(&next, _)| start + length <= next), "overlaps");
                let below = self.maps.range(..start).next_back();
                assert!(below.is_none_or(|(map, bytes)| map + bytes <= start), "overlaps");
                self.maps.insert(start, *length);
                self.note(start ^ length);
            }
            ProgramEvent::Advise { start, length, advice } => {
                assert_eq!(*advice, Advice::DontNeed);
                assert!(self.holds(start.value(), *length), "advice beyond mappings");
                let first = start.value() / PAGE_BYTES;
                let last = first + length / PAGE_BYTES;
                let gone: Vec<u64> = self.pages.range(first..last).map(|(&page, _)| page).collect();
                gone.iter().for_each(|page| {
                    self.pages.remove(page);
                });
                self.advised_bytes += length;
                self.note(start.value() + length);
            }
            other => panic!("not expected: {other:?}"),
        }
        Ok(())
    }

    fn access(&mut self, kind: AccessKind, address: u64) -> Result<(), SimError> {
        assert!(self.holds(address, 1), "{address:#x} is not mapped");
        let touched = self.pages.entry(address / PAGE_BYTES).or_default();
        *touched += 1;
        self.log.push(address);
        self.note(address ^ kind as u64);
        Ok(())
    }
}

fn load(keys: u64, value_bytes: u64, seed: u64) -> (Recorder, Store) {
    load_with(keys, value_bytes, true, seed)
}

fn load_with(keys: u64, value_bytes: u64, padding: bool, seed: u64) -> (Recorder, Store) {
    let mut recorder = Recorder::default();
    let mut store = Store::new(&mut recorder, value_bytes, padding, seed).unwrap();
    for _ in 0..keys {
        store.insert(&mut recorder).unwrap();
    }
    (recorder, store)
}

#[test]
fn the_same_seed_says_the_same_and_another_one_something_else() {
    let run = |seed| {
        let (mut recorder, mut store) = load(2_000, 16_384, seed);
        let mut random = Random::new(seed);
        store.delete_until(&mut recorder, 1_000, &mut random).unwrap();
        for _ in 0..500 {
            store.read(&mut recorder, &mut random).unwrap();
        }
        recorder.digest
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// A value of 16KB has 6 bytes more with its header: class 20KB, extent 24KB, of which five pages
/// are touched whatever line it begins at.
#[test]
fn five_of_six_pages_of_a_16k_value_are_touched() {
    let keys = 1_000;
    let (recorder, store) = load(keys, 16_384, 7);
    // Small parts and records: 1000 × (24 + 24 + 16) bytes in slabs (16 + 6 + 12 pages at most),
    // tables up to 1024 slots, 1000 descriptors (32 pages), the allocator's page table.
    let touched = recorder.pages.len() as u64;
    assert!((5 * keys..5 * keys + 200).contains(&touched), "{touched}");
    let highest = recorder.pages.keys().next_back().unwrap();
    let lowest = recorder.pages.keys().next().unwrap();
    assert!(highest - lowest >= 6 * keys, "spread over at least six pages a key");
    // Without the page, the same five lie side by side.
    let (without, _) = load_with(keys, 16_384, false, 7);
    let touched = without.pages.len() as u64;
    assert!((5 * keys..5 * keys + 200).contains(&touched), "{touched}");
    let around: u64 = recorder.maps.values().sum();
    assert!(without.maps.values().sum::<u64>() < around);
    assert_eq!(store.live_keys(), keys);
    assert_eq!(store.requested_bytes(), keys * (24 + 18 + 16 + 16_390) + 1_024 * 8);
}

/// Values below 16KB share slabs: 12,282 bytes and their header are 12,288, a class of its own.
#[test]
fn small_values_share_slabs_without_gaps() {
    let keys = 1_000;
    let (recorder, _) = load(keys, 12_282, 7);
    let touched = recorder.pages.len() as u64;
    assert!((3 * keys..3 * keys + 200).contains(&touched), "{touched}");
}

#[test]
fn reads_stay_inside_what_is_live_and_was_written() {
    let (mut recorder, mut store) = load(3_000, 16_384, 3);
    let mut random = Random::new(3);
    store.delete_until(&mut recorder, 600, &mut random).unwrap();
    assert_eq!(store.live_keys(), 600);
    // Four fifths of the extents, 24KB each, were given back; slabs may keep some of the rest.
    assert!(recorder.advised_bytes >= 2_400 * 24_576, "{}", recorder.advised_bytes);
    let pages = recorder.pages.len();
    assert!((600 * 5..600 * 5 + 400).contains(&pages), "{pages}");
    recorder.log.clear();
    for _ in 0..5_000 {
        store.read(&mut recorder, &mut random).unwrap();
    }
    // Reads touch what exists, and the reply's five pages: nothing new.
    assert!(recorder.pages.len() <= pages + 5, "{} of {pages}", recorder.pages.len());
    let places = store.places();
    assert_eq!(places.len(), 2 + 4 * 600);
    assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "places overlap");
    for &address in &recorder.log {
        let after = places.partition_point(|&(start, _)| start <= address);
        let (start, bytes) = places[after - 1];
        assert!(address < start + bytes, "{address:#x} is in no live object");
    }
    // Slot, entry, name, object, five pages of value, five of reply: 14 accesses or more.
    assert!(recorder.log.len() >= 14 * 5_000 && recorder.log.len() < 17 * 5_000);
}

/// Under every scheme the oracle agrees, and mapped memory is what was touched, or more with
/// ordinary large pages.
#[test]
fn the_oracle_agrees_and_only_large_pages_bloat() {
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let study = Study {
        keys: 1_500,
        value_bytes: 16_384,
        padding: true,
        live_keys: 900,
        reads: 300,
        max_ptes_none: None,
    };
    let run = |name: &str| {
        let scheme = Scheme::find(name).unwrap();
        study.run_with(&machine, scheme, 4, true).unwrap()
    };
    let [base, large, perforated] = SCHEMES.map(run);
    for figures in [&base, &perforated] {
        assert_eq!(figures.mapped_bytes, figures.touched_bytes);
    }
    assert_eq!(base.touched_bytes, large.touched_bytes);
    assert!(large.bloat_percent() > 15.0, "{}", large.bloat_percent());
    assert!(perforated.reserved_bytes > 0.0 && perforated.shootdowns > 0.5);
    let promoted = Study { max_ptes_none: Some(511), ..study };
    let promoted = promoted.run_with(&machine, Scheme::find("thp").unwrap(), 4, true).unwrap();
    assert!(promoted.mapped_bytes > large.mapped_bytes);
}

/// What was deleted is used again before the heap grows.
#[test]
fn freed_memory_is_used_again() {
    let (mut recorder, mut store) = load(2_000, 16_384, 5);
    let mapped: u64 = recorder.maps.values().sum();
    let mut random = Random::new(5);
    store.delete_until(&mut recorder, 1_000, &mut random).unwrap();
    for _ in 0..900 {
        store.insert(&mut recorder).unwrap();
    }
    assert_eq!(recorder.maps.values().sum::<u64>(), mapped);
    assert_eq!(store.live_keys(), 1_900);
}
