//! What recording costs: the same program natively and in the emulator alone.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::CaptureError;
use crate::launch::PROCESSOR;
use crate::program::{find_emulator, find_program};

/// Seconds of a program, without recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// On the processor.
    pub native_seconds: f64,
    /// In the emulator without a plugin. What the program starts runs natively there.
    pub emulated_seconds: f64,
}

/// Runs a program twice, without its output.
///
/// # Errors
/// If the program or the emulator cannot be run.
pub fn measure_overhead(program: &[OsString]) -> Result<Overhead, CaptureError> {
    let name = program.first().ok_or(CaptureError::NoProgram)?;
    let path = find_program(name)?;
    let mut native = Command::new(&path);
    native.args(&program[1..]);
    let mut emulated = Command::new(find_emulator(None)?);
    emulated.args(["-cpu", PROCESSOR, "-0"]).arg(name).arg(&path).args(&program[1..]);
    Ok(Overhead { native_seconds: seconds(native)?, emulated_seconds: seconds(emulated)? })
}

fn seconds(mut command: Command) -> Result<f64, CaptureError> {
    let started = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.map_err(|error| CaptureError::system("running the program again", error))?;
    Ok(started.elapsed().as_secs_f64())
}
