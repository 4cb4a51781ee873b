//! Input of the linear models from results files of this program.

use std::path::{Path, PathBuf};

use perforate_records::{RunResult, read_json};

use super::measured::{Measured, Runs, medians};
use super::{ModelError, Shares};
use crate::statistics::median;

/// Names of the schemes whose runs are the inputs of the models (D §VII).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultSchemes {
    /// Scheme of the native run with 4KB pages.
    pub native: String,
    /// Scheme of the virtualized run with 4KB pages in guest and host.
    pub virtualized: String,
    /// Scheme of the native run with 2MB pages; the results file need not contain this run.
    pub native_2m: String,
}

impl Default for ResultSchemes {
    fn default() -> Self {
        Self { native: "4k".into(), virtualized: "4k+4k".into(), native_2m: "thp".into() }
    }
}

/// Simulated runs of one workload on one machine, as inputs of the models.
pub struct SimulatedRuns {
    /// Name of the workload, with its parameters.
    pub workload: String,
    /// Name of the simulated machine.
    pub machine: String,
    /// Measured runs; each measurement is the median over the seeds.
    pub runs: Runs,
    /// Shares of TLB misses in segments; `None` unless a run counted them. The counters
    /// `misses_in_guest_segment_only` and `misses_in_host_segment_only` are part of `l2_tlb_misses`.
    /// `misses_in_both_segments` is not: both segments together translate after a first-level miss, without a
    /// look-up in the second level.
    pub shares: Option<Shares>,
}

/// A run in the results file, with the number of its line.
struct Line {
    number: usize,
    run: RunResult,
}

/// Reads a results file. Returns the runs of each workload and machine, in the order of the file.
///
/// # Errors
/// An unreadable file, an invalid line, a workload without the native or the virtualized run, or runs without
/// cycles.
pub fn read_results(
    path: &Path,
    schemes: &ResultSchemes,
) -> Result<Vec<SimulatedRuns>, ModelError> {
    let text = perforate_config::read_text(path)
        .map_err(|source| ModelError::File { path: path.into(), source })?;
    let file = ResultsFile { path: path.into(), lines: parse(path, &text)? };
    let mut places: Vec<(&str, &str)> = Vec::new();
    for line in &file.lines {
        let place = line.place();
        if !places.contains(&place) {
            places.push(place);
        }
    }
    if places.is_empty() {
        let problem = "no results; expected lines that compare or run have written".into();
        return Err(ModelError::Missing { path: path.into(), problem });
    }
    places.into_iter().map(|place| file.runs(place, schemes)).collect()
}

fn parse(path: &Path, text: &str) -> Result<Vec<Line>, ModelError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(index, line): (usize, &str)| {
        let number = index + 1;
        let wrong = |problem: String| ModelError::Line { path: path.into(), line: number, problem };
        let expected = "expected one JSON object with at least scheme and workload";
        let run = read_json(line);
        let run = run.map_err(|error| wrong(format!("no result: {error}; {expected}")))?;
        Ok(Line { number, run })
    };
    lines.map(parse).collect()
}

impl Line {
    /// Returns the names of the run's workload and machine.
    fn place(&self) -> (&str, &str) {
        (&self.run.workload, &self.run.machine)
    }
}

struct ResultsFile {
    path: PathBuf,
    lines: Vec<Line>,
}

impl ResultsFile {
    fn runs(
        &self,
        place: (&str, &str),
        schemes: &ResultSchemes,
    ) -> Result<SimulatedRuns, ModelError> {
        let of_place: Vec<&Line> = self.lines.iter().filter(|line| line.place() == place).collect();
        let measured = |scheme: &str| {
            let lines = of_place.iter().filter(|line| line.run.scheme.as_str() == scheme);
            let runs: Vec<Measured> =
                lines.map(|line| self.measured(line)).collect::<Result<_, _>>()?;
            Ok(medians(&runs))
        };
        let required = |scheme: &str| {
            measured(scheme)?.ok_or_else(|| {
                let mut known: Vec<&str> =
                    of_place.iter().map(|line| line.run.scheme.as_str()).collect();
                known.sort_unstable();
                known.dedup();
                let problem = format!(
                    "no run of scheme {scheme:?} on {:?}; there are {}",
                    place.0,
                    known.join(", ")
                );
                ModelError::Missing { path: self.path.clone(), problem }
            })
        };
        let runs = Runs {
            native: required(&schemes.native)?,
            virtualized: required(&schemes.virtualized)?,
            native_2m: measured(&schemes.native_2m)?,
        };
        let shares = self.shares(&of_place)?;
        let (workload, machine) = (place.0.to_owned(), place.1.to_owned());
        Ok(SimulatedRuns { workload, machine, runs, shares })
    }

    fn wrong(&self, line: &Line, problem: String) -> ModelError {
        ModelError::Line { path: self.path.clone(), line: line.number, problem }
    }

    fn measured(&self, line: &Line) -> Result<Measured, ModelError> {
        let scheme = line.run.scheme.as_str();
        let Some(cycles) = line.run.cycles().filter(|&cycles| cycles > 0.0) else {
            let problem = format!(
                "scheme {scheme} has no cycles; expected a run with timing, not a functional one"
            );
            return Err(self.wrong(line, problem));
        };
        let counter = |name: &str| {
            line.run
                .counter(name)
                .ok_or_else(|| self.wrong(line, format!("scheme {scheme} has no counter {name}")))
        };
        let (misses, walk_cycles) = (counter("l2_tlb_misses")?, counter("walk_cycles")?);
        Ok(Measured { cycles, misses, walk_cycles })
    }

