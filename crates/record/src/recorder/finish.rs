//! End of a recording: completion of the trace, and summary.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use perforate_config::NewFile;
use perforate_trace::{TraceMetadata, TraceSummary, TraceWriter, WriterOptions};
use perforate_types::ProgramEvent;

use super::{PROGRESS_PERIOD, Session};
use crate::RecordError;
use crate::emulator::launch::children_seconds;
use crate::options::{Begin, Ending, ProcessSummary, RecordSummary};
use crate::replay::Replay;
use crate::replay::output::ProcessCounts;
use crate::thinning::{Thinned, thin};

impl Session {
    /// Writes the end of the trace, renames the file, and returns the summary of the recording.
    pub(super) fn finish(mut self, mut ending: Ending) -> Result<RecordSummary, RecordError> {
        let Some(mut output) = self.replay.output.take() else {
            return Err(self.nothing_recorded(ending));
        };
        let skipped = self.shared.header().phases.skipped.load(Ordering::Relaxed);
        let dropped = output.dropped;
        let last = skipped.saturating_sub(self.skipped) + dropped;
        if last > 0 && matches!(ending, Ending::Exited(_) | Ending::Signalled(_)) {
            self.skipped = self.skipped.max(skipped);
            self.dropped += dropped;
            output.common_event(ProgramEvent::Gap { instructions: last })?;
        }
        let mut processes = processes(&self.replay, output.processes());
        let stopped_by = ending.stopped_by();
        let metadata = TraceMetadata {
            is_cut_off: stopped_by.is_some(),
            stopped_by,
            failure: ending.is_failure().then(|| ending.to_string()),
            accesses_unmapped: self.replay.unmapped,
            ..self.metadata()
        };
        let full = TraceMetadata {
            is_cut_off: true,
            stopped_by: Ending::Full.stopped_by(),
            failure: None,
            ..metadata.clone()
        };
        let mut written = match ending {
            Ending::Full => output.sink.end_without_room(&full)?,
            _ => match output.sink.end(Some(&metadata)) {
                Err(error) if error.is_without_room() => {
                    ending = Ending::Full;
                    output.sink.end_without_room(&full)?
                }
                written => written?,
            },
        };
        // On a full disk, some counted instructions were not written. A single process gets the number
        // of written instructions. With several processes, it is unknown how many instructions each
        // lacks.
        if let ([only], Ending::Full) = (processes.as_mut_slice(), ending) {
            only.instructions = written.instructions;
        }
        if let Some(all) = self.all_windows.take() {
            let new = NewFile::create(&self.options.output).map_err(self.output_failed())?;
            let metadata = if ending == Ending::Full { full.clone() } else { metadata };
            if let Some((thinned, summary)) = self.thin(&all, &new, written, metadata, &full)? {
                self.windows = thinned.windows;
                self.dropped += thinned.dropped;
                for process in &mut processes {
                    let left = thinned.processes.get(usize::from(process.number));
                    process.instructions = left.copied().unwrap_or(0);
                }
                written = summary;
            }
            self.new = Some(new);
        }
        let seconds = self.started.elapsed().as_secs_f64();
        if let Some(new) = self.new.take() {
            new.finish().map_err(|error| {
                let problem = format!("renaming the finished trace: {error}");
                RecordError::file(&self.options.output, problem)
            })?;
        }
        if ending == Ending::Replaced {
            self.wait_for_replacement();
        }
        let header = self.shared.header();
        let first_skipped = self.first_skipped.unwrap_or(0);
        Ok(RecordSummary {
            instructions: written.instructions,
            instructions_skipped: first_skipped,
            instructions_between: self.skipped - first_skipped + self.dropped,
            windows: self.windows,
            accesses: written.accesses,
            accesses_unmapped: self.replay.unmapped,
            mappings_misplaced: self.replay.misplaced,
            programs_unrecorded: header.unrecorded.load(Ordering::Relaxed),
            pages_touched: processes.iter().map(|process| process.pages_touched).sum(),
            threads: self.replay.thread_count(),
            processes,
            bytes: written.bytes,
            records: self.records,
            program_seconds: self.spool.seconds_used(),
            // A program that replaced the recorded one ran natively.
            processor_seconds: (self.is_time_known && ending != Ending::Replaced)
                .then(|| children_seconds() - self.children_before),
            instructions_executed: header.phases.recorded.load(Ordering::Relaxed)
                + header.phases.skipped.load(Ordering::Relaxed),
            waited_seconds: header.waited_nanoseconds.load(Ordering::Relaxed) as f64 * 1e-9,
            seconds,
            ending,
        })
    }

