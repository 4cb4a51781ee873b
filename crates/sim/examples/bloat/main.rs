//! What large pages waste in a key-value store, and what perforated pages save of it (P §III.B,
//! P-C2 and P-C3): `cargo run --release -p perforate-sim --example bloat [-- OPTIONS]`.
//!
//! `store.rs` is a store in the manner of Redis on `allocator.rs`, an allocator in the manner of
//! jemalloc; both are data structures that run, and what they do to memory is simulated under
//! each scheme. Nothing is fitted to the paper's figures.

mod allocator;
mod claims;
mod deletions;
mod extents;
mod options;
mod program;
mod random;
mod recorded;
mod records;
mod size_class;
mod store;
mod study;
mod table;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use options::{Options, Request};
use perforate_sim::{Machine, Scheme, SimError};
use study::{Figures, Study};
use table::{WIDTHS, spread};

/// The schemes, in the order of the tables.
pub const SCHEMES: [&str; 3] = ["4k", "thp", "perforated-reserve"];
/// Bytes of the gigabytes that are printed.
pub const GIGABYTE: f64 = (1u64 << 30) as f64;

const CHOICES: &str = "
Choices of ours (the paper says: Redis, 4 million keys, 16KB objects, 1 million random reads):
- allocator: rules of jemalloc 5 as Redis builds it (quantum 8 bytes, four classes a doubling,
  slabs below 16KB; larger objects have an extent one page longer than their class and begin at
  a random cache line of its first page); one arena, no thread cache; shortest free extent first
- allocator's records: 128 bytes for each extent in use, 8 for each of its end pages
- mappings of 2MB at first, each one size class longer than the last, from 0x7f0000000000 down
- a key: 24 bytes of entry, 18 of name, 16 of object, and the value with 6 bytes of header and
  end; the table doubles when there is a key for each slot, all moved at once
- a read: slot, chain, entries and names on the way, object, value, and a reply that is copied to
  one place; one access for each page; code, stack, sockets and the kernel are left out
- deleted keys are drawn evenly; then all free extents are given back (MADV_DONTNEED) at once
- TLBs are never scaled: with fewer keys than the paper, 2MB pages reach further than there
- a TLB miss is a page that neither level has; bitmap entries read from memory count apart";

fn main() -> ExitCode {
    let request = options::parse(std::env::args().skip(1));
    let options = match request {
        Ok(Request::Run(options)) => options,
        Ok(Request::Help) => {
            println!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(problem) => return fail(&problem),
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(problem: &str) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(2)
}

fn run(options: &Options) -> Result<(), SimError> {
    let machine = Machine::load(&options.machine)?;
    if let Some(trace) = &options.trace {
        perforate_trace::open(trace)?; // A wrong name is said now, not after a minute.
    }
    let live_keys = ((options.keys as f64 * options.live).round() as u64).max(1);
    let study = Study {
        keys: options.keys,
        value_bytes: options.value_bytes,
        padding: options.padding,
        live_keys,
        reads: options.reads,
        max_ptes_none: None,
    };
    let mut figures: [Vec<Figures>; 3] = Default::default();
    for (name, figures) in SCHEMES.iter().zip(&mut figures) {
        for seed in 1..=options.seeds {
            progress(&format!("{name}, seed {seed} of {}", options.seeds));
            figures.push(study.run(&machine, Scheme::find(name)?, seed)?);
        }
    }
    progress("");
    print_store(&machine, &study, options, &figures);
    claims::print(&figures, live_keys);
    if options.deletion_keys > 0 {
        deletions::print(&machine, options)?;
    }
    if let Some(trace) = &options.trace {
        progress("recorded program");
        recorded::print(trace, &machine)?;
    }
    println!("{CHOICES}");
    claims::print_verdicts(&figures, options, live_keys);
    Ok(())
}

/// One line on a terminal that the next one overwrites; an empty one clears it.
pub fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{what:<60}\r");
        std::io::stderr().flush().ok();
    }
}

fn print_store(machine: &Machine, study: &Study, options: &Options, figures: &[Vec<Figures>; 3]) {
    let Study { keys, value_bytes, live_keys, reads, .. } = study;
    println!(
        "Key-value store: {keys} keys of {value_bytes} bytes, {live_keys} live, {reads} reads"
    );
    let level = machine.tlb.l2;
    println!(
        "{}: {}-entry {}-way L2 TLB; least–median–most of {} seeds; GB of 2^30 bytes\n",
        machine.name, level.entries, level.ways, options.seeds
    );
    table::row("", &WIDTHS, &SCHEMES.map(String::from));
    let line = |label: &str, decimals: usize, figure: &dyn Fn(&Figures) -> f64| {
        let cells = figures.each_ref().map(|runs| spread(runs.iter().map(figure), decimals));
        table::row(label, &WIDTHS, &cells);
    };
    line("memory asked for by the store, GB", 2, &|run| run.requested_bytes / GIGABYTE);
    line("memory touched, GB", 2, &|run| run.touched_bytes / GIGABYTE);
    line("memory mapped, GB", 2, &|run| run.mapped_bytes / GIGABYTE);
    line("  bloat over touched, %", 2, &Figures::bloat_percent);
    line("reserved, not mapped, GB", 2, &|run| run.reserved_bytes / GIGABYTE);
    line("page tables, MB", 1, &|run| run.table_bytes / f64::from(1 << 20));
    line("L2 TLB misses (pages) of a read", 2, &|run| run.misses);
    line("  bitmap entries read besides", 2, &|run| run.bitmap_reads);
    line("shootdown interrupts of a first touch", 3, &|run| run.shootdowns);
    line("OS cycles of a first touch", 0, &|run| run.system_cycles);
}
