//! Entry point of the `perforate` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(perforate_cli::main(std::env::args_os().collect()))
}
