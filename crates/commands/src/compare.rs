//! Comparisons as results and lines.

use std::sync::atomic::AtomicBool;

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
    results
        .iter()
        .map(|result| serde_json::to_string(result).expect("results are plain data") + "\n")
        .collect()
}

/// The title of a report of these results.
pub fn title(results: &[RunResult]) -> String {
    match results.first() {
        Some(first) => format!("{} on {}", first.workload, first.machine),
        None => "No results".into(),
    }
}
