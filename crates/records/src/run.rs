//! Results of one run: one scheme, one workload, one machine, one seed.

use perforate_types::Counters;
use serde::{Deserialize, Serialize};

use crate::lenient::{counters, name, or_default, some_whole, whole};
use crate::{Batches, ContentsPoint, MemoryMap, MemoryPoint, Region, Sampled};

/// Beginning of the note on a run with too little translation work to tell schemes apart.
pub const TOO_LITTLE_WORK: &str =
    "there is too little translation work in this run to tell schemes apart";

/// Result of one scheme on one workload with one seed. A line of a file must have `scheme` and
/// `workload`; all other fields are optional.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the translation scheme; `GUEST+HOST` in a virtualized run.
    pub scheme: String,
    /// Translation scheme of the guest; `None` for native runs.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub guest: Option<String>,
    /// Translation scheme of the host; `None` for native runs.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub host: Option<String>,
    /// Name of the workload with its parameters, or name of the trace.
    pub workload: String,
    /// Name of the machine model.
    #[serde(default, deserialize_with = "or_default")]
    pub machine: String,
    /// Seed of the workload and of the initial state of memory.
    #[serde(default, deserialize_with = "or_default")]
    pub seed: u64,
    /// Number of measured instructions, without the warm-up; 0 if unknown.
    #[serde(default, deserialize_with = "whole")]
    pub instructions: u64,
    /// Number of the program's instructions that the measured ones represent; `None` unless the trace is a
    /// sample.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_whole")]
    pub instructions_represented: Option<u64>,
    /// Estimates for the whole program from the windows of a sampled trace; `None` unless the trace
    /// is a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Warm-up of the run: instructions before measurement started.
    #[serde(default, deserialize_with = "or_default")]
    pub warmup: Warmup,
    /// Number of cycles that the measured instructions took; `None` in functional mode (without timing).
    #[serde(default, deserialize_with = "some_whole")]
    pub cycles: Option<u64>,
    /// Instructions per cycle over the measured instructions; `None` in functional mode (without timing).
    #[serde(default)]
    pub ipc: Option<f64>,
    /// Busy and idle cycles of each hardware thread; empty with a single thread and in functional mode
    /// (without timing).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub hardware_threads: Vec<HardwareThread>,
    /// All counters of the run by name; names include the unit.
    #[serde(default, deserialize_with = "counters")]
    pub counters: Counters,
    /// Cycles and instructions of consecutive batches of the run; empty in functional mode (without timing).
    #[serde(default, skip_serializing_if = "Batches::is_empty", deserialize_with = "or_default")]
    pub batches: Batches,
    /// Samples over the course of the run: TLB contents and physical memory.
    #[serde(default, deserialize_with = "or_default")]
    pub series: Series,
    /// Holes of the first few perforated pages of the run.
    #[serde(default, deserialize_with = "or_default")]
    pub regions: Vec<Region>,
    /// Maps of physical memory at a few moments of the run.
    #[serde(default, deserialize_with = "or_default")]
    pub memory_maps: Vec<MemoryMap>,
    /// Changes of mode of virtualized direct segments, one text line for each (D Table III).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub mode_transitions: Vec<String>,
    /// Notes that a reader needs to interpret the run's figures.
    #[serde(default, deserialize_with = "or_default")]
    pub notes: Vec<String>,
    /// Complete configuration of the run as JSON.
    #[serde(default)]
    pub config: serde_json::Value,
    /// Version of the program that simulated the run.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
}

impl RunResult {
    /// Returns the value of the counter of this name; `None` if it is missing or not finite.
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.counters.get(name).filter(|value| value.is_finite())
    }

    /// Returns the number of measured instructions; `None` if the record lacks it.
    pub fn instructions(&self) -> Option<f64> {
        (self.instructions > 0).then_some(self.instructions as f64)
    }

    /// True if the trace is a sample with too few windows for a confidence interval.
    pub fn has_few_windows(&self) -> bool {
        self.sampled.as_ref().is_some_and(|sampled| sampled.windows < Sampled::LEAST_WINDOWS)
    }

    /// Returns the number of cycles of the measured instructions; `None` in functional mode (without timing).
    pub fn cycles(&self) -> Option<f64> {
        self.cycles.map(|cycles| cycles as f64)
    }
}

/// Activity of one hardware thread in the measured part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HardwareThread {
    /// Number of the core that the thread runs on.
    #[serde(deserialize_with = "whole")]
    pub core: u64,
    /// Number of instructions that the thread executed.
    #[serde(deserialize_with = "whole")]
    pub instructions: u64,
    /// Number of cycles in which the thread had instructions to run.
    #[serde(deserialize_with = "whole")]
    pub cycles: u64,
    /// Number of cycles in which the thread was idle.
    #[serde(deserialize_with = "whole")]
    pub idle_cycles: u64,
    /// Number of cycles in which the thread waited for address translation.
    #[serde(deserialize_with = "whole")]
    pub translation_stall_cycles: u64,
    /// Number of TLB shootdowns that the thread sent and waited for.
    #[serde(deserialize_with = "whole")]
    pub shootdowns_waited_for: u64,
    /// Number of cycles in which the thread waited for acknowledgements of its shootdowns.
    #[serde(deserialize_with = "whole")]
    pub shootdown_wait_cycles: u64,
    /// Number of times that the thread was interrupted by shootdowns of other threads.
    #[serde(deserialize_with = "whole")]
    pub shootdown_interrupts: u64,
    /// Number of cycles that the thread spent handling shootdowns of other threads.
    #[serde(deserialize_with = "whole")]
    pub shootdown_interrupt_cycles: u64,
}

