//! Hardware counters of a native run of the recorded program, next to the prediction: `compare --counters --
//! PROG`.

use std::ffi::OsString;

use crate::actions::Failure;
use perforate_host::counters::{Absence, Readings};
use perforate_host::program::{ProgramTime, count_program};
use perforate_report::text::compact;
use perforate_sim::RunResult;

/// Counters of a native run of the program, or the reason why they are missing.
pub struct NativeCounters(Result<ProgramTime, Absence>);

impl NativeCounters {
    /// Runs the program once natively, if this machine has hardware counters.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn measure(program: &[OsString]) -> Result<Self, Failure> {
        Ok(Self(count_program(program)?))
    }

    /// Adds the readings of the counters to all results of one comparison.
    pub fn annotate(&self, results: &mut [RunResult]) {
        let note = self.note(results);
        for result in results {
            result.notes.push(note.clone());
            if let Ok(time) = &self.0 {
                result.config["hardware_counters"] = serde_json::json!({
                    "readings": time.counters,
                    "user_seconds": time.user.as_secs_f64(),
                });
            }
        }
    }

    fn note(&self, results: &[RunResult]) -> String {
        let time = match &self.0 {
            Ok(time) => time,
            Err(absence) => return absence.to_string(),
        };
        let Readings { instructions, .. } = time.counters;
        let instructions = instructions
            .map_or(String::new(), |count| format!("{} instructions, ", compact(count as f64)));
        let exit = match time.exit_code {
            Some(0) => String::new(),
            Some(code) => format!(" (it ended with exit code {code})"),
            None => " (a signal ended it)".into(),
        };
        let predicted: Vec<String> = results.iter().map(predicted).collect();
        format!(
            "hardware counters of one native run of the whole program in user mode, in the pages that \
             this system gives it, its output discarded{exit}: {instructions}{}. Predicted for what was \
             recorded: {}",
            measured(&time.counters),
            predicted.join("; ")
        )
    }
}

/// Formats rates of the native run (per 1000 instructions). Unlike totals, they are comparable with those of
/// the simulated part of the program.
fn measured(readings: &Readings) -> String {
    let kilo = readings.instructions.map_or(0.0, |count| count as f64 / 1000.0);
    let rates = readings.per(kilo);
    let ipc = rates.cycles.map(|cycles| 1000.0 / cycles);
    let misses = rates.tlb_misses.map(|rate| (rate, "loads that miss all data TLBs"));
    in_words(ipc, misses, rates.walk_cycles)
}

fn predicted(result: &RunResult) -> String {
    let kilo = result.instructions as f64 / 1000.0;
    let rate = |name| Some(result.counters.get(name)? / kilo);
    let walks = rate("walks").map(|rate| (rate, "walks"));
    format!("{} {}", result.scheme, in_words(result.ipc, walks, rate("walk_cycles")))
}

fn in_words(
    ipc: Option<f64>,
    misses: Option<(f64, &'static str)>,
    walk_cycles: Option<f64>,
) -> String {
    let ipc = ipc.map(|ipc| format!("IPC {ipc:.2}"));
    let misses = misses.map(|(rate, name)| format!("{rate:.2} {name}"));
    let cycles = walk_cycles.map(|rate| format!("{rate:.1} cycles of walks"));
    let rates: Vec<String> = misses.into_iter().chain(cycles).collect();
    let rates = match rates.is_empty() {
        true => None,
        false => Some(format!("{} per 1,000 instructions", rates.join(" and "))),
    };
    ipc.into_iter().chain(rates).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn results() -> Vec<RunResult> {
        let lines = r#"{"scheme":"4k","workload":"w","instructions":1000000,"ipc":0.5,"counters":{"walks":2500,"walk_cycles":125000},"notes":[],"config":{}}"#;
        perforate_records::read_results(lines).unwrap()
    }

    #[test]
    fn planted_readings_stand_beside_the_prediction() {
        let counters = Readings {
            cycles: Some(4_000_000_000),
            instructions: Some(2_000_000_000),
            tlb_misses: Some(6_000_000),
            walk_cycles: Some(180_000_000),
        };
        let second = Duration::from_secs(1);
        let times = ProgramTime { user: second, wall: second, ..ProgramTime::default() };
        let time = ProgramTime { exit_code: Some(0), counters, ..times };
        let mut found = results();
        NativeCounters(Ok(time)).annotate(&mut found);
        let note = &found[0].notes[0];
        let expected = "discarded: 2.00G instructions, IPC 0.50, 3.00 loads that miss all data TLBs and \
                        90.0 cycles of walks per 1,000 instructions. Predicted for what was recorded: 4k \
                        IPC 0.50, 2.50 walks and 125.0 cycles of walks per 1,000 instructions";
        assert!(note.ends_with(expected), "{note}");
        assert_eq!(found[0].config["hardware_counters"]["readings"]["tlb_misses"], 6_000_000);
        let failed = ProgramTime { exit_code: Some(3), ..time };
        assert!(
            NativeCounters(Ok(failed)).note(&results()).contains("(it ended with exit code 3)")
        );
    }

    #[test]
    fn without_some_counters_the_others_are_told() {
        let readings = Readings { tlb_misses: None, ..Readings::default() };
        assert_eq!(measured(&readings), "");
        let cycles = Readings { cycles: Some(10), instructions: Some(20), ..readings };
        assert_eq!(measured(&cycles), "IPC 2.00");
    }

    #[test]
    fn where_there_are_no_counters_the_reason_is_told() {
        match NativeCounters::measure(&["true".into()]) {
            Ok(NativeCounters(Ok(_))) => println!("skipped: this machine has counters"),
            Ok(counted) => {
                let mut found = results();
                counted.annotate(&mut found);
                let note = &found[0].notes[0];
                assert!(note.starts_with("hardware counters are not available here: "), "{note}");
                assert!(found[0].config.get("hardware_counters").is_none());
            }
            Err(error) => println!("skipped: {error}"),
        }
    }
}
