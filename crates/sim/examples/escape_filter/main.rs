//! What faulty pages in a direct segment cost (D §V, §IX.C, Fig. 13; D-C6):
//! `cargo run --release -p perforate-sim --example escape_filter [-- OPTIONS]`, `--help` for the
//! options.
//!
//! Every random set of faulty frames is one run; the host's segment is made over the faulty frames,
//! whose pages escape it, and so do the false positives of its filter.

#[path = "../case_study/mod.rs"]
mod case_study;
#[path = "../command_line/mod.rs"]
mod command_line;
mod filter;
mod options;
mod statistics;
mod study;
mod table;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use command_line::Fields;
use options::Options;
use perforate_os::SegmentState;
use perforate_sim::{Machine, SimError};
use study::{Outcome, Study, Subject, Tape, faulty_frames};

/// Numbers of faulty frames (D Fig. 13).
const FAULTY: [usize; 5] = [1, 2, 4, 8, 16];

/// The paper's are memcached, a graph benchmark, NAS and GUPS, of 60GB and more; ours are as large
/// as needed to have TLB misses.
const SUBJECTS: [Subject; 6] = [
    Subject {
        name: "GUPS, ten at a time",
        workload: "random:size=1G",
        guest: "segment",
        memory_mb: 1280,
        paper_percent: Some(0.5),
    },
    Subject {
        name: "GUPS, one at a time",
        workload: "random:size=1G,dependent",
        guest: "segment",
        memory_mb: 1280,
        paper_percent: Some(0.5),
    },
    Subject {
        name: "key-value: zipf",
        workload: "zipf:size=1G",
        guest: "segment",
        memory_mb: 1280,
        paper_percent: Some(0.06),
    },
    Subject {
        name: "graph: bfs.trace",
        workload: "bfs.trace",
        // All of its graph, 1.2GB and more, not only the array that it touches first.
        guest: "segment:min=1280M",
        // The segment is made after most of it was mapped by pages: it is there twice for a moment.
        memory_mb: 3072,
        paper_percent: Some(0.06),
    },
    Subject {
        name: "streaming: sequential",
        workload: "sequential:size=1G",
        guest: "segment",
        memory_mb: 1280,
        paper_percent: Some(0.06),
    },
    Subject {
        name: "compute: xz.trace",
        workload: "xz.trace",
        guest: "4k",
        memory_mb: 256,
        paper_percent: None,
    },
];

/// Bits and hash functions of filters compared for the greatest number of faulty frames.
const GEOMETRIES: [(usize, usize); 8] =
    [(64, 2), (64, 4), (128, 2), (128, 4), (256, 2), (256, 4), (512, 2), (512, 4)];

fn main() -> ExitCode {
    let options = Options::parse(std::env::args().skip(1));
    let fields: Fields<Options> =
        Fields { wants_help: |options| options.help, machine: |options| &options.machine };
    command_line::run(options, options::HELP, &fields, compare)
}

fn compare(options: &Options, machine: &Machine) -> Result<(), SimError> {
    let Options { sets, instructions, .. } = *options;
    println!(
        "Faulty frames under a direct segment (D Fig. 13): {sets} random sets each, {instructions} \
         instructions,\nthe first half of them for warming up; machine {}\n",
        machine.name
    );
    println!("{}", table::HEADING);
    for subject in &SUBJECTS {
        let tape = Tape::read(subject, instructions)?;
        let composition = subject.composition()?;
        let study = Study { machine, subject, composition, tape: &tape, check: options.check };
        let base = study.run(None)?.expect("a host without faulty frames has a segment");
        for count in FAULTY {
            let (frames, outcomes) = run_sets(&study, &base.segment, count, sets)?;
            let filter = geometry(machine);
            println!("{}", table::row(&study, &base, count, &frames, &outcomes, filter));
        }
    }
    println!("\n{}", table::NOTES);
    sweep(options, machine)
}

/// Bits and hash functions of the machine's filter.
fn geometry(machine: &Machine) -> (usize, usize) {
    let config = &machine.virtualization;
    (config.escape_filter_bits, config.escape_filter_functions)
}

/// Faulty frames of each set, and what came of it.
type SetsAndOutcomes = (Vec<Vec<u64>>, Vec<Option<Outcome>>);

/// The sets of so many faulty frames, and what came of them.
fn run_sets(
    study: &Study<'_>,
    segment: &SegmentState,
    count: usize,
    sets: usize,
) -> Result<SetsAndOutcomes, SimError> {
    let frames = study.frames(segment);
    let chosen: Vec<Vec<u64>> = (0..sets).map(|set| faulty_frames(&frames, count, set)).collect();
    let done = AtomicUsize::new(0);
    let is_terminal = std::io::stderr().is_terminal();
    let outcomes = study.run_all(&chosen, &|| {
        if is_terminal {
            let set = done.fetch_add(1, Ordering::Relaxed) + 1;
            eprint!("\r\x1b[K{}: {count} faulty, set {set} of {sets}", study.subject.name);
            let _ = std::io::stderr().flush();
        }
    })?;
    if is_terminal {
        eprint!("\r\x1b[K");
    }
    Ok((chosen, outcomes))
}

/// Other filters for the greatest number of faulty frames: a program that suffers, as the paper measures.
fn sweep(options: &Options, machine: &Machine) -> Result<(), SimError> {
    let (subject, count) = (&SUBJECTS[1], FAULTY[FAULTY.len() - 1]);
    println!("Filters of other sizes: {count} faulty frames, {}\n", subject.name);
    println!("{}", table::SWEEP_HEADING);
    let tape = Tape::read(subject, options.instructions)?;
    for filter in GEOMETRIES {
        let mut machine = machine.clone();
        machine.virtualization.escape_filter_bits = filter.0;
        machine.virtualization.escape_filter_functions = filter.1;
        let composition = subject.composition()?;
        let study =
            Study { machine: &machine, subject, composition, tape: &tape, check: options.check };
        let base = study.run(None)?.expect("a host without faulty frames has a segment");
        let (frames, outcomes) = run_sets(&study, &base.segment, count, options.sets)?;
        println!("{}", table::sweep_row(&base, &frames, &outcomes, filter));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
