//! Output of `perf stat -x,`: which events count, and reading them.
//!
//! A line is `value,unit,event,…`, with a time stamp or processors before it where perf was asked
//! for them; perf quotes nothing, so a line is understood from the event it names. What perf was run
//! with may differ: any of the separators `,` `;` `|` and tab, event modifiers (`:u`, `:k`; both are
//! added), hybrid processors (`cpu_core/…/`), several intervals or processors (added up), several
//! runs in one file (`perf stat --append`; medians), runs repeated by perf (`-r`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::ModelError;
use super::measured::{Measured, medians};

/// What an event counts, and the names it goes by; of several the first that was counted is taken.
struct Figure {
    meaning: &'static str,
    events: &'static [&'static str],
}

const CYCLES: Figure = Figure {
    meaning: "cycles",
    events: &["cycles", "cpu-cycles", "cpu_clk_unhalted.thread", "cpu_clk_unhalted.core"],
};
/// `walk_duration`: Sandy Bridge to Broadwell. `walk_active`: cycles with at least one walk, from
/// Skylake. `walk_pending`: the same with every walk counted, where walks overlap more than time.
const LOAD_WALK_CYCLES: Figure = Figure {
    meaning: "walk cycles of loads",
    events: &[
        "dtlb_load_misses.walk_duration",
        "dtlb_load_misses.walk_active",
        "dtlb_load_misses.walk_pending",
    ],
};
const STORE_WALK_CYCLES: Figure = Figure {
    meaning: "walk cycles of stores",
    events: &[
        "dtlb_store_misses.walk_duration",
        "dtlb_store_misses.walk_active",
        "dtlb_store_misses.walk_pending",
    ],
};
/// On Intel's processors the generic event is the first. AMD's counts loads and stores.
const LOAD_MISSES: Figure = Figure {
    meaning: "walks of loads",
    events: &[
        "dtlb_load_misses.miss_causes_a_walk",
        "dtlb-load-misses",
        "dtlb_load_misses.walk_completed",
        "ls_l1_d_tlb_miss.all_l2_miss",
    ],
};
const STORE_MISSES: Figure = Figure {
    meaning: "walks of stores",
    events: &[
        "dtlb_store_misses.miss_causes_a_walk",
        "dtlb-store-misses",
        "dtlb_store_misses.walk_completed",
    ],
};
const FIGURES: [&Figure; 5] =
    [&CYCLES, &LOAD_WALK_CYCLES, &LOAD_MISSES, &STORE_WALK_CYCLES, &STORE_MISSES];

/// The accepted events, for a help text.
pub const ACCEPTED_EVENTS: &str = "\
cycles           cycles, cpu-cycles, cpu_clk_unhalted.thread, cpu_clk_unhalted.core
  walk cycles      dtlb_load_misses.{walk_duration, walk_active or walk_pending}
  misses           dtlb_load_misses.miss_causes_a_walk, dTLB-load-misses,
                   dtlb_load_misses.walk_completed, ls_l1_d_tlb_miss.all_l2_miss
  and if all files have both, the walk cycles and misses of dtlb_store_misses, dTLB-store-misses";

/// What was read of a group of files.
pub struct PerfFiles {
    /// Medians over all runs in them.
    pub measured: Measured,
    /// Which events were taken, and what to know about them.
    pub notes: Vec<String>,
}

/// A count, or why there is none.
#[derive(Clone, Copy)]
struct Count {
    value: Option<f64>,
    line: usize,
}

/// One run: counts by event.
type Run = BTreeMap<String, Count>;

struct File {
    path: PathBuf,
    runs: Vec<Run>,
    is_scaled: bool,
}

