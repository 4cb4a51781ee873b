//! Seeded storms of random events over all schemes: random maps, unmaps, protection changes,
//! punches, patches, moves, forks, shared memory and shared perforated pages, merged and promoted
//! pages, swap, failing frames and context switches. The oracle checks every translation, and the
//! kernel's records are recounted at intervals. After every event some pages of the tables are
//! compared with the oracle, and all pages at intervals. Planted defects prove that the storms
//! would find a bug.
//!
//! A failure names its seed; `STORM_SEED=n cargo test -p perforate-sim --test all storm` replays it.
//! `cargo test` runs a short storm of each scheme. The long storms have 4.4 million events: `cargo test
//! --release -p perforate-sim --test all storm -- --ignored --nocapture`. `STORM_SEEDS` and
//! `STORM_EVENTS` make them longer.

use crate::storms::kept;
use crate::storms::occupied::occupied;
use crate::storms::{
    CHECKED_EVERY, Coalesced, Defect, PLANTED, Replay, Storm, assert_map_adds_up, is_caught,
    number, seeds,
};
use perforate_sim::{Composition, Scheme, SimError, scheme};

/// Default number of events of a storm; `STORM_EVENTS` overrides it.
const EVENTS: u64 = 7_000;
/// Default number of storms of each scheme, in short and long tests; `STORM_SEEDS` overrides both.
const SEEDS: [u64; 2] = [2, 30];
/// Default number of storms of each scheme over occupied memory, in short and long tests.
const OCCUPIED_SEEDS: [u64; 2] = [1, 6];

fn run(scheme: &'static Scheme, seed: u64, defect: Option<Defect>) -> Result<String, SimError> {
    let _replay = Replay { scheme: scheme.name.into(), seed };
    let mut storm = Storm::new(scheme.into(), seed, defect);
    run_events(&mut storm, seed, EVENTS)?;
    Ok(kept::line(scheme.name, seed, &storm.system))
}

fn run_events(storm: &mut Storm, seed: u64, events: u64) -> Result<(), SimError> {
    for event in 0..number("STORM_EVENTS", events) {
        storm.system.at_instruction(event);
        storm.step()?;
        if event % CHECKED_EVERY == 0 {
            storm.system.kernel().check_invariants().unwrap_or_else(|wrong| panic!("{wrong}"));
            storm.check_all_tables();
        }
    }
    storm.check_all_tables();
    assert_map_adds_up(storm.system.kernel(), seed);
    Ok(())
}

#[test]
fn every_scheme_agrees_with_the_oracle() {
    kept::compare("schemes", &check_every_scheme(SEEDS[0]));
}

#[test]
#[ignore = "a long storm, minutes even with --release"]
fn every_scheme_agrees_with_the_oracle_in_a_long_storm() {
    check_every_scheme(SEEDS[1]);
    check_occupied_memory(OCCUPIED_SEEDS[1]);
}

fn check_every_scheme(storms: u64) -> String {
    let seeds = seeds(storms);
    let (mut events, mut lines) = (0, String::new());
    for scheme in scheme::all() {
        for &seed in &seeds {
            lines += &run(scheme, seed, None)
                .unwrap_or_else(|error| panic!("{} with STORM_SEED={seed}: {error}", scheme.name));
            events += number("STORM_EVENTS", EVENTS);
        }
    }
    eprintln!(
        "{events} events, {} storms of each of {} schemes",
        seeds.len(),
        scheme::all().count()
    );
    lines
}

/// Storms over memory that starts in the state of a snapshot.
#[test]
fn every_scheme_agrees_with_the_oracle_on_occupied_memory() {
    kept::compare("occupied", &check_occupied_memory(OCCUPIED_SEEDS[0]));
}

fn check_occupied_memory(storms: u64) -> String {
    let mut lines = String::new();
    for scheme in scheme::all() {
        for seed in seeds(storms) {
            let _replay = Replay { scheme: scheme.name.into(), seed };
            let mut storm = Storm::over(scheme.into(), seed, Some(occupied(seed)), None);
            let kernel = storm.system.kernel();
            kernel.check_invariants().unwrap_or_else(|wrong| panic!("{wrong}"));
            run_events(&mut storm, seed, EVENTS)
                .unwrap_or_else(|error| panic!("{} with STORM_SEED={seed}: {error}", scheme.name));
            lines += &kept::line(scheme.name, seed, &storm.system);
        }
    }
    lines
}

/// Storms on machines with each kind of hardware for contiguous pages: schemes of folios, and
/// others, which have folios by the option `mthp`.
#[test]
fn folios_agree_with_the_oracle_on_all_hardware() {
    let schemes = "mthp-16k,mthp-64k,mthp-1m,4k,thp-madvise,perforated,segment-thp,range,scripted";
    let schemes = Composition::list(schemes).unwrap();
    for (kind, coalesced) in Coalesced::ALL.into_iter().enumerate() {
        let mut fills = 0;
        for (index, &composition) in schemes.iter().enumerate() {
            for seed in seeds(1) {
                let seed = seed + (index + kind) as u64;
                let scheme = format!("{} with {coalesced:?}", composition.name());
                let _replay = Replay { scheme, seed };
                let mut storm = Storm::coalesced(composition, seed, coalesced);
                run_events(&mut storm, seed, EVENTS / 6).unwrap_or_else(|error| panic!("{error}"));
                fills += storm.system.mmu().counters().coalesced_fills;
            }
        }
        assert!(fills > 50, "{coalesced:?}: {fills} fills of contiguous pages");
    }
}

#[test]
fn planted_defects_are_caught() {
    for &(defect, schemes) in PLANTED {
        for scheme in schemes.iter().filter(|name| !name.contains('+')) {
            let found = Scheme::find(scheme).unwrap();
            let storm = |seed| run(found, seed, Some(defect));
            assert!(is_caught(defect, scheme, 60, storm), "{defect:?} in {scheme}");
        }
    }
}
