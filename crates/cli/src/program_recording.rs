//! Recording of a program for one comparison, `compare -- PROG`.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::actions::Failure;
use perforate_config::Count;
use perforate_host::Reporter;
use perforate_record::{
    Ending, RecordError, RecordOptions, RecordSummary, Selection, TemporaryTrace,
};
use perforate_report::text::compact;
use perforate_sim::{CUT_OFF, PlacementOptions, RunResult};

use crate::progress::Bar;
use crate::record::{record_with_bar, record_with_reporter};

/// Number of instructions to record if the user gives only the number to skip.
const DEFAULT_INSTRUCTIONS: u64 = 50_000_000;

/// Recording of a program in a temporary file, which is deleted when the value is dropped.
pub struct ProgramRecording {
    trace: TemporaryTrace,
    /// End of the program or of its recording, as a clause; `None` after exit code 0 and at the limit of instructions.
    failure: Option<String>,
    /// True if the program itself failed, rather than that its recording reached a limit.
    is_program_failure: bool,
    /// Notes on the recorded part.
    notes: Vec<String>,
}

impl ProgramRecording {
    /// Runs a program and records windows of the whole run. With `skip` or `instructions` in `part`, one
    /// contiguous part is recorded instead: `instructions`, after the first `skip`.
    pub fn with_bar(
        program: &[OsString],
        part: &PlacementOptions,
        bar: &Bar,
    ) -> Result<Self, Failure> {
        let trace = TemporaryTrace::new(file_name(program))?;
        Self::new(trace, program, part, |options| record_with_bar(options, bar))
    }

    /// Like [`Self::with_bar`], but progress goes to `reporter`, and setting `stop` ends the recording.
    ///
    /// # Errors
    /// The program cannot be recorded, or the recording was stopped.
    pub fn with_reporter(
        program: &[OsString],
        part: &PlacementOptions,
        reporter: &mut dyn Reporter,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let trace = TemporaryTrace::stopped_by(Arc::clone(stop), file_name(program))?;
        Self::new(trace, program, part, |options| record_with_reporter(options, reporter))
    }

    fn new(
        trace: TemporaryTrace,
        program: &[OsString],
        part: &PlacementOptions,
        record: impl FnOnce(RecordOptions) -> Result<RecordSummary, RecordError>,
    ) -> Result<Self, Failure> {
        let selection = match (part.skip.get(), part.instructions.map(Count::get)) {
            (0, None) => Selection::whole_program(),
            (skip, instructions) => {
                let instructions = Some(instructions.unwrap_or(DEFAULT_INSTRUCTIONS));
                Selection { skip, instructions, ..Selection::default() }
            }
        };
        let options = RecordOptions { selection, ..trace.options(program.to_vec()) };
        match record(options) {
            Ok(summary) => Ok(Self {
                trace,
                failure: failure(summary.ending),
                is_program_failure: summary.ending.is_failure(),
                notes: notes(&summary),
            }),
            Err(RecordError::Interrupted) => Err(Failure::Interrupted),
            Err(error) => Err(error.into()),
        }
    }

    /// Path of the recorded trace.
    pub fn path(&self) -> &Path {
        self.trace.path()
    }

    /// End of the program or of its recording, as a clause; `None` after exit code 0 and at the limit of instructions.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// End of the program, as a clause, if the program failed; `None` if it succeeded or was ended at a limit.
    pub fn program_failure(&self) -> Option<&str> {
        self.failure().filter(|_| self.is_program_failure)
    }

    /// Notes on the recorded part.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds the notes on the recording to a result.
    pub fn annotate(&self, result: &mut RunResult) {
        // The note on the recording says more.
        result.notes.retain(|note| !note.starts_with(CUT_OFF));
        let failure = self.failure.iter().filter(|text| !result.notes.contains(text));
        let notes: Vec<String> = failure.chain(&self.notes).cloned().collect();
        result.notes.extend(notes);
    }

    /// Flag that Ctrl-C sets while the recorded trace is simulated.
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.trace.stop()
    }
}

