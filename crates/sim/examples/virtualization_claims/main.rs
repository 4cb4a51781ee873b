//! What papers D and P claim of virtualized translation, beside what we get:
//! `cargo run --release -p perforate-sim --example virtualization_claims [-- OPTIONS]`, `--help` for
//! the options. Nothing here is fitted.

mod claims;
mod laboratory;
mod options;
mod overheads;
#[path = "../parallel_runs/mod.rs"]
mod parallel_runs;
mod perforated;
#[path = "../spread/mod.rs"]
mod spread;
mod table;
mod walks;
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
    if options.wants(Part::Walks) {
        walks::print()?;
    }
    if options.wants(Part::Overheads) {
        let studies = overheads::print(options)?;
        claims::print(&studies);
    }
    if options.wants(Part::Perforated) {
        perforated::print(options)?;
    }
    Ok(())
}
