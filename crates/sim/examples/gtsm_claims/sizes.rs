//! GUPS of growing size (G Fig. 15, claim G-C10).

use perforate_sim::{Machine, SimError};

use crate::laboratory::{self, Place, Setting, Study};
use crate::options::Options;
use crate::spread::spread;
use crate::table::{self, figure, gain};
use crate::workloads::{FAULTY, MACHINE};

/// Sizes of the table in megabytes.
const SIZES: &[u64] = &[64, 256, 1024, 4096, 8192, 16_384, 65_536];

const SCHEMES: &[&str] = &["4k", "gt-pde-4m", "gt-pde-2m", "gt-pde-1m", "p-gt-pde-4m", "ideal"];

/// Runs and prints everything.
///
/// # Errors
/// The first run that went wrong.
pub fn print(options: &Options) -> Result<(), SimError> {
    let machine = Machine::load(MACHINE)?;
    let sizes = SIZES.iter().filter(|&&megabytes| megabytes << 20 <= options.largest_bytes);
    // The largest first: they take longest.
    let places: Result<Vec<Place>, SimError> = sizes.rev().map(|&size| place(size)).collect();
    let setting =
        |&scheme: &&'static str| Setting { label: scheme, scheme, machine: machine.clone() };
    let settings: Vec<Setting> = SCHEMES.iter().map(setting).collect();
    let mut studies = laboratory::run("sizes", places?, &settings, options)?;
    studies.reverse();
    println!(
        "\nG-C10, Fig. 15: GUPS on {MACHINE} by size, {} seeds, {} instructions, {FAULTY} frames \
         retired:\nIPC of 4KB pages, and % more of the others",
        options.seeds, options.instructions
    );
    let columns = [
        figure("IPC of 4k", 2, |runs| runs.get("4k").ipc()),
        gain("gt-pde-4m", "gt-pde-4m", "4k"),
        gain("gt-pde-2m", "gt-pde-2m", "4k"),
        gain("gt-pde-1m", "gt-pde-1m", "4k"),
        gain("p-gt-pde-4m", "p-gt-pde-4m", "4k"),
        gain("ideal", "ideal", "4k"),
    ];
    let columns = columns.map(|column| table::Column { mean: table::Mean::None, ..column });
    let heading = format!("{:<6}", "size");
    let first = |_, study: &Study| format!("{:<6}", study.place.title);
    table::print(&studies, (&heading, first), &columns, 16);
    print_claims(&studies);
    Ok(())
}

fn place(megabytes: u64) -> Result<Place, SimError> {
    let title =
        if megabytes < 1024 { format!("{megabytes}M") } else { format!("{}G", megabytes >> 10) };
    Ok(Place {
        workload: format!("gups:size={title}"),
        title,
        memory: laboratory::memory((5 * megabytes / 2 + 1024) << 20, Some(FAULTY))?,
    })
}

fn print_claims(studies: &[Study]) {
    let of = |title: &str| studies.iter().find(|study| study.place.title == title);
    println!("\n{:<58}{:>7}{:>20}", "", "G", "ours");
    let line = |what: &str, paper: &str, figures: &[Option<f64>]| {
        println!("{what:<58}{paper:>7}{:>20}", spread(figures, 1));
    };
    if let (Some(small), Some(large)) = (of("64M"), of("8G")) {
        let gains = large.figures(|runs| runs.gain("gt-pde-4m", "4k"));
        line("8G: gt-pde-4m over 4k, % more", "63.4", &gains);
        line("64M to 8G: what 4k loses of its IPC, %", "≥ 40", &losses(small, large));
    }
    if let Some(largest) = of("64G") {
        let gains = largest.figures(|runs| runs.gain("gt-pde-4m", "gt-pde-1m"));
        line("64G: gt-pde-4m over gt-pde-1m, % more", "16.6", &gains);
    }
}

/// By seed, percent of the IPC of 4KB pages at the small size that is lost at the large one.
fn losses(small: &Study, large: &Study) -> Vec<Option<f64>> {
    let pairs = small.seeds.iter().zip(&large.seeds);
    pairs
        .map(|(small, large)| Some((1.0 - large.get("4k").ipc() / small.get("4k").ipc()) * 100.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::tests::runs;

    #[test]
    fn losses_worked_by_hand() {
        let study = |ipc| Study { place: place(64).unwrap(), seeds: vec![runs(&[("4k", ipc)])] };
        let losses = losses(&study(0.8), &study(0.4));
        assert!((losses[0].unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(place(2048).unwrap().workload, "gups:size=2G");
    }
}