/// Reads groups of files (native runs, virtualized runs, …), each with at least one file. The same
/// events are taken everywhere: loads, and stores where all files have them.
///
/// # Errors
/// An unreadable file, a line that cannot be understood, an event that is missing or was not counted.
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
        let bytes =
            std::fs::read(path).map_err(|source| ModelError::File { path: path.into(), source })?;
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

    /// The event of a figure that all runs counted, else the first that is there.
    fn event(&self, figure: &Figure) -> Result<&'static str, ModelError> {
        let counted =
            |event: &&str, run: &Run| run.get(*event).is_some_and(|count| count.value.is_some());
        let events = || figure.events.iter().copied();
        if let Some(event) = events().find(|event| self.runs.iter().all(|run| counted(event, run)))
        {
            return Ok(event);
        }
        let uncounted = |run: &Run| {
            let count = events().find_map(|event| run.get(event).map(|count| (event, count.line)));
            count
        };
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

/// One line about an event that counts here.
struct Entry {
    event: String,
    /// None: perf could not count it.
    value: Option<f64>,
    is_scaled: bool,
}

const SEPARATORS: [char; 4] = [',', ';', '|', '\t'];

impl Entry {
    /// None for a line about another event.
    fn parse(line: &str) -> Result<Option<Self>, String> {
        let split = |separator: char| line.split(separator).map(str::trim).collect::<Vec<_>>();
        let known = |fields: &[&str]| fields.iter().position(|field| event_name(field).is_some());
        let found = SEPARATORS.iter().find_map(|&separator| {
            let fields = split(separator);
            known(&fields).map(|place| (fields, place))
        });
        let Some((fields, place)) = found else {
            let is_table = SEPARATORS.iter().any(|&separator| line.contains(separator));
            return if is_table { Ok(None) } else { Err(unreadable(line)) };
        };
        let event = event_name(fields[place]).expect("it was found by that");
        let Some(text) = place.checked_sub(2).map(|place| fields[place]) else {
            return Err(format!(
                "{} without a count; expected value,unit,event as `perf stat -x,` writes it",
                fields[place]
            ));
        };
        let value = match text {
            "<not counted>" | "<not supported>" => None,
            _ => Some(number(text).ok_or_else(|| {
                format!("{text:?} is no count of {}; expected a number", fields[place])
            })?),
        };
        // A deviation (with -r) may come before the counter's run time and its share.
        let after = fields[place + 1..].iter().filter(|field| !field.ends_with('%')).nth(1);
        let share = after.and_then(|share| number(share)).filter(|_| value.is_some());
        let is_scaled = share.is_some_and(|share| share < 99.5);
        Ok(Some(Self { event, value, is_scaled }))
    }
}

fn unreadable(line: &str) -> String {
    let start: String = line.chars().take(40).collect();
    format!("{start:?} is no line of `perf stat -x,`; expected value,unit,event,…")
}

/// A count; a decimal comma can occur where the separator is another.
fn number(text: &str) -> Option<f64> {
    let value: f64 = text.replace(',', ".").parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// The name of an event that counts here, without its unit and modifiers, in lower case.
fn event_name(field: &str) -> Option<String> {
    let lower = field.to_ascii_lowercase();
    let mut name = lower.as_str();
    // cpu_core/cycles/u and cpu/cycles/
    if let Some((unit, rest)) = name.split_once('/') {
        if unit.starts_with("cpu") {
            name = rest.rsplit_once('/').map_or(rest, |(name, _modifiers)| name);
        }
    }
    let name = name.split_once(':').map_or(name, |(name, _modifiers)| name);
    let known = FIGURES.iter().flat_map(|figure| figure.events).any(|event| *event == name);
    known.then(|| name.to_owned())
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

    /// Three runs appended to one file and one in a second: the medians of four.
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
        std::fs::write(&paths[0], run(100, 1) + &run(400, 4) + &run(200, 2)).unwrap();
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
        assert!(groups[0].notes.iter().any(|note| note.starts_with("only loads count")));
    }

    #[test]
    fn unreadable_and_empty_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.csv");
        assert!(message(read_perf(&[&[path.clone()]])).contains("none.csv: "));
        std::fs::write(&path, "0,,cycles\n0,,dTLB-load-misses\n0,,dtlb_load_misses.walk_active")
            .unwrap();
        assert!(message(read_perf(&[&[path]])).contains("no cycles were counted"));
    }
}