/// Chooses a file name for the trace of a program.
fn file_name(program: &[OsString]) -> OsString {
    let name = program.first().and_then(|path| Path::new(path).file_name());
    let mut file_name = name.unwrap_or("program".as_ref()).to_owned();
    file_name.push(".trace");
    file_name
}

fn failure(ending: Ending) -> Option<String> {
    let is_usual = matches!(ending, Ending::Exited(0) | Ending::Limit);
    (!is_usual).then(|| ending.to_string())
}

/// Notes on the recorded part, unless it is the whole program.
fn notes(summary: &RecordSummary) -> Vec<String> {
    let RecordSummary { instructions, instructions_skipped: skipped, ending, .. } = *summary;
    let mut notes = Vec::new();
    if ending == Ending::Limit {
        notes.push(cut_off(instructions + summary.instructions_between, skipped));
    }
    if skipped > 0 && matches!(ending, Ending::Exited(_) | Ending::Signalled(_)) {
        let all = skipped.saturating_add(instructions);
        notes.push(format!(
            "the recording has {:.1} % of the program, {} of its {} instructions; the others were \
             skipped",
            instructions as f64 / all.max(1) as f64 * 100.0,
            compact(instructions as f64),
            compact(all as f64),
        ));
    }
    notes
}

fn cut_off(instructions: u64, skipped: u64) -> String {
    let skipped = match skipped {
        0 => String::new(),
        skipped => format!(", {} after its start", compact(skipped as f64)),
    };
    format!(
        "the recording was cut off after {} instructions{skipped}: the program had not ended, so \
         the recorded share of it is unknown. --instructions records more, --skip begins later, \
         perforate record --sample auto takes windows of all of it",
        compact(instructions as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(instructions: u64, instructions_skipped: u64, ending: Ending) -> RecordSummary {
        RecordSummary {
            instructions,
            instructions_skipped,
            instructions_between: 0,
            windows: 1,
            accesses: 0,
            accesses_unmapped: 0,
            mappings_misplaced: 0,
            programs_unrecorded: 0,
            pages_touched: 0,
            threads: 1,
            processes: Vec::new(),
            bytes: 0,
            records: 0,
            program_seconds: 0.0,
            processor_seconds: Some(0.0),
            instructions_executed: instructions + instructions_skipped,
            waited_seconds: 0.0,
            seconds: 0.0,
            ending,
        }
    }

    #[test]
    fn a_program_recorded_from_start_to_end_needs_no_words() {
        assert!(notes(&summary(1000, 0, Ending::Exited(0))).is_empty());
    }

    #[test]
    fn a_part_says_which_and_how_much_where_that_is_known() {
        let part = notes(&summary(25_000, 75_000, Ending::Exited(0)));
        let expected = "the recording has 25.0 % of the program, 25.0k of its 100k instructions";
        assert!(part.len() == 1 && part[0].starts_with(expected), "{part:?}");
        let cut = notes(&summary(2_000_000, 0, Ending::Limit));
        let expected = "the recording was cut off after 2.00M instructions: the program had not";
        assert!(cut.len() == 1 && cut[0].starts_with(expected), "{cut:?}");
        let later = notes(&summary(2_000_000, 1_000_000, Ending::Limit));
        assert!(later[0].contains("2.00M instructions, 1.00M after its start: "), "{later:?}");
        // Up to the end of the last window, the program executed what lies between windows, too.
        let windows = RecordSummary {
            instructions_between: 3_000_000,
            ..summary(2_000_000, 0, Ending::Limit)
        };
        let windows = notes(&windows);
        assert!(windows[0].contains("cut off after 5.00M instructions: "), "{windows:?}");
    }

    #[test]
    fn a_program_that_failed_says_so() {
        let failed = |ending| failure(ending).unwrap_or_default();
        assert_eq!(failed(Ending::Exited(2)), "the program ended with exit code 2");
        assert_eq!(failed(Ending::Signalled(11)), "the program was killed by signal 11");
        assert_eq!((failure(Ending::Exited(0)), failure(Ending::Limit)), (None, None));
        let killed = notes(&summary(1000, 1000, Ending::Signalled(11)));
        assert!(killed[0].starts_with("the recording has 50.0 %"), "{killed:?}");
    }
}
