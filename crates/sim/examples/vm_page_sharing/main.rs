//! Page sharing between virtual machines (D §IX.E, D-C8; P §III.A, P-C4):
//! `cargo run --release -p perforate-sim --example vm_page_sharing [-- OPTIONS]`, `--help` for the
//! options.
//!
//! Two guests' kernels over one host's kernel, whose scanner merges pages of equal content across
//! the machines. Neither paper says what the pages held: contents are a choice of ours, and with
//! them what can be saved; what becomes of large pages and TLB misses follows from the model.

#[path = "../case_study/mod.rs"]
mod case_study;
#[path = "../command_line/mod.rs"]
mod command_line;
mod expected;
mod options;
mod study;

use std::process::ExitCode;

use command_line::Fields;
use options::Options;
use perforate_os::ContentDistribution;
use perforate_sim::{Machine, SimError};
use study::{Figures, REGION_PAGES, Setup};

/// The host's schemes.
const HOSTS: [&str; 4] = ["4k", "thp", "perforated", "segment"];

/// What the pages hold, as shares of all pages of both machines.
struct Contents {
    what: &'static str,
    paper: &'static str,
    zero: f64,
    duplicate: f64,
    regions: f64,
    run: u64,
}

const CONTENTS: [Contents; 2] = [
    Contents {
        what: "compute: equal pages in runs of 64KB, in 40 % of the large pages",
        paper: "P-C4 (mcf twice): 11 % saved, 40 % of large pages broken, +34 % TLB misses",
        zero: 0.02,
        duplicate: 0.16,
        regions: 0.4,
        run: 16,
    },
    Contents {
        what: "big memory: data unique to the program, code and files of the systems equal",
        paper: "D-C8 (pairs of big-memory workloads): at most 3 % saved",
        zero: 0.005,
        duplicate: 0.04,
        regions: 0.1,
        run: 16,
    },
];

/// One row of the table.
struct Row {
    what: &'static str,
    unit: &'static str,
    figure: fn(&Figures) -> f64,
}

const ROWS: [Row; 9] = [
    Row {
        what: "frames saved, of all",
        unit: " %",
        figure: |figures| figures.saved / figures.pages * 100.0,
    },
    Row {
        what: "  closed form, for pages outside segments",
        unit: " %",
        figure: |figures| figures.closed / figures.pages * 100.0,
    },
    Row {
        what: "  net of new page tables",
        unit: " %",
        figure: |figures| (figures.saved - figures.tables) / figures.pages * 100.0,
    },
    Row {
        what: "large pages of the host broken",
        unit: " %",
        figure: |figures| figures.split / figures.large.max(1.0) * 100.0,
    },
    Row {
        what: "large pages of the host punched",
        unit: " %",
        figure: |figures| figures.punched / figures.large.max(1.0) * 100.0,
    },
    Row {
        what: "walks per 1000 uniform reads before",
        unit: "  ",
        figure: |figures| figures.uniform[0],
    },
    Row { what: "  and after", unit: "  ", figure: |figures| figures.uniform[1] },
    Row {
        what: "walks per 1000 reads skewed as 1/rank before",
        unit: "  ",
        figure: |figures| figures.skewed[0],
    },
    Row { what: "  and after", unit: "  ", figure: |figures| figures.skewed[1] },
];

fn main() -> ExitCode {
    let options = Options::parse(std::env::args().skip(1));
    let fields: Fields<Options> =
        Fields { wants_help: |options| options.help, machine: |options| &options.machine };
    command_line::run(options, options::HELP, &fields, compare)
}

/// The distribution for heaps of so many regions in each machine. The pool is half as large as the
/// pages that draw from it: a content has two takers on average.
fn distribution(contents: &Contents, regions: u64) -> ContentDistribution {
    let pages = 2 * regions * REGION_PAGES;
    ContentDistribution {
        zero: contents.zero,
        duplicate: contents.duplicate,
        distinct: (pages as f64 * contents.duplicate / 2.0) as u64,
        regions: contents.regions,
        run: contents.run,
        seed: 0,
    }
}

fn compare(options: &Options, machine: &Machine) -> Result<(), SimError> {
    println!(
        "Page sharing across two virtual machines of {} MB, guests with large pages; machine {}, \
         {} seeds",
        options.regions * 2,
        machine.name,
        options.seeds
    );
    for contents in &CONTENTS {
        let drawn = distribution(contents, options.regions);
        println!("\n{}\n  contents (our choice): {drawn}", contents.what);
        println!("  {}\n", contents.paper);
        let setup = Setup {
            machine,
            regions: options.regions,
            reads: options.reads,
            check: options.check,
            contents: drawn,
        };
        let mut columns = Vec::new();
        for host in HOSTS {
            let runs: Result<Vec<Figures>, SimError> =
                (1..=options.seeds).map(|seed| study::run(&setup, host, seed)).collect();
            columns.push(runs?);
        }
        print!("{:<46}", "median of the seeds; memory of the host in");
        println!("{}", HOSTS.map(|host| format!("{host:>13}")).concat());
        for row in &ROWS {
            let cells: Vec<String> = columns.iter().map(|runs| cell(row, runs)).collect();
            println!("{:<46}{}", row.what, cells.concat());
        }
    }
    Ok(())
}

fn cell(row: &Row, runs: &[Figures]) -> String {
    let mut values: Vec<f64> = runs.iter().map(row.figure).collect();
    values.sort_by(f64::total_cmp);
    format!("{:>11.1}{}", values[values.len() / 2], row.unit)
}

#[cfg(test)]
mod tests;
