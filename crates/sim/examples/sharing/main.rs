//! What sharing does to large pages (P Fig. 1, §III, §VI): a server with a big heap forks, as
//! redis does to save; then the server writes, or its child, or the child changes permissions:
//! `cargo run --release -p perforate-sim --example sharing [-- OPTIONS]`, `--help` for the options.
//!
//! The paper draws the situation and gives no numbers for it, so closed forms stand beside ours.

#[path = "../case_study/mod.rs"]
mod case_study;
#[path = "../command_line/mod.rs"]
mod command_line;
mod expected;
mod options;
mod study;
mod table;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use command_line::Fields;
use options::Options;
use perforate_sim::{Machine, SimError};
use study::{CONTENDERS, Case, Contender, Figures, REGION_PAGES, Setup};

fn main() -> ExitCode {
    let options = Options::parse(std::env::args().skip(1));
    let fields: Fields<Options> =
        Fields { wants_help: |options| options.help, machine: |options| &options.machine };
    command_line::run(options, options::HELP, &fields, compare)
}

fn compare(options: &Options, machine: &Machine) -> Result<(), SimError> {
    println!(
        "Sharing (P Fig. 1): a server with a heap of {} MB forks; {} seeds, least–median–greatest",
        options.regions * 2,
        options.seeds
    );
    let mut progress = Progress::new(options);
    for &case in &options.cases {
        println!("\n{}", describe(case));
        for &percent in &options.written_percent {
            let changes = changes(options, percent);
            println!("\n{percent} % of the pages: {changes} changes, each to any page");
            let setup = Setup {
                machine,
                case,
                regions: options.regions,
                changes,
                reads: options.reads,
                check: options.check,
            };
            let figures = run(&setup, options.seeds, &mut progress)?;
            let columns: Vec<(&str, &[Figures])> = CONTENDERS
                .iter()
                .zip(&figures)
                .map(|(contender, figures)| (contender.heading, &figures[..]))
                .collect();
            progress.clear();
            println!("{}\n{}", table::table(case, &columns), checks(&setup, &figures));
        }
    }
    println!("\n{}", choices(machine));
    Ok(())
}

/// Figures of every contender by seed.
fn run(
    setup: &Setup<'_>,
    seeds: u64,
    progress: &mut Progress,
) -> Result<Vec<Vec<Figures>>, SimError> {
    let mut of_seeds = |contender: &Contender| {
        (1..=seeds)
            .map(|seed| {
                progress.step(contender, seed);
                study::run(setup, contender, seed)
            })
            .collect()
    };
    CONTENDERS.iter().map(&mut of_seeds).collect()
}

/// Changes that are `percent` of the heap's pages; at least one.
fn changes(options: &Options, percent: f64) -> u64 {
    let pages = (options.regions * REGION_PAGES) as f64;
    ((pages * percent / 100.0).round() as u64).max(1)
}

fn describe(case: Case) -> &'static str {
    match case {
        Case::ParentWrites => "(a) The parent writes while the child lives",
        Case::ChildWrites => {
            "(b) The child writes; its pages go with it (P Fig. 1: the second address space)"
        }
        Case::ChildProtects => "(c) Memory mapped shared; the child makes sub-pages read-only",
    }
}

/// The closed forms, and what was counted.
fn checks(setup: &Setup<'_>, figures: &[Vec<Figures>]) -> String {
    let [base, thp, perforated, demoting] = figures else {
        unreachable!("one list for each contender");
    };
    let Setup { regions, changes, .. } = *setup;
    let entries = setup.machine.tlb.l2.entries as u64;
    let pages = regions * REGION_PAGES;
    let split = expected::places_hit(regions, changes);
    let copies = setup.case != Case::ChildProtects;
    let writes_in_parent = setup.case == Case::ParentWrites;
    let line = |what: &str, closed: f64, of: &[Figures], figure: &dyn Fn(&Figures) -> f64| {
        let values: Vec<f64> = of.iter().map(figure).collect();
        format!("\n  {what:<62}{:>8}{:>21}", table::short(closed, false), table::spread(&values))
    };
    let mut text = format!("closed forms {:>59}{:>21}", "expected", "counted");
    let written = expected::places_hit(pages, changes);
    text += &line("different pages changed", written, perforated, &|f| f.pages_changed as f64);
    if copies {
        text += &line("= frames copied by each scheme", written, thp, &|f| {
            f.changes.work.frames_copied as f64
        });
    }
    text += &line("= holes, perforated", written, perforated, &|f| f.shared.holes as f64);
    text += &line("2MB pages hit: split by thp", split, thp, &|f| {
        f.changes.work.large_pages_split as f64
    });
    let too_holey = expected::regions_above(regions, changes, REGION_PAGES / 4);
    text += &line("2MB pages with over 25 % of holes: given up", too_holey, demoting, &|f| {
        f.changes.work.large_pages_split as f64
    });
    let reader = |f: &Figures| match writes_in_parent {
        // Alone, as turns with the child make a TLB cold that 4KB pages of both fill.
        true => f.parent_alone.walks_per_1000,
        false => f.child.walks_per_1000,
    };
    let all = expected::walks_per_1000(regions, regions as f64, entries);
    text += &line("walks/1000 reads of the changer, 4k", all, base, &reader);
    let some = expected::walks_per_1000(regions, split, entries);
    text += &line("walks/1000 reads of the changer, thp", some, thp, &reader);
    text
}

fn choices(machine: &Machine) -> String {
    let tags = if machine.tlb.tagged { "tagged by process" } else { "flushed at each switch" };
    format!(
        "\
Choices of ours (the paper draws Fig. 1 and gives no numbers for it):
- machine {}: TLBs {tags}, one core for both processes; costs of the
  operating system from its file, in a plain sum; reads and changes take no time of their own;
- the heap is mapped in full before the fork, the rest of memory is free, nothing else runs;
- changes hit any page of the heap evenly, some pages twice; each is an operation of its own, so
  its shootdowns are not joined with those of others;
- the processes read any page of the heap evenly, in turns of {}; misses are per 1000 reads, the
  MPKI of a program that only reads; walks to holes are no L2 misses but count as walks;
- after each switch the TLB is cold where 4KB pages of the other process filled it;
- khugepaged has all the time it wants, after the child's end only, with Linux's limits;
- \"demote > 25%\" gives 2MB pages with more holes up (counted as split, its punches as punched);
- \"memory beyond heap\" is page tables of all processes and copies.",
        machine.name,
        study::SLICE
    )
}

/// One line on a terminal that says how far it is.
struct Progress {
    is_shown: bool,
    done: u64,
    all: u64,
}

impl Progress {
    fn new(options: &Options) -> Self {
        let parts = options.cases.len() * options.written_percent.len() * CONTENDERS.len();
        let is_shown = std::io::stderr().is_terminal();
        Self { is_shown, done: 0, all: parts as u64 * options.seeds }
    }

    fn step(&mut self, contender: &Contender, seed: u64) {
        self.done += 1;
        let Self { done, all, .. } = *self;
        self.show(&format!("run {done} of {all}: {}, seed {seed}", contender.heading));
    }

    fn clear(&self) {
        self.show("");
    }

    fn show(&self, text: &str) {
        if self.is_shown {
            let mut stderr = std::io::stderr();
            // A terminal that went away is no reason to stop.
            let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
        }
    }
}
