//! A user's program: timed with and without 2MB pages, recorded, and simulated.

use std::ffi::OsString;

use perforate_record::{Ending, RecordOptions, TemporaryTrace};
use perforate_sim::{Progress, RunResult, Workload};

use super::ProgramSample;
use super::limits::{PROGRAM_LARGE_SHARE, SHORT_PROGRAM_SECONDS};
use super::measure::{Effort, order};
use super::predict::{Both, Predictor, record_once};
use super::spread::Spread;
use crate::benchmark::Paging;
use crate::counters::{Rates, Readings};
use crate::machine::LargePageSettings;
use crate::program::{largest_residency, time_program};
use crate::{HostError, Reporter};

/// Native measurements of a program. Pairs have the value without 2MB pages first, then the value
/// with 2MB pages.
pub(super) struct ProgramMeasurement {
    /// Measured user time without 2MB pages ÷ user time with 2MB pages, one value per block of four
    /// runs.
    pub user_ratios: Vec<f64>,
    /// Measured elapsed time without 2MB pages ÷ elapsed time with 2MB pages, one value per block
    /// of four runs.
    pub wall_ratios: Vec<f64>,
    /// Seconds of user time without and with 2MB pages, one value per run.
    pub user_seconds: [Vec<f64>; 2],
    /// Readings of hardware counters without and with 2MB pages, summed over all runs.
    pub counters: [Option<Readings>; 2],
    /// Share of the program's resident memory in 2MB pages, in the sample with the most resident
    /// memory, 0–1.
    pub large_share: f64,
    /// Largest resident memory of the program in bytes.
    pub resident_bytes: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Times the program in blocks of four runs, alternately without and with 2MB pages.
pub(super) fn measure(
    program: &[OsString],
    effort: Effort,
    processor: usize,
    reporter: &mut dyn Reporter,
) -> Result<ProgramMeasurement, HostError> {
    reporter.stage("measuring the program", "runs");
    let largest = largest_residency(program, Paging::Large, processor)?;
    let blocks = effort.blocks * effort.rounds;
    let (mut user_ratios, mut wall_ratios) = (Vec::new(), Vec::new());
    let (mut seconds, mut codes) = ([Vec::new(), Vec::new()], Vec::new());
    let mut counters: [Option<Readings>; 2] = [None; 2];
    for block in 0..blocks {
        let (mut user, mut wall) = ([0.0; 2], [0.0; 2]);
        for is_large in order(block) {
            let paging = if is_large { Paging::Large } else { Paging::Small };
            let time = time_program(program, paging, processor)?;
            codes.push(time.exit_code.ok_or(HostError::ProgramKilled)?);
            let which = usize::from(is_large);
            user[which] += time.user.as_secs_f64();
            wall[which] += time.wall.as_secs_f64();
            seconds[which].push(time.user.as_secs_f64());
            let counted = counters[which];
            counters[which] = Some(counted.map_or(time.counters, |sum| sum.plus(time.counters)));
            let (done, total) = (codes.len() as u64, Some(u64::from(blocks) * 4));
            reporter.progress(Progress { done, total });
        }
        user_ratios.push(user[0] / user[1]);
        wall_ratios.push(wall[0] / wall[1]);
    }
    let shortest = Spread::of(&seconds[1]).map_or(0.0, |spread| spread.median);
    let remarks = [
        remark_on_codes(&codes),
        remark_on_pages(largest.large_share()),
        remark_on_length(shortest),
    ];
    Ok(ProgramMeasurement {
        user_ratios,
        wall_ratios,
        user_seconds: seconds,
        counters,
        large_share: largest.large_share(),
        resident_bytes: largest.resident_bytes,
        notes: remarks.into_iter().flatten().collect(),
    })
}

impl ProgramMeasurement {
    /// True if enough of the program's memory was in 2MB pages when they were enabled.
    pub fn has_large_pages(&self) -> bool {
        self.large_share >= PROGRAM_LARGE_SHARE
    }

    /// Spreads of the program's user time in seconds, without and with 2MB pages.
    pub fn seconds(&self) -> Option<[Spread; 2]> {
        let [small, large] = &self.user_seconds;
        Some([Spread::of(small)?, Spread::of(large)?])
    }

    /// Number of instructions of one run by hardware counters, without and with 2MB pages.
    pub fn instructions(&self) -> Option<[f64; 2]> {
        let of = |which: usize| {
            let all = self.counters[which]?.instructions?;
            Some(all as f64 / self.user_seconds[which].len() as f64)
        };
        Some([of(0)?, of(1)?])
    }