    /// Makes the new trace from the windows that adaptive sampling selects among those in the file `all`. If
    /// it selects all windows, copies the whole file instead, and returns `None`.
    fn thin(
        &self,
        all: &File,
        new: &NewFile,
        written: TraceSummary,
        mut metadata: TraceMetadata,
        full: &TraceMetadata,
    ) -> Result<Option<(Thinned, TraceSummary)>, RecordError> {
        let failed = self.output_failed();
        // The file has no name.
        let path = PathBuf::from(format!("/proc/self/fd/{}", all.as_raw_fd()));
        let windows = self.adaptive.as_ref();
        let windows = windows.filter(|windows| windows.distance(written.instructions) > 1);
        let Some(windows) = windows else {
            let (mut all, mut new) =
                (File::open(path).map_err(&failed)?, new.file().map_err(&failed)?);
            std::io::copy(&mut all, &mut new).map_err(&failed)?;
            return Ok(None);
        };
        let (window, period) = (windows.window(), windows.period(written.instructions));
        let note = format!("recorded: windows of {window} instructions, one every {period}");
        metadata.notes.push(note);
        let options = WriterOptions { level: self.options.level, ..WriterOptions::default() };
        let file = new.file().map_err(&failed)?;
        let mut writer = TraceWriter::on(file, &self.options.output, &metadata, options)?;
        let mut thinned = Thinned::default();
        let is_without_room = |error: &RecordError| match error {
            RecordError::Trace(error) => error.is_without_room(),
            _ => false,
        };
        let copied = thin(&path, windows, &mut writer, &mut thinned);
        let summary = match copied.and_then(|()| Ok(writer.end(None)?)) {
            Err(error) if is_without_room(&error) => writer.end_without_room(full)?,
            summary => summary?,
        };
        Ok(Some((thinned, summary)))
    }

    /// Makes a function for `map_err`: the trace cannot be written.
    pub(super) fn output_failed(&self) -> impl Fn(std::io::Error) -> RecordError + use<> {
        let path = self.options.output.clone();
        move |error| RecordError::file(&path, error.to_string())
    }

    /// Waits for the end of an unrecorded program that the recorded one executed, or until the stop
    /// flag is set.
    fn wait_for_replacement(&mut self) {
        while matches!(self.child.0.try_wait(), Ok(None)) {
            if self.take_stop_request() {
                return;
            }
            std::thread::sleep(PROGRESS_PERIOD);
        }
    }

    fn nothing_recorded(&self, ending: Ending) -> RecordError {
        let status = match ending {
            Ending::Exited(code) => format!("exit code {code}"),
            Ending::Signalled(signal) => format!("signal {signal}"),
            Ending::Replaced => "replaced by a program that cannot be recorded".into(),
            _ => return RecordError::StoppedEarly,
        };
        if self.replay.images.iter().all(|image| image.program.as_os_str().is_empty()) {
            return RecordError::EmulatorFailed { path: self.emulator.clone(), status };
        }
        let selection = &self.options.selection;
        if let Some(region) = &selection.region {
            return RecordError::RegionNeverBegan(region.to_string(), status);
        }
        if !matches!(self.options.begin, Begin::AtOnce) {
            return RecordError::EndedBeforeBegin(status);
        }
        let executed = self.shared.header().phases.skipped.load(Ordering::Relaxed);
        RecordError::EndedWhileSkipping { status, executed, skip: selection.skip }
    }
}

/// Makes the summaries of the processes that executed instructions.
fn processes(replay: &Replay<TraceWriter>, counts: &[ProcessCounts]) -> Vec<ProcessSummary> {
    let recorded = counts.iter().enumerate().filter(|(_, counts)| counts.instructions > 0);
    recorded
        .map(|(number, counts)| {
            let images = replay.images.iter();
            let own = images.filter(|image| image.id.is_some_and(|id| usize::from(id.0) == number));
            let mut programs: Vec<PathBuf> = own.map(|image| image.program.clone()).collect();
            programs.retain(|program| !program.as_os_str().is_empty());
            ProcessSummary {
                number: number as u16,
                programs,
                instructions: counts.instructions,
                pages_touched: counts.pages_touched,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::recorder::tests::{session, store};
    use crate::region::Region;

    #[test]
    fn a_recording_without_instructions_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path(), |options| options.selection.skip = 5000);
        store(&session.shared.header().phases.skipped, 1200);
        let told = |session: &Session, ending| session.nothing_recorded(ending).to_string();
        let failed = told(&session, Ending::Exited(3));
        assert!(failed.starts_with("/no/qemu ended before the program started (exit code 3)"));
        session.replay.images.get(2).unwrap();
        assert_eq!(told(&session, Ending::Exited(3)), failed, "a program without a name");
        session.replay.images.get(4).unwrap().program = "/bin/tail".into();
        let skipped = |status: &str| {
            format!(
                "the program ended ({status}) after about 1200 instructions; nothing is left to record after skipping 5000"
            )
        };
        assert_eq!(told(&session, Ending::Exited(3)), skipped("exit code 3"));
        assert_eq!(told(&session, Ending::Signalled(11)), skipped("signal 11"));
        let replaced = "replaced by a program that cannot be recorded";
        assert_eq!(told(&session, Ending::Replaced), skipped(replaced));
        session.options.begin = Begin::After(Duration::ZERO);
        assert_eq!(
            told(&session, Ending::Exited(0)),
            "the program ended (exit code 0) before the recording began; there is no trace"
        );
        session.options.selection.region = Some(Region::Function("f".into()));
        assert_eq!(
            told(&session, Ending::Exited(0)),
            "the program ended (exit code 0) and what was to be recorded never began: function f"
        );
        let early = "stopped before the first instruction was recorded; there is no trace";
        for ending in [Ending::Stopped, Ending::Limit, Ending::Size, Ending::Time, Ending::Full] {
            assert_eq!(told(&session, ending), early, "{ending:?}");
        }
        let error = session.finish(Ending::Stopped).unwrap_err();
        assert_eq!(error.to_string(), early);
    }
}
