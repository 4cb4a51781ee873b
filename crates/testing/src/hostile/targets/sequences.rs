//! Targets that run whole sequences of trace events under any scheme or pair of schemes.

use std::sync::LazyLock;

use crate::sequences::{Bytes, Choices, sequence, write};
use perforate_config::OptionTexts;
use perforate_sim::{
    Composition, Machine, MemoryOptions, MemorySnapshot, MemoryState, RunOptions, SimError,
    Simulation, SystemOptions, scheme,
};
use perforate_trace::{Source, TraceError};
use perforate_types::{Chunk, PageSize};
use perforate_workloads::layout::{Interval, LayoutFile, PoolLayout, Pooled};

use super::{Target, assert_one_line, target, told};
use crate::hostile::target::Seeds;

/// Number of events and accesses in a generated sequence. When the input's bytes are used up, every choice is
/// the first alternative.
const STEPS: u64 = 60;
/// Memory limit of a target in bytes. The simulated memory is small, so simulating it takes little
/// memory.
const SEQUENCE_BYTES: usize = 64 << 20;

pub const TARGETS: &[Target] = &[
    of_sequence("event-sequence", run_sequence),
    of_sequence("event-sequence-pooled", run_pooled),
];

const fn of_sequence(name: &'static str, run: fn(&[u8])) -> Target {
    Target { seeds: Seeds::None, memory_bytes: SEQUENCE_BYTES, ..target(name, run) }
}

/// Runs a sequence of events and accesses; the bytes choose the scheme, the memory, and the
/// sequence.
fn run_sequence(bytes: &[u8]) {
    static ALL: LazyLock<Vec<Composition>> = LazyLock::new(|| {
        let pairs = Composition::pairs("all", "all").expect("there are pairs").0;
        scheme::all().map(Composition::from).chain(pairs).collect()
    });
    let mut choices = Bytes::new(bytes);
    let composition = ALL[choices.below(256) as usize % ALL.len()];
    let memory = memory(&mut choices);
    let implicit_maps = choices.one_in(4);
    simulate(composition, &memory, implicit_maps, source(&mut choices));
}

/// Runs a sequence of events and accesses in a program whose memory is in pools, parts of which a layout puts
/// in 2MB pages; the bytes choose the memory and the sequence.
fn run_pooled(bytes: &[u8]) {
    let mut choices = Bytes::new(bytes);
    let large = Interval { offsets: 0..4 << 20, size: PageSize::Size2M };
    let pool = |bytes| Some(PoolLayout::new(bytes, [large.clone()]));
    let layout =
        LayoutFile { name: "sequence".into(), pools: [pool(8 << 20), pool(1 << 40), None] };
    let memory = MemoryState { layout: Some(layout.clone()), ..memory(&mut choices) };
    let composition = Composition::from(scheme::Scheme::find("layout").expect("it is registered"));
    let source = Pooled::new(source(&mut choices), layout).expect("small pools, and events");
    simulate(composition, &memory, false, Box::new(source));
}

fn source(choices: &mut impl Choices) -> Box<dyn Source> {
    let file = tempfile::NamedTempFile::new().expect("temporary files can be made");
    write(&sequence(choices, STEPS), file.path()).expect("temporary files can be written");
    perforate_trace::open(file.path()).expect("a trace of our own")
}

fn simulate(
    composition: Composition,
    memory: &MemoryState,
    implicit_maps: bool,
    mut source: Box<dyn Source>,
) {
    static MACHINE: LazyLock<Machine> =
        LazyLock::new(|| Machine::load(Machine::DEFAULT).expect("it is bundled"));
    let system = SystemOptions { check: true, implicit_maps, counts_only: false };
    let options = RunOptions { functional: true, system, warmup: 0 };
    let simulation = Simulation::new(&MACHINE, composition, memory, 1, options);
    let Some(mut simulation) = told(simulation) else { return };
    let mut chunk = Chunk::default();
    loop {
        let more = match source.next_chunk(&mut chunk) {
            // The sequence maps more memory than a pool holds.
            Err(error @ TraceError::Unsuitable { .. }) => {
                return assert_one_line(&error.to_string());
            }
            outcome => outcome.expect("a trace of our own"),
        };
        if !more {
            break;
        }
        match simulation.run(&chunk) {
            Ok(()) => {}
            Err(
                error @ (SimError::Disagreement { .. }
                | SimError::Oracle { .. }
                | SimError::StuckFault { .. }),
            ) => panic!("{error}"),
            Err(error) => return assert_one_line(&error.to_string()),
        }
    }
    let checked = simulation.system().kernel().check_invariants();
    checked.unwrap_or_else(|wrong| panic!("{wrong}"));
}

fn memory(choices: &mut impl Choices) -> MemoryState {
    let choose = |choices: &mut _, of: &[&'static str]| {
        of[Choices::below(choices, of.len() as u64) as usize]
    };
    let given: OptionTexts = [
        ("memory", choose(choices, &["8M", "5M", "16M"])),
        ("swap", choose(choices, &["0", "1M", "16M"])),
        ("fragmentation", choose(choices, &["none", "portion=50%,holes=30%,dispersed"])),
        ("host-memory", "32M"),
    ]
    .into_iter()
    .collect();
    let options = MemoryOptions::read(given).expect("options of ours");
    options.resolve(&MemorySnapshot::load).expect("options of ours")
}
