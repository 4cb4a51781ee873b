//! Fuzzing of every reader with the inputs in `corpus/` and mutations of them. The test fails on a
//! panic, a hang, or excessive memory.
//!
//! `HOSTILE_RUNS=n` sets the number of mutations per target, and `HOSTILE_SEED=n` the random seed.
//! `HOSTILE_TARGET=text` selects the targets whose names contain the text.

mod watch;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use perforate_testing::hostile::{Mutator, TARGETS, Target};

use watch::{Watch, outcome_of};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Default number of mutations per target.
const RUNS: u64 = 400;
/// Largest number of different failures reported per target.
const MOST_FAILURES: usize = 8;

fn variable(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// Statistics of the runs of one target.
#[derive(Default)]
struct Tally {
    runs: u64,
    /// Largest amount of memory that an input allocated, in bytes.
    peak_bytes: usize,
    /// Longest time that an input took.
    longest: Duration,
    /// Failure messages, each with the name of the first input that caused it.
    failures: BTreeMap<String, String>,
}

impl Tally {
    fn run(&mut self, target: &Target, name: &str, input: &[u8], watch: &Watch) {
        watch.start(target.name, name, input);
        let (start, before) = (Instant::now(), MEMORY.current_usage());
        MEMORY.reset_peak_usage();
        let outcome = outcome_of(|| (target.run)(input));
        watch.stop();
        let taken = MEMORY.peak_usage().saturating_sub(before);
        self.runs += 1;
        self.peak_bytes = self.peak_bytes.max(taken);
        self.longest = self.longest.max(start.elapsed());
        let outcome = outcome.and_then(|()| match taken <= target.memory_bytes {
            true => Ok(()),
            false => Err(format!("takes more than {} MB", target.memory_bytes >> 20)),
        });
        if let Err(problem) = outcome
            && self.failures.len() < MOST_FAILURES
            && !self.failures.keys().any(|known| place(known) == place(&problem))
        {
            let path = watch.keep(target.name, name, input);
            self.failures.insert(problem, format!("{name}, kept as {}", path.display()));
        }
    }
}

/// Returns the file and line at the beginning of a failure message.
fn place(problem: &str) -> &str {
    problem.split(": ").next().unwrap_or_default()
}

#[test]
fn every_reader_survives_hostile_input() {
    let runs = variable("HOSTILE_RUNS", RUNS);
    let seed = variable("HOSTILE_SEED", 1);
    let wanted = std::env::var("HOSTILE_TARGET").unwrap_or_default();
    let watch = Watch::new(Path::new(env!("CARGO_TARGET_TMPDIR")), seed);
    let start = Instant::now();
    let (mut executions, mut problems) = (0, String::new());
    let targets = || TARGETS.iter().copied().flatten();
    for target in targets().filter(|target| target.name.contains(&wanted)) {
        let (begin, mut tally) = (Instant::now(), Tally::default());
        let seeds = target.read_seeds().expect("seeds can be read");
        for (name, input) in &seeds {
            tally.run(target, name, input, &watch);
        }
        let seeds: Vec<Vec<u8>> = seeds.into_iter().map(|(_, input)| input).collect();
        let mut mutator = Mutator::new(&seeds, seed);
        for number in 0..runs {
            tally.run(target, &format!("mutation {number}"), &mutator.input(), &watch);
        }
        println!(
            "{:22} {:9} runs in {:6.1} s, at most {:6.1} MB and {:4} ms",
            target.name,
            tally.runs,
            begin.elapsed().as_secs_f64(),
            tally.peak_bytes as f64 / 1e6,
            tally.longest.as_millis(),
        );
        executions += tally.runs;
        for (problem, name) in &tally.failures {
            writeln!(problems, "{} of seed {seed}: {problem} ({name})", target.name).unwrap();
        }
    }
    println!("{executions} runs in {:.1} s", start.elapsed().as_secs_f64());
    if let Some(peak) = watch::peak_resident_bytes() {
        println!("at most {:.1} MB resident", peak as f64 / 1e6);
    }
    assert!(executions > 0, "no target is named {wanted}");
    assert!(problems.is_empty(), "\n{problems}");
}

#[test]
fn targets_have_different_names() {
    let names: Vec<&str> = TARGETS.iter().copied().flatten().map(|target| target.name).collect();
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{name} is there twice");
        assert!(perforate_testing::hostile::find(name).is_some_and(|found| found.name == *name));
    }
}

#[test]
fn libfuzzer_has_every_target() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/Cargo.toml");
    let manifest = std::fs::read_to_string(path).unwrap();
    for target in TARGETS.iter().copied().flatten() {
        let line = format!("\nname = \"{}\"\npath = \"target.rs\"\n", target.name);
        assert!(manifest.contains(&line), "{path} has no {}", target.name);
    }
}
