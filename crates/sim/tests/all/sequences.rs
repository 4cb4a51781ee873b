//! Short sequences of unusual events under every scheme and every pair. Whatever a trace requests,
//! there must be no panic, no hang, and no translation that differs from the oracle's.
//!
//! Each sequence has a separate machine, memory and scheme, all drawn from its seed. Three in four
//! go directly to the operating system, which may refuse an event and continues afterwards. The
//! others are written to a trace and run from it, with or without a clock.
//!
//! `SEQUENCES=n` runs n sequences, starting with seed `SEQUENCE_SEED`. A failure names its seed.
//! `SEQUENCES=1 SEQUENCE_SEED=n` replays it, prints its steps and recounts all records after each step.
//! A million sequences: `SEQUENCES=1000000 cargo test --release -p perforate-sim --test all
//! odd_sequences -- --ignored --nocapture`.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::storms::{
    assert_map_adds_up, check_all_tables, check_some_tables, forgive, memory_of, number, virtualize,
};
use perforate_config::read;
use perforate_mmu::TlbGeometry;
use perforate_os::{Hypervisor, Kernel};
use perforate_sim::{
    Composition, Machine, MemoryState, ProcessorOptions, RunOptions, SimError, Simulation, System,
    SystemOptions, TimedWindows, scheme,
};
use perforate_testing::sequences::{Choices, Step, sequence, write};
use perforate_types::{Chunk, Random};

/// Number of sequences of the short test, several for each scheme and pair.
const SHORT: u64 = 1_200;
/// Number of sequences of the long test.
const LONG: u64 = 1_000_000;
/// Smallest number of steps of a sequence, and exclusive limit of the random number added to it.
const STEPS: [u64; 2] = [5, 55];
/// Longest permitted time of a sequence. Most take a few milliseconds.
const MOST_TIME: Duration = Duration::from_secs(10);
/// Largest number of different failures that are reported.
const MOST_FAILURES: usize = 20;

/// Configuration of one sequence.
struct Trial {
    seed: u64,
    composition: Composition,
    machine: Machine,
    memory: MemoryState,
    random: Random,
    /// True if this is the only sequence, which is checked after every step.
    is_replay: bool,
}

impl Trial {
    fn new(seed: u64) -> Self {
        static MACHINE: LazyLock<Machine> =
            LazyLock::new(|| Machine::load(Machine::DEFAULT).unwrap());
        static ALL: LazyLock<Vec<Composition>> = LazyLock::new(|| {
            let natives = scheme::all().map(Composition::from);
            natives.chain(Composition::pairs("all", "all").unwrap().0).collect()
        });
        let mut random = Random::new(seed);
        let composition = ALL[seed as usize % ALL.len()];
        let mut machine = MACHINE.clone();
        if random.one_in(2) {
            machine.tlb.l2 = TlbGeometry { entries: 48, ways: 12 };
            machine.tlb.l1_data_4k = TlbGeometry { entries: 8, ways: 4 };
        }
        machine.tlb.tagged = !random.one_in(4);
        let mut memory = memory(&mut random);
        if composition.host.is_some() {
            let mut random = crate::storms::Random::new(random.next());
            virtualize(&mut machine, &mut memory, &mut random);
        }
        let is_replay = number("SEQUENCES", 0) == 1;
        Self { seed, composition, machine, memory, random, is_replay }
    }

    /// Runs the sequence directly or from a trace.
    fn run(mut self) -> Result<(), SimError> {
        let steps = STEPS[0] + self.random.below(STEPS[1]);
        let steps = sequence(&mut self.random, steps);
        if self.is_replay {
            eprintln!("{} over {:?}", self.composition.name(), self.memory);
        }
        match self.random.below(4) {
            0 => self.run_trace(&steps),
            _ => self.run_directly(&steps),
        }
    }

    fn options(&mut self) -> SystemOptions {
        let implicit_maps = self.random.one_in(8);
        SystemOptions { check: true, implicit_maps, counts_only: false }
    }

    fn run_directly(&mut self, steps: &[Step]) -> Result<(), SimError> {
        let options = self.options();
        let mut system =
            System::new(&self.machine, self.composition, &self.memory, self.seed, options)?;
        let cores = [1, 4][(self.seed % 2) as usize];
        system.set_processors(&ProcessorOptions { cores, ..ProcessorOptions::default() })?;
        if self.random.one_in(4) {
            let contents = read("zero=2%,duplicate=30%,distinct=40").expect("valid");
            system.change(|kernel| kernel.set_content_distribution(contents))?;
        }
        for (number, step) in steps.iter().enumerate() {
            system.at_instruction(number as u64);
            match step {
                Step::Event(event) => forgive(system.event(event), ())?,
                Step::Access { kind, address } => {
                    forgive(system.translate(*kind, *address).map(|_| ()), ())?;
                }
            }
            self.run_kernel_thread(&mut system)?;
            check_some_tables(&system, number as u64);
            if self.is_replay {
                eprintln!("{step:?}");
                check_kernels(&system);
            }
        }
        check_all_tables(&system);
        check_kernels(&system);
        for kernel in kernels(&system) {
            assert_map_adds_up(kernel, self.seed);
        }
        Ok(())
    }

