//! What papers G and P claim of gap-tolerant superpages from simulation, beside what we get:
//! `cargo run --release -p perforate-sim --example gtsm_claims [-- OPTIONS]`, `--help` for the
//! options. Nothing here is fitted. G's claims about capacity are experiments (`perforate
//! experiment run`).

mod faults;
mod laboratory;
mod options;
#[path = "../parallel_runs/mod.rs"]
mod parallel_runs;
mod sizes;
#[path = "../spread/mod.rs"]
mod spread;
mod table;
mod workloads;

use std::process::ExitCode;

use options::{Options, Part};
use perforate_sim::SimError;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => return fail(&problem, 2),
    };
    if options.help {
        println!("{}", options::HELP);
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string(), 1),
    }
}

fn fail(problem: &str, code: u8) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(code)
}

fn run(options: &Options) -> Result<(), SimError> {
    if options.is_default() {
        eprintln!("All of it takes about {} minutes on two idle processors.", options::MINUTES);
    }
    if options.wants(Part::Workloads) {
        workloads::print(options)?;
    }
    if options.wants(Part::Sizes) {
        sizes::print(options)?;
    }
    if options.wants(Part::Faults) {
        faults::print(options)?;
    }
    Ok(())
}
