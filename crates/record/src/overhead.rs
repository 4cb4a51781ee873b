//! Cost of recording: run times of a program natively and in the emulator without the plugin.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::RecordError;
use crate::emulator::launch::{PROCESSOR, children_seconds, plain_emulator};
use crate::emulator::program::{find_emulator, find_program};

/// Run time of a program from start to end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunTime {
    /// Elapsed (wall-clock) time in seconds.
    pub seconds: f64,
    /// Processor time in seconds, which hardly depends on the machine's load.
    pub processor_seconds: f64,
}

/// Run times of a program without recording, with which those of the recorder are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Run time of the program on the processor itself.
    pub native: RunTime,
    /// Run time of the program in the emulator without the plugin. Programs that it executes run natively.
    pub emulated: RunTime,
}

/// Runs a program natively and in the emulator, and discards its output.
///
/// # Errors
/// If the program or the emulator cannot be run.
pub fn measure_overhead(program: &[OsString]) -> Result<Overhead, RecordError> {
    let line = find_program(program)?;
    let mut emulated = plain_emulator(&find_emulator(None)?);
    emulated.args(["-cpu", PROCESSOR]);
    line.add_to(&mut emulated);
    Ok(Overhead { native: run(line.command())?, emulated: run(emulated)? })
}

fn run(mut command: Command) -> Result<RunTime, RecordError> {
    let (started, before) = (Instant::now(), children_seconds());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.map_err(RecordError::system("running the program again"))?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(RunTime { seconds, processor_seconds: children_seconds() - before })
}
