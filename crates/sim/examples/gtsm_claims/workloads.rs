//! G's nine workloads: Table 5, Fig. 11 to 13 and 16 to 18 (claims G-C7 to G-C9, G-C11, G-C12).

use perforate_sim::{Machine, SimError};

use crate::laboratory::{self, Figures, Place, Runs, Setting, Study};
use crate::options::Options;
use crate::spread::median;
use crate::table::{self, Column, figure, gain, percent_of};

/// G's machine.
pub const MACHINE: &str = "gtsm-table4";

/// G does not say how many frames are retired in Fig. 13; with so many all superpages can be had.
pub const FAULTY: &str = "uniform=1%";

/// A row of G Table 5, and what Fig. 13's text says of it.
struct Workload {
    name: &'static str,
    megabytes: u64,
    reads: f64,
    misses_4k: f64,
    misses_2m: f64,
    /// IPC over 4KB pages, in percent more, from and to.
    gains: &'static str,
}

const fn row(
    (name, megabytes): (&'static str, u64),
    reads: f64,
    (misses_4k, misses_2m): (f64, f64),
    gains: &'static str,
) -> Workload {
    Workload { name, megabytes, reads, misses_4k, misses_2m, gains }
}

const GUPS_MEGABYTES: u64 = 4096;

/// G Table 5 with its "total" sizes; §5.2 for the gains.
const WORKLOADS: &[Workload] = &[
    row(("gups", GUPS_MEGABYTES), 17.9, (17.9, 13.4), "20–60"),
    row(("canneal", 4096), 24.4, (21.2, 2.9), "20–60"),
    row(("dict", 6656), 23.1, (21.4, 0.0), "20–60"),
    row(("rmat-bfs", 7577), 93.2, (88.1, 4.4), "20–60"),
    row(("set-cover", 7987), 60.4, (49.4, 0.0), "2–8"),
    row(("mst", 13_312), 50.0, (43.2, 0.0), "2–8"),
    row(("spmv", 7475), 128.7, (113.5, 0.0), "2–8"),
    row(("matching", 6348), 119.1, (109.7, 0.0), "2–8"),
    row(("mis", 7475), 144.4, (124.3, 0.0), "2.6"),
];

impl Workload {
    /// GUPS keeps no contents on this computer and has G's size; the others have what is allowed.
    fn megabytes(&self, options: &Options) -> u64 {
        match self.megabytes {
            GUPS_MEGABYTES if self.name == "gups" => GUPS_MEGABYTES,
            megabytes => megabytes.min(options.size_bytes >> 20),
        }
    }

    fn place(&self, options: &Options) -> Result<Place, SimError> {
        let megabytes = self.megabytes(options);
        Ok(Place {
            title: self.name.into(),
            workload: format!("{}:size={megabytes}M", self.name),
            memory: laboratory::memory((3 * megabytes + 1024) << 20, Some(FAULTY))?,
        })
    }
}

/// Schemes on the machine as it is.
const SCHEMES: &[&str] = &[
    "4k",
    "ideal",
    "gt-pde-4m",
    "gt-pde-2m",
    "gt-pde-1m",
    "p-gt-pde-4m",
    "p-gt-pde-2m",
    "4k-colt-8",
    "4k-colt-32",
];

/// Entries of the PDE cache besides 32.
const PDE_CACHES: &[(&str, usize)] = &[("64", 64), ("128", 128), ("1024", 1024)];

const SIX_CYCLES: &str = "6 cycles";

/// Schemes with a single walker, and their labels.
const ONE_WALKER: &[(&str, &str)] =
    &[("4k, 1", "4k"), ("gt-pde-4m, 1", "gt-pde-4m"), ("ideal, 1", "ideal")];

fn settings(machine: &Machine) -> Vec<Setting> {
    let setting = |label, scheme, change: &dyn Fn(&mut Machine)| {
        let mut machine = machine.clone();
        change(&mut machine);
        Setting { label, scheme, machine }
    };
    let mut settings: Vec<Setting> =
        SCHEMES.iter().map(|scheme| setting(scheme, scheme, &|_| {})).collect();
    settings.push(setting(SIX_CYCLES, "gt-pde-4m", &|machine| machine.walker.selection_cycles = 6));
    settings.extend(PDE_CACHES.iter().map(|&(label, entries)| {
        setting(label, "gt-pde-4m", &move |machine| machine.walk_cache.level2_entries = entries)
    }));
    settings.extend(
        ONE_WALKER
            .iter()
            .map(|&(label, scheme)| setting(label, scheme, &|machine| machine.walker.walkers = 1)),
    );
    settings
}

/// Runs and prints everything.
///
/// # Errors
/// The first run that went wrong.
pub fn print(options: &Options) -> Result<(), SimError> {
    let machine = Machine::load(MACHINE)?;
    let places: Result<Vec<Place>, SimError> =
        WORKLOADS.iter().map(|workload| workload.place(options)).collect();
    let studies = laboratory::run("workloads", places?, &settings(&machine), options)?;
    println!(
        "G's workloads on {MACHINE}, {} seeds, {} instructions, {FAULTY} frames retired;\n\
         least–median–greatest of the seeds",
        options.seeds, options.instructions
    );
    print_table5(&studies, options);
    print_walks(&studies);
    print_speed(&studies);
    print_sensitivity(&studies);
    Ok(())
}

fn print_table5(studies: &[Study], options: &Options) {
    println!(
        "\nG-C7, Table 5: per 1000 instructions, memory reads (here misses of the last cache; G's are \
         hardly\nmore than TLB misses, so not all loads) and L2 TLB misses with 4KB and 2MB pages"
    );
    let first = |index: usize, study: &Study| {
        let workload: &Workload = &WORKLOADS[index];
        let size = format!("{:.1}G", workload.megabytes(options) as f64 / 1024.0);
        format!(
            "{:<10}{size:>6}{:>9.1}{:>7.1}{:>6.1}",
            study.place.title, workload.reads, workload.misses_4k, workload.misses_2m
        )
    };
    let heading = format!("{:<10}{:>6}{:>9}{:>7}{:>6}", "", "size", "G: reads", "4KB", "2MB");
    let columns = [
        figure("loads", 1, |runs| runs.get("4k").per_kilo_instruction("loads")),
        figure("LLC misses", 1, |runs| runs.get("4k").counter("llc_mpki")),
        figure("4KB misses", 1, |runs| runs.get("4k").counter("l2_tlb_mpki")),
        figure("2MB misses", 1, |runs| runs.get("ideal").counter("l2_tlb_mpki")),
    ];
    table::print(studies, (&heading, first), &columns, 16);
}

/// Cycles of a walk per miss of the second-level TLB, waiting for a walker left out.
fn penalty(run: &Figures) -> f64 {
    run.ratio("walk_cycles", "l2_tlb_misses")
}

fn print_walks(studies: &[Study]) {
    println!(
        "\nFig. 11, 12: where reads of 4KB-page walks are served, %; cycles of a walk per miss. \
         G: over 10 %\nof PTEs from memory for the first four, of mis 90 % from the L2; \
         GT-PDE saves the first four 40–160 cycles"
    );
    let served =
        |name: &'static str| move |runs: &Runs| runs.get("4k").ratio(name, "walker_reads") * 100.0;
    let columns = [
        figure("L2", 0, served("walker_reads_from_l2")),
        figure("LLC", 0, served("walker_reads_from_llc")),
        figure("memory", 0, served("walker_reads_from_memory")),
        figure("4k", 0, |runs| penalty(runs.get("4k"))),
        figure("gt-pde-4m", 0, |runs| penalty(runs.get("gt-pde-4m"))),
        figure("saved", 0, |runs| penalty(runs.get("4k")) - penalty(runs.get("gt-pde-4m"))),
    ];
    let heading = format!("{:<10}", "");
    table::print(studies, (&heading, |_, study| name(study)), &columns, 14);
}

fn name(study: &Study) -> String {
    format!("{:<10}", study.place.title)
}

fn print_speed(studies: &[Study]) {
    println!("\nG-C9, Fig. 13: IPC over 4KB pages, % more; and superpages' share of memory, %");
    let share =
        |runs: &Runs| runs.get("gt-pde-4m").ratio("superpage_bytes", "mapped_bytes") * 100.0;
    let columns = [
        gain("gt-pde-4m", "gt-pde-4m", "4k"),
        gain("gt-pde-2m", "gt-pde-2m", "4k"),
        gain("gt-pde-1m", "gt-pde-1m", "4k"),
        gain("p-gt-pde-4m", "p-gt-pde-4m", "4k"),
        gain("p-gt-pde-2m", "p-gt-pde-2m", "4k"),
        figure("share 4m", 0, share),
    ];
    let first = |index: usize, study: &Study| {
        let workload: &Workload = &WORKLOADS[index];
        format!("{:<10}{:>7}", study.place.title, workload.gains)
    };
    let heading = format!("{:<10}{:>7}", "", "G");
    table::print(studies, (&heading, first), &columns, 15);

    println!(
        "\nG-C8, Fig. 13: % of the IPC of ideal 2MB pages; G: gt-pde-4m 96.8 on average, the others \
         alike.\nBeside it gains over 4KB pages, %, of gt-pde-4m and ideal if there is a single page \
         walker"
    );
    let columns = [
        percent_of("gt-pde-4m", "gt-pde-4m", "ideal"),
        percent_of("gt-pde-2m", "gt-pde-2m", "ideal"),
        percent_of("gt-pde-1m", "gt-pde-1m", "ideal"),
        gain("1 walker: 4m", "gt-pde-4m, 1", "4k, 1"),
        gain("ideal", "ideal, 1", "4k, 1"),
    ];
    let heading = format!("{:<14}", "");
    table::print(studies, (&heading, |_, study| format!("{:<14}", name(study))), &columns, 17);
}

fn print_sensitivity(studies: &[Study]) {
    println!(
        "\nG-C8, Fig. 16: gt-pde-4m with 6 cycles of selection, % slower than with 3 (G: less than \
         1).\n\
         G-C12, Fig. 17: with a PDE cache of so many entries over 32 (G: at most about 2 % faster on \
         average).\nG-C11, Fig. 18: 4KB pages with coalescing over without (G: virtually nothing). \
         % more IPC"
    );
    let slower = |runs: &Runs| (1.0 - runs.speedup(SIX_CYCLES, "gt-pde-4m")) * 100.0;
    let mut columns = vec![figure("6 cycles", 2, slower)];
    columns.extend(PDE_CACHES.iter().map(|&(label, _)| gain(label, label, "gt-pde-4m")));
    columns.push(gain("colt-8", "4k-colt-8", "4k"));
    columns.push(gain("colt-32", "4k-colt-32", "4k"));
    let columns: Vec<Column<'_>> =
        columns.into_iter().map(|column| Column { digits: 2, ..column }).collect();
    let heading = format!("{:<14}", "");
    table::print(studies, (&heading, |_, study| format!("{:<14}", name(study))), &columns, 15);
    let all: Vec<f64> = studies.iter().filter_map(|study| median(&study.figures(slower))).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    println!("6 cycles: {mean:.2} % slower on average");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 5 has nine rows, every setting its own name.
    #[test]
    fn workloads_and_settings() {
        let options = Options::default();
        assert_eq!(WORKLOADS.len(), 9);
        assert_eq!(WORKLOADS[0].megabytes(&options), 4096);
        assert!(WORKLOADS[1..].iter().all(|workload| workload.megabytes(&options) == 2048));
        for workload in WORKLOADS {
            workload.place(&options).unwrap();
        }
        let machine = Machine::load(MACHINE).unwrap();
        let settings = settings(&machine);
        let mut labels: Vec<&str> = settings.iter().map(|setting| setting.label).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), settings.len());
        let of = |label| &settings.iter().find(|setting| setting.label == label).unwrap().machine;
        assert_eq!(of(SIX_CYCLES).walker.selection_cycles, 6);
        assert_eq!(of("128").walk_cache.level2_entries, 128);
        assert_eq!(of("ideal, 1").walker.walkers, 1);
        assert_eq!(*of("4k"), machine);
        for setting in &settings {
            setting.machine.mmu().validate().unwrap();
        }
    }
}
