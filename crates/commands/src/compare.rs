//! Comparisons as results and lines.

use std::sync::atomic::AtomicBool;

use perforate_records::json_line;
use perforate_sim::{Comparison, MeasuringOptions, Progress, RunResult, SimError, compare_until};

/// Runs a comparison, and adds to every result what only all together tell.
///
/// # Errors
/// As [`perforate_sim::compare_until`].
pub fn compare(
    comparison: &Comparison,
    measuring: &MeasuringOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<RunResult>, SimError> {
    let mut results = compare_until(comparison, measuring, stop, progress)?;
    let notes = comparison.notes_on(&results);
    results.iter_mut().for_each(|result| result.notes.extend_from_slice(&notes));
    Ok(results)
}

/// One line per result.
pub fn json_lines(results: &[RunResult]) -> String {
    results.iter().map(json_line).collect()
}

/// The title of a report of these results.
pub fn title(results: &[RunResult]) -> String {
    match results.first() {
        Some(first) => format!("{} on {}", first.workload, first.machine),
        None => "No results".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::{Choice, MachineSettings, schemes};

    fn comparison(instructions: &str) -> Comparison {
        let given = [("instructions", instructions), ("memory", "1G")].into_iter().collect();
        let choice = Choice::new(given, MachineSettings::default());
        let (schemes, _) = schemes(Some("4k,thp"), None, None, "4k").unwrap();
        choice.comparison(Some("random:size=64M"), schemes, &|_, _| ()).unwrap()
    }

    #[test]
    fn a_run_that_is_no_longer_wanted_ends() {
        let (stop, mut last) = (AtomicBool::new(false), 0);
        let long = comparison("100G");
        let outcome = compare(&long, &MeasuringOptions::default(), &stop, &mut |progress| {
            last = progress.done;
            stop.store(true, Ordering::Relaxed);
        });
        assert!(matches!(outcome, Err(SimError::Stopped)));
        assert!(last < 10_000_000, "{last}");
    }

    #[test]
    fn a_result_is_a_line() {
        let stop = AtomicBool::new(false);
        let short = comparison("20k");
        let results = compare(&short, &MeasuringOptions::default(), &stop, &mut |_| ()).unwrap();
        let lines = json_lines(&results);
        let read = perforate_records::read_results(&lines).unwrap();
        assert_eq!(lines.lines().count(), 2);
        for (found, result) in read.iter().zip(&results) {
            assert_eq!((&found.scheme, found.ipc), (&result.scheme, result.ipc));
        }
        let title_of_read = title(&read);
        assert!(title_of_read.starts_with("random:"), "{title_of_read}");
        assert!(title_of_read.ends_with(" on perforated-table2"), "{title_of_read}");
        assert_eq!(title(&[]), "No results");
    }
}