    /// Runs a kernel thread, in some of the steps.
    fn run_kernel_thread(&mut self, system: &mut System) -> Result<(), SimError> {
        let choice = self.random.below(40);
        let pass = |kernel: &mut Kernel| {
            match choice {
                0 => drop(kernel.kcompactd_pass()),
                1 => drop(kernel.khugepaged_pass()),
                _ => drop(kernel.ksm_pass()),
            }
            Ok(())
        };
        if choice < 3 { forgive(system.change(pass), ()) } else { Ok(()) }
    }

    /// Writes a trace and runs it. An event that the kernel refuses ends the run.
    fn run_trace(&mut self, steps: &[Step]) -> Result<(), SimError> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        write(steps, file.path())?;
        let mut source = perforate_trace::open(file.path())?;
        let (clock, system) = (self.random.below(3), self.options());
        let options = RunOptions { functional: clock == 0, system, warmup: 0 };
        let mut simulation =
            Simulation::new(&self.machine, self.composition, &self.memory, self.seed, options)?;
        if clock == 1 {
            let windows = TimedWindows { window: 5, period: 20 };
            simulation = simulation.with_timed_windows(windows, 3, self.seed);
        }
        let mut chunk = Chunk::default();
        while source.next_chunk(&mut chunk)? {
            match simulation.run(&chunk) {
                // The trace contains gaps.
                Err(SimError::SampledTwice) => return Ok(()),
                outcome => outcome?,
            }
        }
        check_all_tables(simulation.system());
        Ok(())
    }
}

fn kernels(system: &System) -> impl Iterator<Item = &Kernel> {
    [system.kernel()].into_iter().chain(system.hypervisor().map(Hypervisor::kernel))
}

/// Checks the records of the kernels by recounting them.
fn check_kernels(system: &System) {
    for kernel in kernels(system) {
        kernel.check_invariants().unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// Returns a random memory that is small, fragmented or faulty, with or without swap.
fn memory(random: &mut Random) -> MemoryState {
    let kilobytes = (4 + 2 * random.below(8)) * 1024 + 4 * random.below(3);
    let portion = random.below(5) * 25;
    let shape = ["clustered", "dispersed"][random.below(2) as usize];
    let fragmentation =
        format!("portion={portion}%,holes={}%,{shape}", [3, 30, 60][random.below(3) as usize]);
    let perforation = [
        "holes=eager",
        "holes=lazy,promote=punch",
        "max-filter-bits=4",
        "create=reserve",
        "create=reserve,max-hole-share=10%,demote-above=10%",
    ];
    memory_of(&[
        ("memory", &format!("{kilobytes}K")),
        ("fragmentation", if random.one_in(2) { "none" } else { &fragmentation }),
        ("perforation", perforation[random.below(5) as usize]),
        ("faulty", if random.one_in(4) { "uniform=0.1%" } else { "none" }),
        ("compaction", ["none", "background"][random.below(2) as usize]),
        ("defrag", ["always", "defer", "never"][random.below(3) as usize]),
        ("swap", ["0", "1M", "16M"][random.below(3) as usize]),
        ("zones", ["single", "x86"][random.below(2) as usize]),
    ])
}

/// Runs one sequence. Errors that the kernel may report, such as a lack of memory, are not failures.
fn outcome(seed: u64) -> Result<(), String> {
    let start = Instant::now();
    let run = catch_unwind(AssertUnwindSafe(|| Trial::new(seed).run()));
    let text = |panic: Box<dyn std::any::Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => other.downcast::<&str>().map_or("a panic".into(), |text| text.to_string()),
    };
    forgive(run.map_err(text)?, ()).map_err(|error| error.to_string())?;
    let taken = start.elapsed();
    if taken < MOST_TIME { Ok(()) } else { Err(format!("takes {} s", taken.as_secs())) }
}

/// Runs `count` sequences and reports each kind of failure once.
fn check(count: u64) {
    let (first, start) = (number("SEQUENCE_SEED", 0), Instant::now());
    let mut failures: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for seed in first..first + number("SEQUENCES", count) {
        if let Err(problem) = outcome(seed) {
            // Numbers are removed from messages, because they differ between seeds.
            if first == seed {
                eprintln!("{problem}");
            }
            let kind: String = problem.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            failures.entry(kind.chars().take(80).collect()).or_insert((seed, 0)).1 += 1;
            if failures.len() >= MOST_FAILURES {
                break;
            }
        }
        if (seed + 1 - first).is_multiple_of(10_000) {
            eprintln!("{} sequences in {} s", seed + 1 - first, start.elapsed().as_secs());
        }
    }
    for (problem, (seed, times)) in &failures {
        eprintln!("SEQUENCE_SEED={seed}, {times} times: {problem}");
    }
    assert!(failures.is_empty(), "{} different failures", failures.len());
}

#[test]
fn odd_sequences_leave_the_kernel_in_order() {
    check(SHORT);
}

#[test]
#[ignore = "a million sequences, an hour or two with --release"]
fn a_million_odd_sequences_leave_the_kernel_in_order() {
    check(LONG);
}
