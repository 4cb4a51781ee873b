//! What the main functions of case studies share.

use std::process::ExitCode;

use perforate_sim::{Machine, SimError};

/// Where a case study's options say what its main function asks.
pub struct Fields<O> {
    /// Whether only help is wanted.
    pub wants_help: fn(&O) -> bool,
    /// Name or file of the machine.
    pub machine: fn(&O) -> &str,
}

/// Prints help or runs a study with the options read, if they could be: exit code 2 for wrong use,
/// 1 for a failure.
pub fn run<O>(
    options: Result<O, String>,
    help: &str,
    fields: &Fields<O>,
    study: impl FnOnce(&O, &Machine) -> Result<(), SimError>,
) -> ExitCode {
    let options = match options {
        Ok(options) => options,
        Err(problem) => return fail(&problem, 2),
    };
    if (fields.wants_help)(&options) {
        println!("{help}");
        return ExitCode::SUCCESS;
    }
    let machine = match Machine::load((fields.machine)(&options)) {
        Ok(machine) => machine,
        Err(error) => return fail(&error.to_string(), 2),
    };
    match study(&options, &machine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string(), 1),
    }
}

fn fail(problem: &str, code: u8) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(code)
}
