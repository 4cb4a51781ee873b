//! One run: one scheme, one workload, one machine, one seed.

use perforate_types::Counters;
use serde::{Deserialize, Serialize};

use crate::lenient::{counters, name, or_default, some_whole, whole};
use crate::{Batches, ContentsPoint, MemoryMap, MemoryPoint, Region, Sampled};

/// Result of one scheme on one workload with one seed. A line of a file must have `scheme` and
/// `workload`, and nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Scheme, or the pair `GUEST+HOST`.
    pub scheme: String,
    /// Scheme of the guest; absent without virtualization.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub guest: Option<String>,
    /// Scheme of the host; absent without virtualization.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "name")]
    pub host: Option<String>,
    /// Workload with its parameters, or the trace's name.
    pub workload: String,
    /// Machine.
    #[serde(default, deserialize_with = "or_default")]
    pub machine: String,
    /// Seed of workload and memory.
    #[serde(default, deserialize_with = "or_default")]
    pub seed: u64,
    /// Instructions measured, warm-up apart; 0 where nothing is said.
    #[serde(default, deserialize_with = "whole")]
    pub instructions: u64,
    /// Instructions of the program that they stand for; absent unless the trace is a sample.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_whole")]
    pub instructions_represented: Option<u64>,
    /// What the windows of a sampled trace say of the whole program; absent likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Instructions before measuring, and whether they were enough.
    #[serde(default, deserialize_with = "or_default")]
    pub warmup: Warmup,
    /// Cycles they took; none in functional mode.
    #[serde(default, deserialize_with = "some_whole")]
    pub cycles: Option<u64>,
    /// Instructions per cycle; none in functional mode.
    #[serde(default)]
    pub ipc: Option<f64>,
    /// What each hardware thread did; absent where there was but one, and in functional mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub hardware_threads: Vec<HardwareThread>,
    /// All figures, units in the names.
    #[serde(default, deserialize_with = "counters")]
    pub counters: Counters,
    /// Cycles of parts of the run; none in functional mode.
    #[serde(default, skip_serializing_if = "Batches::is_empty", deserialize_with = "or_default")]
    pub batches: Batches,
    /// Figures over time.
    #[serde(default, deserialize_with = "or_default")]
    pub series: Series,
    /// The first few perforated pages with their holes.
    #[serde(default, deserialize_with = "or_default")]
    pub regions: Vec<Region>,
    /// What physical memory held at a few moments.
    #[serde(default, deserialize_with = "or_default")]
    pub memory_maps: Vec<MemoryMap>,
    /// Modes of virtualized direct segments that came and went, a line each (D Table III).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub mode_transitions: Vec<String>,
    /// What a reader must know to judge the figures.
    #[serde(default, deserialize_with = "or_default")]
    pub notes: Vec<String>,
    /// Everything the run was made from.
    #[serde(default)]
    pub config: serde_json::Value,
    /// Version of the program.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
}

impl RunResult {
    /// The counter of this name.
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.counters.get(name).filter(|value| value.is_finite())
    }

    /// Instructions measured, where the file says how many.
    pub fn instructions(&self) -> Option<f64> {
        (self.instructions > 0).then_some(self.instructions as f64)
    }

    /// True if the run is a sample with too few windows for a confidence interval.
    pub fn has_few_windows(&self) -> bool {
        self.sampled.as_ref().is_some_and(|sampled| sampled.windows < Sampled::LEAST_WINDOWS)
    }

    /// Cycles, where there was a clock.
    pub fn cycles(&self) -> Option<f64> {
        self.cycles.map(|cycles| cycles as f64)
    }
}

/// One hardware thread in the measured part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HardwareThread {
    /// The core that it is of.
    #[serde(deserialize_with = "whole")]
    pub core: u64,
    /// Instructions.
    #[serde(deserialize_with = "whole")]
    pub instructions: u64,
    /// Cycles in which it had something to run.
    #[serde(deserialize_with = "whole")]
    pub cycles: u64,
    /// Cycles in which it had nothing.
    #[serde(deserialize_with = "whole")]
    pub idle_cycles: u64,
    /// Cycles of waiting for address translation.
    #[serde(deserialize_with = "whole")]
    pub translation_stall_cycles: u64,
    /// Shootdowns that it sent to others and waited for.
    #[serde(deserialize_with = "whole")]
    pub shootdowns_waited_for: u64,
    /// Cycles that it waited.
    #[serde(deserialize_with = "whole")]
    pub shootdown_wait_cycles: u64,
    /// Times that it was interrupted for a shootdown.
    #[serde(deserialize_with = "whole")]
    pub shootdown_interrupts: u64,
    /// Cycles that it took to answer.
    #[serde(deserialize_with = "whole")]
    pub shootdown_interrupt_cycles: u64,
}

/// The warm-up of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Warmup {
    /// Instructions before measuring started.
    #[serde(deserialize_with = "whole")]
    pub instructions: u64,
    /// Whether the user said how many.
    #[serde(deserialize_with = "or_default")]
    pub stated: bool,
    /// Whether they were detected in a run before.
    #[serde(deserialize_with = "or_default")]
    pub detected: bool,
    /// How many would have been enough under this scheme; none where the measured part is too short
    /// to tell, or does not settle.
    #[serde(deserialize_with = "some_whole")]
    pub suggested_instructions: Option<u64>,
}

/// Figures over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Entries of the second-level TLB by kind.
    #[serde(deserialize_with = "or_default")]
    pub l2_tlb_contents: Vec<ContentsPoint>,
    /// Physical memory as a whole.
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
}
