//! The same questions for a recorded program.

use std::path::Path;

use perforate_sim::{
    Comparison, Composition, Machine, MemoryState, RunResult, SimError, Workload, compare,
};

use crate::SCHEMES;
use crate::table::{self, WIDTHS};

/// Memory for it: recorded programs map at most some gigabytes.
const MEMORY: &str = "16G";

/// Prints memory and TLB misses of a recorded program under every scheme. Nothing in it is drawn
/// at random, so there is one value for each figure.
///
/// # Errors
/// No such trace, or too little memory for it.
pub fn print(trace: &Path, machine: &Machine) -> Result<(), SimError> {
    // Twice: memory and shootdowns from the beginning, TLB misses after a fifth has warmed them.
    let whole = run(trace, machine, Some(0))?;
    let warm = run(trace, machine, None)?;
    let millions = whole[0].instructions / 1_000_000;
    println!("\nRecorded program {}, {millions} M instructions", whole[0].workload);
    table::row("", &WIDTHS, &SCHEMES.map(String::from));
    let megabytes = |bytes: f64| format!("{:.1}", bytes / f64::from(1 << 20));
    let line = |label: &str, results: &[RunResult], show: &dyn Fn(&RunResult) -> String| {
        let cells: Vec<String> = results.iter().map(show).collect();
        table::row(label, &WIDTHS, &cells);
    };
    line("memory mapped, MB", &whole, &|run| megabytes(counter(run, "mapped_bytes")));
    line("  bloat over existing or touched, %", &whole, &|run| {
        let [mapped, touched] = ["mapped_bytes", "faulted_bytes"].map(|name| counter(run, name));
        table::number((mapped / touched - 1.0) * 100.0, 1)
    });
    line("  in 2MB or perforated pages, %", &whole, &|run| {
        format!("{:.1}", counter(run, "large_page_coverage") * 100.0)
    });
    line("reserved, not mapped, MB", &whole, &|run| megabytes(counter(run, "reserved_bytes")));
    line("page tables, MB", &whole, &|run| megabytes(counter(run, "page_table_bytes")));
    line("L2 TLB MPKI (pages)", &warm, &|run| format!("{:.3}", counter(run, "l2_tlb_mpki")));
    line("  with bitmap entries read", &warm, &|run| {
        let reads = counter(run, "bitmap_misses") * 1000.0 / run.instructions as f64;
        format!("{:.3}", counter(run, "l2_tlb_mpki") + reads)
    });
    line("shootdown interrupts", &whole, &|run| {
        format!("{:.0}", counter(run, "work_shootdown_batches"))
    });
    Ok(())
}

fn run(trace: &Path, machine: &Machine, warmup: Option<u64>) -> Result<Vec<RunResult>, SimError> {
    let name = trace.to_string_lossy().into_owned();
    let schemes = SCHEMES.iter().map(|name| Composition::find(name)).collect::<Result<_, _>>()?;
    let comparison = Comparison {
        workload: Workload { name, skip: 0, instructions: None },
        machine: machine.clone(),
        schemes,
        memory: MemoryState::parse(Some(MEMORY), None, None)?,
        seed: 1,
        functional: true,
        check: false,
        warmup,
    };
    compare(&comparison, &mut |_| {})
}

fn counter(result: &RunResult, name: &str) -> f64 {
    result.counters.get(name).expect("a counter")
}
