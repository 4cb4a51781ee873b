//! Seeded event storms over all schemes: random maps, unmaps, protection changes, punches,
//! patches, moves, forks, shared memory and shared perforated pages, merged and promoted pages,
//! swap, failing frames and context switches, with every translation compared with the oracle and
//! the kernel's records counted anew now and then; after every event the tables are compared with
//! what is true, some pages of them at once and all now and then. And the proof that this would find a bug:
//! planted defects are caught.
//!
//! A failure names its seed; `STORM_SEED=n cargo test -p perforate-sim --test all storm` replays it.
//! `cargo test` runs a short storm of each scheme. The long ones, 7.5 million events: `cargo test
//! --release -p perforate-sim --test all storm -- --ignored --nocapture`; `STORM_SEEDS` and
//! `STORM_EVENTS` make them longer still.

use crate::storms::occupied::occupied;
use crate::storms::{CHECKED_EVERY, Replay, Storm, assert_map_adds_up, number, seeds};
use perforate_mmu::Sabotage;
use perforate_sim::{Scheme, SimError, scheme};

/// Events of one storm, where `STORM_EVENTS` does not say otherwise.
const EVENTS: u64 = 12_000;
/// Short and long: storms of each scheme, where `STORM_SEEDS` does not say otherwise.
const SEEDS: [u64; 2] = [4, 30];
/// The same over occupied memory.
const OCCUPIED_SEEDS: [u64; 2] = [2, 6];

fn run(scheme: &'static Scheme, seed: u64, defect: Option<Sabotage>) -> Result<(), SimError> {
    let _replay = Replay { scheme: scheme.name.into(), seed };
    let mut storm = Storm::new(scheme.into(), seed);
    if let Some(defect) = defect {
        storm.damage(defect);
    }
    rage(&mut storm, seed)
}

fn rage(storm: &mut Storm, seed: u64) -> Result<(), SimError> {
    for event in 0..number("STORM_EVENTS", EVENTS) {
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
    check_every_scheme(SEEDS[0]);
}

#[test]
#[ignore = "a long storm, minutes even with --release"]
fn every_scheme_agrees_with_the_oracle_in_a_long_storm() {
    check_every_scheme(SEEDS[1]);
    check_occupied_memory(OCCUPIED_SEEDS[1]);
}

fn check_every_scheme(storms: u64) {
    let seeds = seeds(storms);
    let mut events = 0;
    for scheme in scheme::ALL {
        for &seed in &seeds {
            run(scheme, seed, None)
                .unwrap_or_else(|error| panic!("{} with STORM_SEED={seed}: {error}", scheme.name));
            events += number("STORM_EVENTS", EVENTS);
        }
    }
    eprintln!("{events} events, {} storms of each of {} schemes", seeds.len(), scheme::ALL.len());
}

/// The same over memory that begins as a snapshot says.
#[test]
fn every_scheme_agrees_with_the_oracle_on_occupied_memory() {
    check_occupied_memory(OCCUPIED_SEEDS[0]);
}

fn check_occupied_memory(storms: u64) {
    for scheme in scheme::ALL {
        for seed in seeds(storms) {
            let _replay = Replay { scheme: scheme.name.into(), seed };
            let mut storm = Storm::over((*scheme).into(), seed, Some(occupied(seed)));
            let kernel = storm.system.kernel();
            kernel.check_invariants().unwrap_or_else(|wrong| panic!("{wrong}"));
            rage(&mut storm, seed)
                .unwrap_or_else(|error| panic!("{} with STORM_SEED={seed}: {error}", scheme.name));
        }
    }
}

/// Seeds until a planted defect is caught, at most 60.
fn caught(scheme: &str, defect: Sabotage) -> bool {
    let scheme = Scheme::find(scheme).unwrap();
    (0..60).any(|seed| match run(scheme, seed, Some(defect)) {
        Ok(()) => false,
        Err(SimError::Disagreement { .. } | SimError::StuckFault { .. }) => true,
        Err(error) => panic!("seed {seed}: {error}"),
    })
}

#[test]
fn a_forgotten_bitmap_invalidation_is_caught() {
    assert!(caught("perforated", Sabotage::SkipBitmapInvalidation));
    assert!(caught("perforated-naive", Sabotage::SkipBitmapInvalidation));
}

#[test]
fn an_ignored_shadow_node_is_caught() {
    assert!(caught("perforated", Sabotage::IgnoreShadow));
}

#[test]
fn a_wrong_filter_bit_is_caught() {
    assert!(caught("perforated", Sabotage::WrongFilterBit));
}

#[test]
fn a_stale_filter_is_caught() {
    assert!(caught("perforated", Sabotage::KeepStaleFilter));
}

#[test]
fn wrong_superpages_are_caught() {
    for scheme in scheme::ALL.iter().filter(|scheme| scheme.gap_tolerance.is_some()) {
        for defect in [Sabotage::StaleGapTolerantEntry, Sabotage::WrongPrefixSum] {
            assert!(caught(scheme.name, defect), "{defect:?} in {}", scheme.name);
        }
    }
    for scheme in ["p-gt-pde-4m", "p-gt-pde-2m"] {
        assert!(caught(scheme, Sabotage::IgnoreOffsetB), "{scheme}");
    }
}

#[test]
fn wrong_runs_are_caught() {
    for scheme in ["4k-colt-4", "4k-colt-8", "4k-colt-32"] {
        for defect in
            [Sabotage::IgnoreRunPermissions, Sabotage::LengthenRuns, Sabotage::KeepStaleRun]
        {
            assert!(caught(scheme, defect), "{defect:?} in {scheme}");
        }
    }
}

#[test]
fn a_forgotten_first_level_invalidation_is_caught() {
    assert!(caught("4k", Sabotage::SkipL1Invalidation));
    assert!(caught("perforated", Sabotage::SkipL1Invalidation));
}
