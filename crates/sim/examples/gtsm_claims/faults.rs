//! Perforated pages beside gap-tolerant superpages where 5.5 % of the frames are faulty (P §VII.D,
//! Fig. 10, claim P-C13).

use perforate_sim::{Machine, SimError};

use crate::laboratory::{self, Place, Runs, Setting, percent_more};
use crate::options::Options;
use crate::table::{self, Column, Mean, figure, gain};

const MACHINE: &str = "perforated-table2";
const FAULTY: &str = "uniform=5.5%";
const MEMORY_MEGABYTES: u64 = 8192;

/// The superpages; P names no mode.
const SUPERPAGES: &[&str] = &["gt-pde-4m", "gt-pde-2m", "gt-pde-1m", "p-gt-pde-4m", "p-gt-pde-2m"];

/// Random accesses as P has them, bundled traces of real programs, and programs of G.
const TRACES: &[&str] = &["bfs", "hpcc", "mummer", "redis", "stockfish", "xz"];
const SYNTHETIC: &[(&str, &str)] = &[
    ("random 2G", "random:size=2G"),
    ("canneal 1G", "canneal:size=1G"),
    ("dict 1G", "dict:size=1G"),
    ("mst 1G", "mst:size=1G"),
    ("spmv 1G", "spmv:size=1G"),
];

fn places() -> Result<Vec<Place>, SimError> {
    let trace = |name: &&str| {
        let path = format!("{}/../../traces/{name}.trace", env!("CARGO_MANIFEST_DIR"));
        ((*name).to_owned(), path)
    };
    let synthetic = SYNTHETIC.iter().map(|&(title, name)| (title.to_owned(), name.to_owned()));
    let place = |(title, workload)| {
        let memory = laboratory::memory(MEMORY_MEGABYTES << 20, Some(FAULTY))?;
        Ok(Place { title, workload, memory })
    };
    synthetic.chain(TRACES.iter().map(trace)).map(place).collect()
}

/// P §VII.D gives superpages walk caches of 32 entries, for levels 2 and 3.
fn settings(machine: &Machine) -> Vec<Setting> {
    let setting =
        |&scheme: &&'static str| Setting { label: scheme, scheme, machine: machine.clone() };
    let mut settings: Vec<Setting> = ["4k", "perforated", "ideal"].iter().map(setting).collect();
    let mut for_superpages = machine.clone();
    for_superpages.walk_cache.level3_entries = 32;
    for_superpages.walk_cache.level2_entries = 32;
    settings.extend(
        SUPERPAGES
            .iter()
            .map(|scheme| Setting { machine: for_superpages.clone(), ..setting(scheme) }),
    );
    settings
}

/// Runs and prints everything.
///
/// # Errors
/// The first run that went wrong.
pub fn print(options: &Options) -> Result<(), SimError> {
    let machine = Machine::load(MACHINE)?;
    let studies = laboratory::run("faults", places()?, &settings(&machine), options)?;
    println!(
        "\nP-C13, P Fig. 10: {FAULTY} faulty frames of {}GB, {MACHINE}, {} seeds, {} instructions;\n\
         superpages with walk caches of 32 entries. IPC over 4KB pages, % more; best: of all \
         gap-tolerant\nsuperpages (p-gt-pde-4m, p-gt-pde-2m too)",
        MEMORY_MEGABYTES >> 10,
        options.seeds,
        options.instructions
    );
    let heading = format!("{:<14}", "");
    let first = |_, study: &laboratory::Study| format!("{:<14}", study.place.title);
    let columns = [
        gain("perforated", "perforated", "4k"),
        gain("gt-pde-4m", "gt-pde-4m", "4k"),
        gain("gt-pde-2m", "gt-pde-2m", "4k"),
        gain("gt-pde-1m", "gt-pde-1m", "4k"),
        more("best", |runs| best(runs) / runs.get("4k").ipc()),
        gain("ideal", "ideal", "4k"),
    ];
    table::print(&studies, (&heading, first), &columns, 15);
    println!(
        "\nPerforated over the best and over single modes, % more IPC (P: 6.2 on average); look-ups \
         of bitmaps\nper 1000 instructions; share of memory that gt-pde-2m has in superpages, %"
    );
    let columns = [
        more("over best", |runs| runs.get("perforated").ipc() / best(runs)),
        gain("over gt-pde-2m", "perforated", "gt-pde-2m"),
        gain("over gt-pde-1m", "perforated", "gt-pde-1m"),
        figure("bitmaps", 1, |runs| runs.get("perforated").per_kilo_instruction("bitmap_lookups")),
        figure("share", 0, |runs| {
            runs.get("gt-pde-2m").ratio("superpage_bytes", "mapped_bytes") * 100.0
        }),
    ];
    table::print(&studies, (&heading, first), &columns, 18);
    Ok(())
}

fn more<'a>(heading: &'a str, ratio: impl Fn(&Runs) -> f64 + 'a) -> Column<'a> {
    let of = Box::new(move |runs: &Runs| percent_more(ratio(runs)));
    Column { heading, digits: 1, of, mean: Mean::OfPercentMore }
}

/// The best IPC of all superpages.
fn best(runs: &Runs) -> f64 {
    SUPERPAGES.iter().map(|label| runs.get(label).ipc()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::tests::runs;

    #[test]
    fn the_best_superpages_count() {
        let mut of = vec![("4k", 1.0), ("perforated", 2.4)];
        of.extend(
            SUPERPAGES.iter().zip([1.0, 1.5, 2.0, 1.25, 1.75]).map(|(label, ipc)| (*label, ipc)),
        );
        let runs = runs(&of);
        assert!((best(&runs) - 2.0).abs() < 1e-9);
        let column = more("", |runs| runs.get("perforated").ipc() / best(runs));
        assert!(((column.of)(&runs) - 20.0).abs() < 1e-9);
    }

    /// Superpages alone have the larger walk caches; every workload can be found.
    #[test]
    fn settings_and_places() {
        let machine = Machine::load(MACHINE).unwrap();
        for setting in settings(&machine) {
            let is_larger = setting.machine.walk_cache.level2_entries == 32;
            assert_eq!(is_larger, SUPERPAGES.contains(&setting.label), "{}", setting.label);
            assert_eq!(setting.machine == machine, !is_larger);
        }
        assert!(places().unwrap().len() >= 5);
    }
}
