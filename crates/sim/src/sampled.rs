//! Sampled traces and sampled timing. The recorder of a sampled trace skips instructions between
//! windows, and stores their number as a gap.

mod estimate;
mod precision;
mod schedule;
mod timing;
mod windows;

use perforate_types::{Chunk, ProgramEvent};

use crate::stretches::PartCounts;

pub(crate) use estimate::{Population, estimate};
pub(crate) use precision::{PrecisionRule, widest};
pub(crate) use schedule::{Phase, Schedule};
pub use timing::{TimedWindows, Timing};
pub(crate) use windows::Windows;

/// Gaps of a sampled trace, in order: the places at which the recorder skipped instructions.
#[derive(Default)]
pub(crate) struct Gaps {
    /// Pairs of the number of the trace's instructions before a gap, and the number of skipped
    /// instructions.
    gaps: Vec<(u64, u64)>,
}

impl Gaps {
    /// Adds the gaps of a chunk of instructions that begins after `done` instructions.
    pub(crate) fn add(&mut self, done: u64, chunk: &Chunk) {
        self.gaps.extend(chunk.events.iter().filter_map(|(at, event)| match event {
            ProgramEvent::Gap { instructions } => Some((done + u64::from(*at), *instructions)),
            _ => None,
        }));
    }

    /// Returns the number of the program's instructions that the instructions `from..end` of the
    /// trace represent. `None` if the range has no gap. A gap belongs to the window before it.
    pub(crate) fn represented(&self, from: u64, end: u64) -> Option<u64> {
        let inside = self.gaps.iter().filter(|(at, _)| *at > from && *at <= end);
        let passed = inside.fold(0u64, |sum, (_, gap)| sum.saturating_add(*gap));
        (passed > 0).then(|| passed.saturating_add(end - from))
    }
}

/// Returns a note that the trace is a sample, with the ratio of program length to trace length.
pub(crate) fn note(measured: u64, represented: u64) -> String {
    format!(
        "the trace is a sample: its {measured} measured instructions stand for {represented} of \
         the program's; multiply counts by {:.2}. Caches, TLBs and pages begin each window as the \
         one before left them",
        represented as f64 / measured.max(1) as f64
    )
}

/// Returns a note that only windows were timed.
pub(crate) fn timing_note(windows: TimedWindows, warmup: u64, timed: &[PartCounts]) -> String {
    let counted: u64 = timed.iter().map(|window| window.instructions).sum();
    let TimedWindows { window, period } = windows;
    let few = match timed.len() {
        count if count < TimedWindows::LEAST => {
            format!("; fewer than {} windows make no sure interval", TimedWindows::LEAST)
        }
        _ => String::new(),
    };
    format!(
        "timing is sampled: cycles, and counts of the core, its caches and memory, are extrapolated \
         from {}, in {} of {window}, one at a random place in every \
         {period} instructions, each after {warmup} that are timed and not counted; between windows \
         caches, TLBs and predictors see every instruction. All other counts are of every \
         instruction{few}",
        perforate_types::counted(counted, "instruction"),
        perforate_types::counted(timed.len(), "window"),
    )
}

/// Returns a note on the effect of `window-warmup`, or on the reason why the option had no effect.
/// `None` if the option is 0.
pub(crate) fn window_warmup_note(
    warmup: u64,
    is_sample: bool,
    has_figures: bool,
) -> Option<String> {
    match (warmup, is_sample, has_figures) {
        (0, ..) => None,
        (_, false, _) => Some("window-warmup has no effect: the measured part is no sample".into()),
        (_, true, false) => {
            Some(format!("window-warmup of {warmup}: no window has as many instructions"))
        }
        (_, true, true) => Some(format!(
            "the first {warmup} instructions of each window are left out of the figures with ±, and \
             of no others"
        )),
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::Instruction;

    use super::*;

    /// Returns 10 instructions, with a gap of 100 before the third and of 1000 at the end.
    fn chunk() -> Chunk {
        let mut chunk = Chunk::default();
        for number in 0..10 {
            if number == 2 {
                chunk.push_event(ProgramEvent::Gap { instructions: 100 });
            }
            chunk.push(Instruction::default(), &[]);
        }
        chunk.push_event(ProgramEvent::Exec);
        chunk.push_event(ProgramEvent::Gap { instructions: 1000 });
        chunk
    }

    #[test]
    fn a_gap_goes_with_the_window_before_it() {
        let mut gaps = Gaps::default();
        gaps.add(0, &chunk());
        gaps.add(10, &chunk());
        // Gaps after 2, 10, 12 and 20 instructions.
        assert_eq!(gaps.represented(0, 20), Some(20 + 100 + 1000 + 100 + 1000));
        assert_eq!(gaps.represented(2, 20), Some(18 + 1000 + 100 + 1000), "after the first");
        assert_eq!(gaps.represented(12, 20), Some(8 + 1000));
        assert_eq!(gaps.represented(12, 19), None, "cut off before the last");
        assert_eq!(Gaps::default().represented(0, 20), None);
    }
    #[test]
    fn a_sample_says_by_what_to_multiply() {
        assert_eq!(
            note(8, 1008),
            "the trace is a sample: its 8 measured instructions stand for 1008 of the program's; \
             multiply counts by 126.00. Caches, TLBs and pages begin each window as the one before \
             left them"
        );
    }

    #[test]
    fn sampled_timing_says_what_was_timed() {
        let windows = TimedWindows { window: 100, period: 1000 };
        let window = PartCounts { instructions: 90, ..PartCounts::default() };
        let timed = vec![window; TimedWindows::LEAST];
        let enough = timing_note(windows, 10, &timed);
        let counted = 90 * TimedWindows::LEAST;
        let expected = format!(
            "extrapolated from {counted} instructions, in {} windows of 100, one at a random place in \
             every 1000 instructions, each after 10 that are timed and not counted;",
            TimedWindows::LEAST
        );
        assert!(enough.contains(&expected), "{enough}");
        assert!(enough.ends_with("All other counts are of every instruction"), "{enough}");
        let few = timing_note(windows, 10, &timed[1..]);
        assert!(few.ends_with("windows make no sure interval"), "{few}");
    }

    #[test]
    fn a_warmup_of_windows_is_noted_where_it_does_something_or_could() {
        for (warmup, is_sample, has_figures, expected) in [
            (0, true, true, None),
            (0, false, false, None),
            (5, false, true, Some("window-warmup has no effect: the measured part is no sample")),
            (5, true, false, Some("window-warmup of 5: no window has as many instructions")),
            (5, true, true, Some("the first 5 instructions of each window are left out of the")),
        ] {
            let note = window_warmup_note(warmup, is_sample, has_figures);
            assert_eq!(note.is_some(), expected.is_some(), "{note:?}");
            assert!(note.unwrap_or_default().starts_with(expected.unwrap_or_default()));
        }
    }
}
