//! What recording costs: the same program natively and in the emulator alone.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::CaptureError;
use crate::launch::{PROCESSOR, children_seconds};
use crate::program::{find_emulator, find_program};

/// What one run of a program took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunTime {
    /// Seconds from start to end.
    pub seconds: f64,
    /// Seconds of processor time, which hardly depend on what else runs.
    pub processor_seconds: f64,
}

/// What a program takes without recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// On the processor.
    pub native: RunTime,
    /// In the emulator without a plugin. What the program starts runs natively there.
    pub emulated: RunTime,
}

/// Runs a program twice, without its output.
///
/// # Errors
/// If the program or the emulator cannot be run.
pub fn measure_overhead(program: &[OsString]) -> Result<Overhead, CaptureError> {
    let line = find_program(program)?;
    let mut emulated = Command::new(find_emulator(None)?);
    emulated.args(["-cpu", PROCESSOR]);
    line.add_to(&mut emulated);
    Ok(Overhead { native: run(line.command())?, emulated: run(emulated)? })
}

fn run(mut command: Command) -> Result<RunTime, CaptureError> {
    let (started, before) = (Instant::now(), children_seconds());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.map_err(|error| CaptureError::system("running the program again", error))?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(RunTime { seconds, processor_seconds: children_seconds() - before })
}
