//! The generator by itself: what it asks of memory must be consistent and the same each time.

use std::collections::BTreeMap;

use perforate_sim::SimError;
use perforate_types::{AccessKind, Advice, ProgramEvent};

use super::program::{PAGE_BYTES, Program};
use super::store::Store;
use super::*;
use perforate_os::Random;

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
        self.digest = Random::new(self.digest, number, 0).next();
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
        let mut random = Random::new(seed, 0, 0);
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
    let mut random = Random::new(3, 0, 0);
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

fn settings(texts: &[(&str, &str)]) -> Settings {
    Settings(texts.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect())
}

/// 1500 keys, 900 left, checked by the oracle.
fn small(more: &[(&str, &str)]) -> Settings {
    let mut all = settings(&[
        ("keys", "1500"),
        ("live", "60%"),
        ("reads", "300"),
        ("timed-reads", "50"),
        ("check", "true"),
    ]);
    all.0.extend(settings(more).0);
    all
}

fn measure(settings: &Settings, subject: &str) -> Measurement {
    Bloat.measure(settings, &[subject.into()], 4, &mut |_| ()).unwrap().remove(0)
}

/// Under every scheme the oracle agrees, and mapped memory is what was touched, or more with
/// ordinary large pages.
#[test]
fn the_oracle_agrees_and_only_large_pages_bloat() {
    let [base, large, perforated] =
        ["4k", "thp", "perforated-reserve"].map(|name| measure(&small(&[]), name));
    for figures in [&base, &perforated] {
        assert_eq!(figures["mapped_bytes"], figures["touched_bytes"]);
        assert_eq!(figures["live_keys"], 900.0);
    }
    assert_eq!(base["touched_bytes"], large["touched_bytes"]);
    assert!(large["mapped_bytes"] > 1.15 * large["touched_bytes"], "{large:?}");
    assert!(perforated["reserved_bytes"] > 0.0);
    assert!(perforated["filling_shootdown_batches"] > 0.5 * perforated["first_touches"]);
    assert!(!base.contains_key("promoting_operating_system_cycles"));
    let promoted = measure(&small(&[("khugepaged", "max-ptes-none=511")]), "thp");
    assert!(promoted["mapped_bytes"] > large["mapped_bytes"]);
    assert!(promoted["promoting_operating_system_cycles"] > 0.0);
}

/// A value with its header is 16,390 bytes: 513 vectors to load and to store, none across pages as
/// it begins at a cache line; before them slot, entry, name and object with three others each, and
/// what else is in the chain.
#[test]
fn timed_reads_copy_vector_by_vector() {
    let figures = measure(&small(&[]), "4k");
    let instructions = figures["instructions_per_request"];
    assert!((1026.0 + 16.0..1026.0 + 16.0 + 40.0).contains(&instructions), "{instructions}");
    let cycles = figures["cycles_per_request"];
    let second = figures["requests_per_second"];
    assert!((second * cycles / 2e9 - 1.0).abs() < 1e-9, "2GHz");
    assert_eq!(figures["operating_system_cycles_per_request"], 0.0);
    let untimed = measure(&small(&[("timed-reads", "0")]), "4k");
    assert!(!untimed.contains_key("cycles_per_request"));
    assert_eq!(untimed["l2_tlb_misses"], figures["l2_tlb_misses"]);
}

#[test]
fn the_same_alone_and_together() {
    let (settings, mut heard) = (small(&[("check", "false")]), Vec::new());
    let subjects = ["4k".to_string(), "thp".to_string()];
    let together = Bloat.measure(&settings, &subjects, 4, &mut |part| heard.push(part)).unwrap();
    assert_eq!(together[0], measure(&settings, "4k"));
    assert_eq!(together[1], measure(&settings, "thp"));
    assert!(heard.is_sorted() && heard.last() == Some(&1.0), "{heard:?}");
}

#[test]
fn settings_are_checked() {
    let fine = settings(&[("keys", "4M"), ("value-bytes", "2K"), ("live", "50%")]);
    assert_eq!(Bloat.check(&fine, "perforated-reserve"), Ok(()));
    for (text, subject, part) in [
        (("keys", "0"), "thp", "at least 1"),
        (("keys", "17M"), "thp", "at most 16000000"),
        (("value-bytes", "2M"), "thp", "1B to 1M"),
        (("live", "0%"), "thp", "more than 0%"),
        (("live", "nan"), "thp", "a share from"),
        (("padding", "some"), "thp", "yes or no"),
        (("khugepaged", "often"), "thp", "khugepaged"),
        (("machine", "none"), "thp", "none"),
        (("reads", "5"), "2m", "2m"),
    ] {
        let problem = Bloat.check(&settings(&[text]), subject).unwrap_err();
        assert!(problem.contains(part) && !problem.contains('\n'), "{problem}");
    }
}

/// What was deleted is used again before the heap grows.
#[test]
fn freed_memory_is_used_again() {
    let (mut recorder, mut store) = load(2_000, 16_384, 5);
    let mapped: u64 = recorder.maps.values().sum();
    let mut random = Random::new(5, 0, 0);
    store.delete_until(&mut recorder, 1_000, &mut random).unwrap();
    for _ in 0..900 {
        store.insert(&mut recorder).unwrap();
    }
    assert_eq!(recorder.maps.values().sum::<u64>(), mapped);
    assert_eq!(store.live_keys(), 1_900);
}
