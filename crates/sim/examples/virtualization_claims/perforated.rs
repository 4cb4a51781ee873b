//! Perforated pages in a virtual machine (P §VII.E, Fig. 11).

use perforate_sim::{HostMemoryOptions, Machine, MemoryState, SimError};

use crate::laboratory::{self, Figures, Job};
use crate::options::Options;
use crate::table::{median, spread};
use crate::workloads::trace;

const MACHINE: &str = "perforated-table2";
const MEMORY: &str = "8G";
/// P §VII.E takes the configurations of its fragmentation study: half of the regions, 25 % of the
/// sub-pages of each.
const SHAPES: &[(&str, &str)] = &[
    ("clustered", "portion=50%,holes=25%,clustered"),
    ("dispersed", "portion=50%,holes=25%,dispersed"),
];
const RANDOM: &str = "random 2G";
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

/// All rows of the traces, as P gives its range of programs.
#[derive(Default)]
struct Summary {
    of_ideal: Vec<Option<f64>>,
    gain: Vec<Option<f64>>,
    accesses: Vec<Option<f64>>,
}

impl Summary {
    /// The medians of a row.
    fn add(&mut self, rows: &[Row<'_>]) {
        let middle = |of: fn(&Row<'_>) -> f64| {
            median(&rows.iter().map(|row| Some(of(row))).collect::<Vec<_>>())
        };
        self.of_ideal.push(middle(|row| row.of_ideal()));
        self.gain.push(middle(|row| row.gain()));
        self.accesses.push(middle(|row| row.accesses()));
    }

    fn line(&self) -> String {
        format!(
            "{:<18}{:>17}{:>20}{:>30}\n",
            "the traces",
            spread(&self.of_ideal, 1),
            spread(&self.gain, 1),
            spread(&self.accesses, 1)
        )
    }
}

impl Row<'_> {
    /// Percent of the speed on whole memory.
    fn of_ideal(&self) -> f64 {
        self.ideal.cycles / self.perforated.cycles * 100.0
    }

    /// Percent faster than conventional large pages.
    fn gain(&self) -> f64 {
        (self.conventional.cycles / self.perforated.cycles - 1.0) * 100.0
    }

    fn accesses(&self) -> f64 {
        self.perforated.counter("memory_accesses_per_walk")
    }
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
    let mut workloads = vec![(RANDOM, "random".to_owned())];
    workloads.extend(TRACES.iter().map(|name| (*name, trace(name))));
    let mut tables: Vec<(String, Summary)> = SHAPES.iter().map(|_| Default::default()).collect();
    for (name, workload) in &workloads {
        let jobs = jobs(&machine, workload, options)?;
        let figures = laboratory::run(name, &jobs)?;
        let of_seed: Vec<&[Figures]> = figures.chunks(runs_of_seed()).collect();
        for (shape, (table, summary)) in tables.iter_mut().enumerate() {
            for (side, (label, ..)) in SIDES.iter().enumerate() {
                let rows: Vec<Row<'_>> =
                    of_seed.iter().map(|runs| row(runs, shape, side)).collect();
                if name != &RANDOM {
                    summary.add(&rows);
                }
                *table += &line(if side == 0 { name } else { "" }, label, &rows);
            }
        }
    }
    for ((shape, _), (table, summary)) in SHAPES.iter().zip(tables) {
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
        print!("{table}{}", summary.line());
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
    let of_ideal = over(|row| row.of_ideal());
    let gain = over(|row| row.gain());
    let base = over(|row| row.base.cycles / row.perforated.cycles);
    let accesses = over(|row| row.accesses());
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