/// Length of a run's warm-up, with its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Warmup {
    /// Number of instructions executed before measurement started.
    #[serde(deserialize_with = "whole")]
    pub instructions: u64,
    /// True if the user set the number of warm-up instructions.
    #[serde(deserialize_with = "or_default")]
    pub stated: bool,
    /// True if an earlier run determined the number of warm-up instructions.
    #[serde(deserialize_with = "or_default")]
    pub detected: bool,
    /// Number of warm-up instructions that would be enough for this scheme. `None` if the measured
    /// instructions are too few to tell, or if the run does not reach a steady state.
    #[serde(deserialize_with = "some_whole")]
    pub suggested_instructions: Option<u64>,
}

/// Samples of a run over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Number of entries of the second-level TLB by kind, over time.
    #[serde(deserialize_with = "or_default")]
    pub l2_tlb_contents: Vec<ContentsPoint>,
    /// State of physical memory over time.
    #[serde(deserialize_with = "or_default")]
    pub memory: Vec<MemoryPoint>,
}

#[cfg(test)]
mod tests {
    use perforate_types::CounterValue;

    use super::*;

    #[test]
    fn a_counter_that_is_no_number_is_none() {
        let run: RunResult = serde_json::from_str(r#"{"scheme":"4k","workload":"w"}"#).unwrap();
        let with = |number| {
            let counter = ("ipc".to_string(), CounterValue::Ratio(number));
            RunResult { counters: [counter].into_iter().collect(), ..run.clone() }
        };
        let read = [1.5, f64::NAN, f64::INFINITY].map(|number| with(number).counter("ipc"));
        assert_eq!(read, [Some(1.5), None, None]);
    }

    #[test]
    fn a_sampled_run_has_few_windows_below_30() {
        let has_few = |fields: &str| {
            let text = format!(r#"{{"scheme":"4k","workload":"w"{fields}}}"#);
            serde_json::from_str::<RunResult>(&text).unwrap().has_few_windows()
        };
        let found =
            [r#","sampled":{"windows":29}"#, r#","sampled":{"windows":30}"#, ""].map(has_few);
        assert_eq!(found, [true, false, false]);
    }

    /// A run without anything else, and one with fields that other programs leave out.
    #[test]
    fn a_run_needs_a_scheme_and_a_workload_only() {
        let text = r#"{"scheme":"4k","workload":"w","guest":" ","machine":null,"seed":null,"hardware_threads":[{"core":1.0}],
            "sampled":{"windows":3},"batches":null,"warmup":{"stated":null,"suggested_instructions":-1}}"#;
        let run: RunResult = serde_json::from_str(text).unwrap();
        assert_eq!((run.guest, run.seed, run.machine.as_str()), (None, 0, ""));
        assert_eq!(run.hardware_threads, [HardwareThread { core: 1, ..HardwareThread::default() }]);
        let sampled = run.sampled.unwrap();
        assert_eq!(
            (sampled.windows, sampled.only_timing, sampled.instructions_counted),
            (3, false, 0)
        );
        assert!(
            run.batches.is_empty()
                && !run.warmup.stated
                && run.warmup.suggested_instructions.is_none()
        );
        let bare: RunResult = serde_json::from_str(r#"{"scheme":"4k","workload":"w"}"#).unwrap();
        assert_eq!((bare.instructions(), bare.cycles()), (None, None));
        let one = RunResult { instructions: 1, cycles: Some(7), ..bare.clone() };
        assert_eq!((one.instructions(), one.cycles()), (Some(1.0), Some(7.0)));
        let written = serde_json::to_value(&bare).unwrap();
        for absent in [
            "guest",
            "host",
            "instructions_represented",
            "sampled",
            "hardware_threads",
            "batches",
            "mode_transitions",
        ] {
            assert!(written.get(absent).is_none(), "{absent}");
        }
        for present in [
            "machine",
            "seed",
            "cycles",
            "ipc",
            "counters",
            "series",
            "regions",
            "memory_maps",
            "notes",
            "config",
            "version",
        ] {
            assert!(written.get(present).is_some(), "{present}");
        }
        let timing = |only_timing| {
            serde_json::to_value(Sampled { only_timing, ..Sampled::default() }).unwrap()
        };
        assert!(timing(false).get("only_timing").is_none() && timing(true)["only_timing"] == true);
    }
}
