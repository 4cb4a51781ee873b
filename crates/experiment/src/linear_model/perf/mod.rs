//! Reader for the output of `perf stat -x,`.
//!
//! A line is `value,unit,event,…`, possibly after a time stamp or processor. perf does not quote
//! fields, so the reader looks for a known event name. It supports the separators `,` `;` `|` and
//! tab, event modifiers (`:u` and `:k`, which are added), and hybrid processors (`cpu_core/…/`).
//! Counts of intervals and of processors are added up. If a file has several runs (`perf stat --append`), the
//! models use their medians; perf itself may repeat runs, too (`-r`).

mod line;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use line::ACCEPTED_EVENTS;
use line::{
    CYCLES, Entry, FIGURES, Figure, LOAD_MISSES, LOAD_WALK_CYCLES, STORE_MISSES, STORE_WALK_CYCLES,
};

use super::ModelError;
use super::measured::{Measured, medians};

/// Measurements from the perf output files of one configuration, such as the native runs.
pub struct PerfFiles {
    /// Median of each measurement over all runs in the files.
    pub measured: Measured,
    /// Notes for readers on the selection of events.
    pub notes: Vec<String>,
}

/// Count of a perf event and its line in the file; the count is `None` if perf could not count the event.
#[derive(Clone, Copy)]
struct Count {
    value: Option<f64>,
    line: usize,
}

/// Counts of one run, by event.
type Run = BTreeMap<String, Count>;

struct File {
    path: PathBuf,
    runs: Vec<Run>,
    is_scaled: bool,
}

/// Reads groups of perf output files (native runs, virtualized runs, …), each with at least one file. All
/// groups use the same events: those of loads, and those of stores if all files have them.
///
/// # Errors
/// An unreadable file, an invalid line, or an event that is missing or was not counted.
pub fn read_perf(groups: &[&[PathBuf]]) -> Result<Vec<PerfFiles>, ModelError> {
    let read = |group: &&[PathBuf]| group.iter().map(|path| File::read(path)).collect();
    let groups: Vec<Vec<File>> = groups.iter().map(read).collect::<Result<_, ModelError>>()?;
    let all = || groups.iter().flatten();
    let has_stores = |file: &File| {
        [STORE_WALK_CYCLES, STORE_MISSES].iter().all(|figure| file.event(figure).is_ok())
    };
    let stores = all().all(has_stores);
    let some_stores = all().any(has_stores);
    groups.iter().map(|files| measure(files, stores, some_stores)).collect()
}

fn measure(files: &[File], stores: bool, some_stores: bool) -> Result<PerfFiles, ModelError> {
    let mut runs = Vec::new();
    let mut notes = Vec::new();
    for file in files {
        let mut misses = vec![file.event(&LOAD_MISSES)?];
        let mut walk_cycles = vec![file.event(&LOAD_WALK_CYCLES)?];
        if stores {
            misses.push(file.event(&STORE_MISSES)?);
            walk_cycles.push(file.event(&STORE_WALK_CYCLES)?);
        }
        let cycles = [file.event(&CYCLES)?];
        for run in &file.runs {
            runs.push(Measured {
                cycles: file.sum(run, &cycles)?,
                misses: file.sum(run, &misses)?,
                walk_cycles: file.sum(run, &walk_cycles)?,
            });
        }
        let events = [&cycles[..], &walk_cycles, &misses].concat().join(", ");
        notes.push(format!("{}: {events}", file.path.display()));
        if events.contains("walk_pending") {
            notes.push("walk_pending counts every one of walks that overlap".into());
        }
        if file.is_scaled {
            let path = file.path.display();
            notes
                .push(format!("{path}: perf shared counters between events and scaled the counts"));
        }
        if some_stores && !stores {
            notes.push("only loads count: not all files have the walks of stores".into());
        }
    }
    let measured = medians(&runs).expect("every file has a run");
    if measured.cycles <= 0.0 {
        let problem = "no cycles were counted; expected an execution time above 0".into();
        return Err(ModelError::Missing { path: files[0].path.clone(), problem });
    }
    Ok(PerfFiles { measured, notes })
}

impl File {
    fn read(path: &Path) -> Result<Self, ModelError> {
        let bytes = perforate_config::read_file(path)
            .map_err(|source| ModelError::File { path: path.into(), source })?;
        Self::parse(path, &String::from_utf8_lossy(&bytes))
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let mut file = Self { path: path.into(), runs: Vec::new(), is_scaled: false };
        let mut run = Run::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim().trim_start_matches('\u{feff}');
            if line.starts_with("# started on") {
                file.runs.extend(Some(std::mem::take(&mut run)).filter(|run| !run.is_empty()));
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let problem =
                |problem| ModelError::Line { path: path.into(), line: index + 1, problem };
            let Some(entry) = Entry::parse(line).map_err(problem)? else { continue };
            file.is_scaled |= entry.is_scaled;
            let line = index + 1;
            let count = run.entry(entry.event).or_insert(Count { value: Some(0.0), line });
            match (entry.value, &mut count.value) {
                (Some(value), Some(sum)) => *sum += value,
                _ => *count = Count { value: None, line },
            }
        }
        file.runs.extend(Some(run).filter(|run| !run.is_empty()));
        if file.runs.is_empty() {
            return Err(file.missing(format!(
                "no event that counts here; expected the output of `perf stat -x,` with {}",
                FIGURES[..3].iter().map(|figure| figure.events[0]).collect::<Vec<_>>().join(", ")
            )));
        }
        Ok(file)
    }