    /// Returns the shares of misses that segments cover, each the median over the runs in which some misses
    /// are in both segments; if there is no such run, over the runs with misses in one segment. `Ok(None)` if
    /// no run has misses in segments.
    fn shares(&self, lines: &[&Line]) -> Result<Option<Shares>, ModelError> {
        const NAMES: [&str; 4] = [
            "l2_tlb_misses",
            "misses_in_both_segments",
            "misses_in_guest_segment_only",
            "misses_in_host_segment_only",
        ];
        let counts = |line: &&&Line| {
            let [misses, both, guest, host] = NAMES.map(|name| line.run.counter(name));
            Some([misses?, both?, guest?, host?])
        };
        let counted: Vec<(&&Line, [f64; 4])> =
            lines.iter().filter_map(|line| counts(&line).map(|counts| (line, counts))).collect();
        let in_segments = |counts: &[f64; 4]| counts[1..].iter().sum::<f64>();
        let dual: Vec<_> = counted.iter().filter(|(_, counts)| counts[1] > 0.0).collect();
        let single: Vec<_> =
            counted.iter().filter(|(_, counts)| in_segments(counts) > 0.0).collect();
        let chosen = if dual.is_empty() { single } else { dual };
        let mut shares = Vec::new();
        for (line, [misses, both, guest, host]) in chosen {
            let of_run = Shares::counted(*misses + *both, *both, *guest, *host)
                .map_err(|error| self.wrong(line, error.to_string()))?;
            shares.push(of_run);
        }
        let of = |share: fn(&Shares) -> f64| median(&shares.iter().map(share).collect::<Vec<_>>());
        let (Some(vmm), Some(guest), Some(both)) =
            (of(Shares::vmm), of(Shares::guest), of(Shares::both))
        else {
            return Ok(None);
        };
        Shares::new(guest, Some(vmm), Some(guest), Some(both)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(scheme: &str, cycles: &str, misses: u32, walk_cycles: u32, more: &str) -> String {
        format!(
            "{{\"scheme\":\"{scheme}\",\"workload\":\"w\",\"machine\":\"m\",\"cycles\":{cycles},\
             \"counters\":{{\"l2_tlb_misses\":{misses},\"walk_cycles\":{walk_cycles}{more}}}}}\n"
        )
    }

    fn read(text: &str) -> Result<Vec<SimulatedRuns>, ModelError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        std::fs::write(&path, text).unwrap();
        read_results(&path, &ResultSchemes::default())
    }

    fn message(text: &str) -> String {
        read(text).err().expect("an error").to_string()
    }

    #[test]
    fn runs_and_shares_of_one_workload() {
        let segments = ",\"misses_in_both_segments\":60,\"misses_in_guest_segment_only\":20,\
                        \"misses_in_host_segment_only\":10";
        let text = line("4k", "300", 7, 70, "")
            + line("4k", "100", 9, 90, "").as_str()
            + line("4k+4k", "900", 10, 500, "").as_str()
            + line("thp", "80", 1, 8, "").as_str()
            + line("segment+segment", "80", 40, 8, segments).as_str();
        let [found] = &read(&text).unwrap()[..] else { panic!("one workload") };
        assert_eq!((found.workload.as_str(), found.machine.as_str()), ("w", "m"));
        // Of two seeds, the mean is the median.
        assert_eq!(found.runs.native, Measured { cycles: 200.0, misses: 8.0, walk_cycles: 80.0 });
        assert_eq!(found.runs.virtualized.cycles_per_miss(), 50.0);
        assert_eq!(found.runs.ideal_cycles(), Some(72.0));
        let shares = found.shares.unwrap();
        assert_eq!((shares.guest(), shares.vmm(), shares.both()), (0.8, 0.7, 0.6));
        assert!((shares.neither() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn without_segments_there_are_no_shares() {
        let text = line("4k", "300", 7, 70, "") + line("4k+4k", "900", 10, 500, "").as_str();
        let found = read(&text).unwrap();
        assert!(found[0].shares.is_none() && found[0].runs.native_2m.is_none());
        let none = ",\"misses_in_both_segments\":0,\"misses_in_guest_segment_only\":0,\
                    \"misses_in_host_segment_only\":0";
        let text = line("4k", "300", 7, 70, none) + line("4k+4k", "900", 10, 500, none).as_str();
        assert!(read(&text).unwrap()[0].shares.is_none());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_with_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.jsonl");
        let error = read_results(&path, &ResultSchemes::default()).err().expect("no file");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }

    #[test]
    fn errors_name_the_line_or_the_scheme() {
        let native = line("4k", "300", 7, 70, "");
        let told = message(&native);
        assert!(told.contains("no run of scheme \"4k+4k\" on \"w\"; there are 4k"), "{told}");
        let told = message(&(native.clone() + "not json\n"));
        assert!(told.contains("results.jsonl, line 2: ") && told.contains("JSON"), "{told}");
        let told = message("{\"scheme\":\"4k\"}\n");
        assert!(told.contains("line 1: no result"), "{told}");
        let told = message(&(native.clone() + line("4k+4k", "null", 7, 70, "").as_str()));
        assert!(told.contains("line 2: scheme 4k+4k has no cycles"), "{told}");
        let told = message(&(native.clone() + line("4k+4k", "0", 7, 70, "").as_str()));
        assert!(told.contains("line 2: scheme 4k+4k has no cycles"), "{told}");
        let told = message(&native.replace("walk_cycles", "other"));
        assert!(told.contains("line 1: scheme 4k has no counter walk_cycles"), "{told}");
        assert!(message("\n").contains("no results"));
        let many = ",\"misses_in_both_segments\":60,\"misses_in_guest_segment_only\":20,\
                    \"misses_in_host_segment_only\":30";
        let text = native + line("4k+4k", "900", 40, 500, many).as_str();
        assert!(
            message(&text).contains("line 2: 60 misses in both segments"),
            "{}",
            message(&text)
        );
    }
}