    /// Readings of hardware counters per 1,000 instructions; `None` if instructions were not counted.
    pub fn rates(&self) -> Option<[Rates; 2]> {
        let of = |readings: Option<Readings>| {
            let readings = readings?;
            Some(readings.per(readings.instructions? as f64 / 1000.0))
        };
        Some([of(self.counters[0])?, of(self.counters[1])?])
    }
}

pub(super) fn remark_on_codes(codes: &[i32]) -> Option<String> {
    let failed = codes.iter().filter(|code| **code != 0).count();
    (failed > 0).then(|| format!("{failed} of {} runs of the program failed", codes.len()))
}

pub(super) fn remark_on_length(user_seconds: f64) -> Option<String> {
    (user_seconds < SHORT_PROGRAM_SECONDS).then(|| {
        format!(
            "the program takes {:.0} ms in user mode; the kernel counts in steps of a few \
             milliseconds, so give it more to do",
            user_seconds * 1000.0
        )
    })
}

fn remark_on_pages(large_share: f64) -> Option<String> {
    let percent = 100.0 * large_share;
    let enabled = LargePageSettings::now().get("enabled").unwrap_or("unknown").to_owned();
    (large_share < PROGRAM_LARGE_SHARE).then(|| {
        format!(
            "with large pages on, {percent:.0} % of the program's memory were in them: \
             transparent_hugepage/enabled is \"{enabled}\", and where that is not \"always\" only \
             memory that asks for them gets them. Malloc of glibc was told to ask \
             (glibc.malloc.hugetlb=1, glibc 2.35); other allocators and static programs do not \
             hear it. The prediction is for all memory in large pages, so that the effect is not \
             judged"
        )
    })
}

/// Prediction of a program's times and counters.
pub(super) struct ProgramPrediction {
    /// Simulated times and counters per instruction, one pair per assumption about the host's page tables.
    pub both: Vec<Both>,
    /// Number of instructions of the whole program; `None` if only a part was recorded.
    pub instructions: Option<u64>,
    /// Results of the simulations.
    pub results: Vec<RunResult>,
}

/// Records the chosen part of the program and simulates the recording under each assumption.
pub(super) fn predict(
    predictor: &Predictor<'_>,
    sample: &ProgramSample,
    resident_bytes: u64,
    reporter: &mut dyn Reporter,
) -> Result<ProgramPrediction, HostError> {
    let mut trace = TemporaryTrace::new("program.trace")?;
    let options =
        RecordOptions { selection: sample.selection(), ..trace.options(sample.words.clone()) };
    let summary = record_once(options, "the program", reporter)?;
    let is_whole = sample.skip == 0 && matches!(summary.ending, Ending::Exited(_));
    let instructions = is_whole.then_some(summary.instructions + summary.instructions_between);
    let name = trace.path().to_string_lossy().into_owned();
    let workload = Workload::named(name);
    reporter.stage("simulating the program", "instructions");
    // At least 1GB, which the predictor doubles: a program's address space is larger than its resident
    // memory.
    let results = predictor.simulate(workload, resident_bytes.max(1 << 30), &mut |progress| {
        reporter.progress(progress);
        trace.end_if_interrupted();
    })?;
    let both = predictor.simulated(&results, |result| result.instructions as f64);
    Ok(ProgramPrediction { both, instructions, results })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::predict::Simulated;
    use crate::validate::{Assumption, RowOutcome, Verdict};

    #[test]
    fn the_effect_is_not_judged_without_2mb_pages() {
        let verdict = |large_share| {
            let measured = ProgramMeasurement {
                user_ratios: vec![1.2],
                wall_ratios: vec![1.2],
                user_seconds: [vec![1.2], vec![1.0]],
                counters: [None; 2],
                large_share,
                resident_bytes: 1 << 30,
                notes: Vec::new(),
            };
            let simulated = [1.2, 1.0].map(|ns| Simulated { ns, ..Simulated::NOTHING });
            let predicted = ProgramPrediction {
                both: vec![simulated],
                instructions: Some(1_000_000_000),
                results: Vec::new(),
            };
            let assumptions = [Assumption { name: "a", schemes: ["4k", "thp"] }];
            RowOutcome::of_program("x".into(), measured, &assumptions, predicted).predicted[0]
        };
        assert_eq!(verdict(0.9).verdict, Some(Verdict::Agrees));
        assert_eq!(verdict(0.1).verdict, None);
        assert_eq!(verdict(0.1).is_time_near(), Some(true), "times are judged all the same");
    }

    #[test]
    fn failures_and_small_pages_are_remarked() {
        assert_eq!(remark_on_codes(&[0, 0]), None);
        let remark = remark_on_codes(&[0, 1, 2]).unwrap();
        assert!(remark.starts_with("2 of 3 runs"), "{remark}");
        assert_eq!(remark_on_pages(0.9), None);
        assert!(remark_on_pages(0.02).unwrap().starts_with("with large pages on, 2 %"));
        assert_eq!(remark_on_length(0.2), None);
        assert!(remark_on_length(0.004).unwrap().contains("takes 4 ms"));
    }

    struct Counted(u64, Option<u64>);

    impl Reporter for Counted {
        fn stage(&mut self, _: &str, _: &'static str) {}

        fn progress(&mut self, progress: Progress) {
            (self.0, self.1) = (progress.done, progress.total);
        }
    }

    #[test]
    fn blocks_of_all_rounds_are_measured() {
        let effort = Effort { rounds: 2, blocks: 1, run_nanoseconds: 0 };
        let processor = crate::process_settings::last_allowed_processor();
        let mut counted = Counted(0, None);
        let found = measure(&["true".into()], effort, processor, &mut counted).unwrap();
        assert_eq!((found.user_ratios.len(), found.wall_ratios.len()), (2, 2));
        assert_eq!(found.user_seconds.map(|seconds| seconds.len()), [4, 4]);
        assert_eq!((counted.0, counted.1), (8, Some(8)));
    }
}
