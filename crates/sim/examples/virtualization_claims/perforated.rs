//! Perforated pages in a virtual machine (P §VII.E, Fig. 11).

use perforate_sim::{HostMemoryOptions, Machine, MemoryState, SimError};

use crate::laboratory::{self, Figures, Job};
use crate::options::Options;
use crate::table::spread;
use crate::workloads::trace;

const MACHINE: &str = "perforated-table2";
const MEMORY: &str = "8G";
/// P §VII.E takes the configurations of its fragmentation study: half of the regions, 25 % of the
/// sub-pages of each.
const SHAPES: &[(&str, &str)] = &[
    ("clustered", "portion=50%,holes=25%,clustered"),
    ("dispersed", "portion=50%,holes=25%,dispersed"),
];
const SIDES: &[(&str, bool, bool)] =
    &[("guest", true, false), ("host", false, true), ("both", true, true)];
const TRACES: &[&str] = &["bfs", "hpcc", "mummer", "redis", "stockfish", "xz"];

/// What fragmentation changes nothing of: large pages everywhere, or nowhere.
const UNTOUCHED: &[&str] = &["ideal+ideal", "4k+4k"];
const FRAGMENTED: &[&str] = &["perforated+perforated", "thp+thp"];

/// A row: one workload with fragmentation on one side or both.
struct Row<'a> {
    ideal: &'a Figures,
    base: &'a Figures,
    perforated: &'a Figures,
    conventional: &'a Figures,
}

/// Runs and prints everything.
///
/// # Errors
/// The first run that went wrong.
pub fn print(options: &Options) -> Result<(), SimError> {
    let machine = Machine::load(MACHINE)?;
    println!(
        "Perforated pages in guest and host (P §VII.E) on {MACHINE}, {} seeds, {} instructions\n\
         portion 50 %, degree 25 %; P-C14: 78.9–99.9 % of ideal, +7.2–48.0 % over conventional,\n\
         about 6 memory accesses per walk",
        options.seeds, options.instructions
    );
    let mut workloads = vec![("random 2G", "random".to_owned())];
    workloads.extend(TRACES.iter().map(|name| (*name, trace(name))));
    let mut tables = vec![String::new(); SHAPES.len()];
    for (name, workload) in &workloads {
        let jobs = jobs(&machine, workload, options)?;
        let figures = laboratory::run(name, &jobs)?;
        let of_seed: Vec<&[Figures]> = figures.chunks(runs_of_seed()).collect();
        for (shape, table) in tables.iter_mut().enumerate() {
            for (side, (label, ..)) in SIDES.iter().enumerate() {
                let rows: Vec<Row<'_>> =
                    of_seed.iter().map(|runs| row(runs, shape, side)).collect();
                *table += &line(if side == 0 { name } else { "" }, label, &rows);
            }
        }
    }
    for ((shape, _), table) in SHAPES.iter().zip(tables) {
        println!(
            "\n{shape}\n{:<11}{:<7}{:>17}{:>20}{:>15}{:>15}{:>15}",
            "workload",
            "holes",
            "% of ideal",
            "% over thp+thp",
            "÷ 4k+4k",
            "accesses/walk",
            "of thp+thp"
        );
        print!("{table}");
    }
    Ok(())
}

fn runs_of_seed() -> usize {
    UNTOUCHED.len() + SHAPES.len() * SIDES.len() * FRAGMENTED.len()
}

/// Of every seed the untouched schemes, then by shape, side and scheme.
fn jobs(machine: &Machine, workload: &str, options: &Options) -> Result<Vec<Job>, SimError> {
    let mut jobs = Vec::new();
    for seed in 1..=options.seeds {
        let job = |scheme, memory: &MemoryState| Job {
            workload: workload.into(),
            machine: machine.clone(),
            scheme,
            memory: memory.clone(),
            seed,
            instructions: options.instructions,
        };
        let whole = memory(None, None)?;
        jobs.extend(UNTOUCHED.iter().map(|scheme| job(scheme, &whole)));
        for &(_, holes) in SHAPES {
            for &(_, in_guest, in_host) in SIDES {
                let memory = memory(in_guest.then_some(holes), in_host.then_some(holes))?;
                jobs.extend(FRAGMENTED.iter().map(|scheme| job(scheme, &memory)));
            }
        }
    }
    Ok(jobs)
}

fn memory(guest: Option<&str>, host: Option<&str>) -> Result<MemoryState, SimError> {
    let options = HostMemoryOptions { fragmentation: host, ..HostMemoryOptions::default() };
    MemoryState::parse(Some(MEMORY), guest, None)?.over(&options)
}

fn row(runs: &[Figures], shape: usize, side: usize) -> Row<'_> {
    let first = UNTOUCHED.len() + (shape * SIDES.len() + side) * FRAGMENTED.len();
    Row {
        ideal: &runs[0],
        base: &runs[1],
        perforated: &runs[first],
        conventional: &runs[first + 1],
    }
}

fn line(name: &str, side: &str, rows: &[Row<'_>]) -> String {
    let over = |of: fn(&Row<'_>) -> f64| -> Vec<Option<f64>> {
        rows.iter().map(|row| Some(of(row))).collect()
    };
    let of_ideal = over(|row| row.ideal.cycles / row.perforated.cycles * 100.0);
    let gain = over(|row| (row.conventional.cycles / row.perforated.cycles - 1.0) * 100.0);
    let base = over(|row| row.base.cycles / row.perforated.cycles);
    let accesses = over(|row| row.perforated.counter("memory_accesses_per_walk"));
    let conventional = over(|row| row.conventional.counter("memory_accesses_per_walk"));
    format!(
        "{name:<11}{side:<7}{:>17}{:>20}{:>15}{:>15}{:>15}\n",
        spread(&of_ideal, 1),
        spread(&gain, 1),
        spread(&base, 2),
        spread(&accesses, 1),
        spread(&conventional, 1),
    )
}
