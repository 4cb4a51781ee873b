//! Results of runs as JSON lines.

use perforate_records::json_line;
use perforate_sim::RunResult;

/// Formats results as lines of JSON, one for each result.
pub fn json_lines(results: &[RunResult]) -> String {
    results.iter().map(json_line).collect()
}

/// Returns the title of a report on these results.
pub fn title(results: &[RunResult]) -> String {
    match results.first() {
        Some(first) => format!("{} on {}", first.workload, first.machine),
        None => "No results".into(),
    }
}

#[cfg(test)]
mod tests {
    use perforate_sim::{Observer, Progress, ResolvedRun, Silent, SimError, run};

    use super::super::{MachineSettings, RunRequest, schemes};
    use super::*;

    fn random(instructions: &str) -> ResolvedRun {
        let given = [("instructions", instructions), ("memory", "1G")].into_iter().collect();
        let request = RunRequest::new(given, MachineSettings::default()).unwrap();
        let (schemes, _) = schemes(Some("4k,thp"), None, None, "4k").unwrap();
        request.resolve(Some("random:size=64M"), schemes, &|_, _| ()).unwrap()
    }

    /// Observer of the tests, which cancels the run at the first progress.
    #[derive(Default)]
    struct Impatient(Option<Progress>);

    impl Observer for Impatient {
        fn on_progress(&mut self, progress: Progress) {
            self.0 = Some(progress);
        }

        fn is_cancelled(&self) -> bool {
            self.0.is_some()
        }
    }

    #[test]
    fn a_run_that_is_cancelled_ends() {
        let mut observer = Impatient::default();
        let outcome = run(&random("100G"), &mut observer);
        assert!(matches!(outcome, Err(SimError::Stopped)));
        let done = observer.0.unwrap().done;
        assert!(done < 10_000_000, "{done}");
    }

    #[test]
    fn a_result_is_a_line() {
        let results = run(&random("20k"), &mut Silent).unwrap();
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
