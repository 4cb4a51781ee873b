//! A user's program: timed with and without large pages, recorded, simulated.

use std::ffi::OsString;

use perforate_capture::native::{
    LargePageSettings, Paging, ProgramTime, large_share_of_program, time_program,
};
use perforate_capture::{RecordOptions, Selection};
use perforate_sim::{Progress, RunResult, Workload};

use super::measure::order;
use super::predict::{Predicted, Prediction};
use super::spread::Spread;
use crate::failure::Failure;
use crate::output::Bar;
use crate::record::TemporaryTrace;

/// The part of the program that is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub skip: u64,
    pub instructions: u64,
}

/// What the program took natively.
pub struct ProgramMeasurement {
    /// Time in user mode, without large pages ÷ with them, one value per block.
    pub user_ratios: Vec<f64>,
    /// Time that passed, likewise.
    pub wall_ratios: Vec<f64>,
    /// Median time in user mode with large pages, in seconds.
    pub user_seconds: f64,
    /// Share of resident memory in 2MB pages at its largest, with large pages on.
    pub large_share: f64,
    /// Largest resident memory, in bytes.
    pub resident_bytes: u64,
    pub notes: Vec<String>,
}

/// Times the program in blocks of four runs, with large pages off and on in turn.
pub fn measure(
    program: &[OsString],
    blocks: u32,
    processor: usize,
) -> Result<ProgramMeasurement, Failure> {
    let bar = Bar::of("measuring the program", "runs");
    let largest = large_share_of_program(program, Paging::Large, processor)?;
    let (mut user_ratios, mut wall_ratios) = (Vec::new(), Vec::new());
    let (mut seconds, mut codes) = (Vec::new(), Vec::new());
    let mut done = 0;
    for block in 0..blocks {
        let (mut user, mut wall) = ([0.0; 2], [0.0; 2]);
        for is_large in order(block) {
            let paging = if is_large { Paging::Large } else { Paging::Small };
            let time = time_program(program, paging, processor)?;
            if time.exit_code.is_none() {
                return Err(Failure::Machine {
                    action: "a signal ended the program while it was measured",
                    source: std::io::ErrorKind::Interrupted.into(),
                });
            }
            user[usize::from(is_large)] += time.user_nanoseconds as f64;
            wall[usize::from(is_large)] += time.wall_nanoseconds as f64;
            if is_large {
                seconds.push(time.user_nanoseconds as f64 / 1e9);
            }
            codes.push(time.exit_code);
            done += 1;
            bar.show(Progress { done, total: Some(u64::from(blocks) * 4) });
        }
        user_ratios.push(user[0] / user[1]);
        wall_ratios.push(wall[0] / wall[1]);
    }
    let mut notes = Vec::new();
    let user_seconds = Spread::of(&seconds).map_or(0.0, |spread| spread.median);
    notes.extend(remark_on_codes(&codes));
    notes.extend(remark_on_pages(largest.large_share()));
    if user_seconds < 0.1 {
        notes.push(format!(
            "the program takes {:.0} ms in user mode; the kernel counts in steps of a few \
             milliseconds, so give it more to do",
            user_seconds * 1000.0
        ));
    }
    let (large_share, resident_bytes) = (largest.large_share(), largest.resident_bytes);
    Ok(ProgramMeasurement {
        user_ratios,
        wall_ratios,
        user_seconds,
        large_share,
        resident_bytes,
        notes,
    })
}

fn remark_on_codes(codes: &[Option<i32>]) -> Option<String> {
    let failed = codes.iter().filter(|code| **code != Some(0)).count();
    (failed > 0).then(|| format!("{failed} of {} runs of the program failed", codes.len()))
}

/// What to know where not all memory was in large pages when they were on.
fn remark_on_pages(large_share: f64) -> Option<String> {
    let percent = 100.0 * large_share;
    let enabled = LargePageSettings::now().get("enabled").unwrap_or("unknown").to_owned();
    (large_share < 0.5).then(|| {
        format!(
            "with large pages on, {percent:.0} % of the program's memory were in them: \
             transparent_hugepage/enabled is \"{enabled}\", and where that is not \"always\" only \
             memory that asks for them gets them. Malloc of glibc was told to ask \
             (glibc.malloc.hugetlb=1, glibc 2.35); other allocators and static programs do not \
             hear it. The prediction is for all memory in large pages, so the two do not measure \
             the same"
        )
    })
}

/// Records the sample and simulates it under each assumption.
pub fn predict(
    prediction: &Prediction<'_>,
    program: &[OsString],
    sample: Sample,
    resident_bytes: u64,
) -> Result<(Vec<Predicted>, Vec<RunResult>), Failure> {
    let mut trace = TemporaryTrace::new("program.trace")?;
    let options = RecordOptions {
        selection: Selection {
            skip: sample.skip,
            instructions: Some(sample.instructions),
            ..Selection::default()
        },
        prints_to_stderr: true,
        stop: trace.stop(),
        ..RecordOptions::new(trace.path(), program.to_vec())
    };
    let bar = Bar::of("recording the program", "instructions");
    perforate_capture::record(options, &mut |progress| {
        bar.show(Progress { done: progress.instructions, total: Some(sample.instructions) });
    })?;
    drop(bar);
    let workload =
        Workload { name: trace.path().to_string_lossy().into_owned(), skip: 0, instructions: None };
    let bar = Bar::instructions("simulating the program");
    // At least 2GB, as a program's address space is larger than what was resident.
    let results = prediction.simulate(workload, resident_bytes.max(1 << 30), &mut |progress| {
        bar.show(progress);
        trace.end_if_interrupted();
    })?;
    let instructions = |result: &RunResult| result.instructions as f64;
    Ok((prediction.times(&results, instructions), results))
}

/// The processor to measure on where none is named.
pub fn default_processor() -> usize {
    ProgramTime::default_processor()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_small_pages_are_told() {
        assert_eq!(remark_on_codes(&[Some(0), Some(0)]), None);
        let remark = remark_on_codes(&[Some(0), Some(1), None]).unwrap();
        assert!(remark.starts_with("2 of 3 runs"), "{remark}");
        assert_eq!(remark_on_pages(0.9), None);
        assert!(remark_on_pages(0.02).unwrap().starts_with("with large pages on, 2 %"));
    }
}