    fn missing(&self, problem: String) -> ModelError {
        ModelError::Missing { path: self.path.clone(), problem }
    }

    /// Returns the first event for `figure` that perf counted in all runs of the file.
    fn event(&self, figure: &Figure) -> Result<&'static str, ModelError> {
        let counted =
            |event: &&str, run: &Run| run.get(*event).is_some_and(|count| count.value.is_some());
        let events = || figure.events.iter().copied();
        if let Some(event) = events().find(|event| self.runs.iter().all(|run| counted(event, run)))
        {
            return Ok(event);
        }
        let uncounted =
            |run: &Run| events().find_map(|event| run.get(event).map(|count| (event, count.line)));
        Err(match self.runs.iter().find_map(uncounted) {
            Some((event, line)) => ModelError::Line {
                path: self.path.clone(),
                line,
                problem: format!(
                    "{event} was not counted in every run; perf needs a free counter and a \
                     processor that has the event"
                ),
            },
            None => self.missing(format!(
                "no event for {}; expected one of {}",
                figure.meaning,
                figure.events.join(", ")
            )),
        })
    }

    fn sum(&self, run: &Run, events: &[&str]) -> Result<f64, ModelError> {
        let value = |event: &&str| run.get(*event).and_then(|count| count.value);
        let sum = events.iter().map(value).sum::<Option<f64>>();
        sum.ok_or_else(|| self.missing(format!("{} was not counted", events.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<File, ModelError> {
        File::parse(Path::new("p.csv"), text)
    }

    fn value(text: &str, figure: &Figure) -> f64 {
        let file = parse(text).unwrap();
        let event = file.event(figure).unwrap();
        file.sum(&file.runs[0], &[event]).unwrap()
    }

    fn message<T>(outcome: Result<T, ModelError>) -> String {
        outcome.err().expect("an error").to_string()
    }

    #[test]
    fn lines_of_every_kind_of_output() {
        for (text, expected) in [
            ("1234,,cycles,1000,100.00,,", 1234.0),
            ("1234;;cycles;1000;100,00;;", 1234.0),
            ("1234\t\tcycles\t1000\t100.00", 1234.0),
            ("1234||cycles", 1234.0),
            ("1234,,cycles:u,1000,100.00,0.5,GHz", 1234.0),
            ("1000,,cycles:u,1000,100.00\n234,,cycles:k,1000,100.00", 1234.0),
            ("1234,,cpu_core/cycles/,1000,100.00", 1234.0),
            ("1000,,cpu_core/cycles/u,9,100.00\n234,,cpu_atom/cycles/u,9,100.00", 1234.0),
            ("     1.000104,1000,,cycles,1,100.00\n  2.000204,234,,cycles,1,100.00", 1234.0),
            ("CPU0,1000,,cycles,1,100.00\nCPU1,234,,cycles,1,100.00", 1234.0),
            ("S0,6,1234,,cycles,1,100.00", 1234.0),
            ("1234,,cycles,0.52%,1000,100.00,,", 1234.0),
            ("1234.5,,CPU-CYCLES,1000,100.00", 1234.5),
            ("# started on Sat\r\n\r\n1234,,cycles,1,100.00\r\n", 1234.0),
            ("\u{feff}1234,,cpu_clk_unhalted.thread,1,100.00", 1234.0),
        ] {
            assert_eq!(value(text, &CYCLES), expected, "{text:?}");
        }
    }

    #[test]
    fn scaled_counts_are_told() {
        assert!(!parse("12,,cycles,1000,100.00").unwrap().is_scaled);
        assert!(parse("12,,cycles,1000,66.70").unwrap().is_scaled);
        assert!(parse("12,,cycles,0.5%,1000,66.70").unwrap().is_scaled);
        assert!(!parse("12,,cycles,1000,99.50").unwrap().is_scaled);
        // An event that was not counted has no count to scale.
        let text = "12,,cycles,1000,100.00\n<not counted>,,dTLB-load-misses,0,0.00";
        assert!(!parse(text).unwrap().is_scaled);
    }

    #[test]
    fn the_first_name_that_was_counted_is_taken() {
        let text = "7,,dTLB-load-misses,1,100.00\n5,,dtlb_load_misses.walk_completed,1,100.00";
        assert_eq!(value(text, &LOAD_MISSES), 7.0);
        let text = "<not supported>,,dTLB-load-misses,0,100.00\n\
                    5,,dtlb_load_misses.walk_completed,1,100.00";
        assert_eq!(value(text, &LOAD_MISSES), 5.0);
    }

    #[test]
    fn overlapping_walks_are_told() {
        let text = "9,,cycles\n2,,dTLB-load-misses\n8,,dtlb_load_misses.walk_pending";
        let told = |text: &str| {
            let files = measure(&[parse(text).unwrap()], false, false).unwrap();
            files.notes.iter().any(|note| note.contains("overlap"))
        };
        assert!(told(text) && !told(&text.replace("pending", "active")));
    }

    #[test]
    fn errors_name_the_line_or_what_is_missing() {
        let message = |text: &str, figure: &Figure| {
            message(parse(text).and_then(|file| file.event(figure).map(str::to_owned)))
        };
        let text = "1,,cycles,1,100\n<not counted>,,dTLB-load-misses:u,0,0.00";
        let told = message(text, &LOAD_MISSES);
        assert!(told.starts_with("p.csv, line 2: dtlb-load-misses was not counted"), "{told}");
        let told = message("1,,cycles,1,100", &LOAD_WALK_CYCLES);
        assert!(told.contains("no event for walk cycles of loads; expected one of"), "{told}");
        assert!(told.contains("dtlb_load_misses.walk_active"), "{told}");
        let told = message("1,,cycles,1,100\nx12,,cycles,1,100", &CYCLES);
        assert!(told.starts_with("p.csv, line 2: \"x12\" is no count of cycles"), "{told}");
        for wrong in ["-5", "nan", "inf", ""] {
            let told = message(&format!("{wrong},,cycles,1,100"), &CYCLES);
            assert!(told.starts_with("p.csv, line 1: "), "{told}");
        }
        let told = message("cycles,12", &CYCLES);
        assert!(told.contains("line 1: cycles without a count"), "{told}");
        let told = message("Performance counter stats for 'ls':", &CYCLES);
        assert!(told.contains("line 1: \"Performance counter stats"), "{told}");
        let told = message("# started on Sat\n5,,page-faults,1,100", &CYCLES);
        assert!(told.contains("no event that counts here"), "{told}");
        assert!(message("", &CYCLES).contains("no event that counts here"));
    }

    /// Three runs in one file and one in another: the result is the median of four runs.
    #[test]
    fn appended_runs_and_several_files_become_medians() {
        let run = |cycles: u32, misses: u32| {
            format!(
                "# started on Sat\n\n{cycles},,cycles,1,100.00\n{misses},,dTLB-load-misses,1,100.00\n\
                 {},,dtlb_load_misses.walk_duration,1,100.00\n",
                misses * 10
            )
        };
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("a.csv"), folder.path().join("b.csv")];
        std::fs::write(&paths[0], run(200, 2) + run(400, 4).as_str() + run(100, 1).as_str())
            .unwrap();
        std::fs::write(&paths[1], run(300, 3)).unwrap();
        let groups = read_perf(&[&paths, &paths[1..]]).unwrap();
        let expected = Measured { cycles: 250.0, misses: 2.5, walk_cycles: 25.0 };
        assert_eq!(groups[0].measured, expected);
        assert_eq!(groups[1].measured.cycles_per_miss(), 10.0);
    }

    #[test]
    fn stores_count_where_all_files_have_them() {
        let loads = "100,,cycles\n4,,dTLB-load-misses\n40,,dtlb_load_misses.walk_active\n";
        let stores = "2,,dTLB-store-misses\n30,,dtlb_store_misses.walk_active\n";
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("a.csv"), folder.path().join("b.csv")];
        std::fs::write(&paths[0], [loads, stores].concat()).unwrap();
        std::fs::write(&paths[1], [loads, stores].concat()).unwrap();
        let groups = read_perf(&[&paths[..1], &paths[1..]]).unwrap();
        assert_eq!((groups[0].measured.misses, groups[0].measured.walk_cycles), (6.0, 70.0));
        std::fs::write(&paths[1], loads).unwrap();
        let groups = read_perf(&[&paths[..1], &paths[1..]]).unwrap();
        assert_eq!((groups[0].measured.misses, groups[0].measured.walk_cycles), (4.0, 40.0));
        let tells = |groups: &[PerfFiles]| {
            groups
                .iter()
                .any(|group| group.notes.iter().any(|note| note.starts_with("only loads count")))
        };
        assert!(tells(&groups));
        // If a file has the misses of stores but not their walk cycles, stores are ignored.
        std::fs::write(&paths[1], [loads, "2,,dTLB-store-misses\n"].concat()).unwrap();
        let groups = read_perf(&[&paths[..1], &paths[1..]]).unwrap();
        assert_eq!((groups[1].measured.misses, tells(&groups)), (4.0, true));
        assert!(!tells(&read_perf(&[&paths[1..]]).unwrap()), "no file has stores");
    }

    #[test]
    fn unreadable_and_empty_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.csv");
        assert!(message(read_perf(&[std::slice::from_ref(&path)])).contains("none.csv: "));
        std::fs::write(&path, "0,,cycles\n0,,dTLB-load-misses\n0,,dtlb_load_misses.walk_active")
            .unwrap();
        assert!(message(read_perf(&[&[path]])).contains("no cycles were counted"));
    }
}
