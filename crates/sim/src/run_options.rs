//! Options of a run besides its memory.

use std::borrow::Cow;

use perforate_config::{ConfigError, Count, Key, Share, keys};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::{Machine, MemoryOptions, ProcessorOptions, TimedWindows, Timing};

/// Machine, seed, and part of the workload.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlacementOptions {
    /// Machine: a name from `perforate list machines` or a machine file; on the command line also
    /// host, this machine by CPUID and what `perforate calibrate` measured.
    #[schemars(extend("form" = "NAME|FILE"))]
    #[schemars(extend("brief" = "A name (`perforate list machines`), a file, or host: this machine"))]
    pub machine: String,
    /// Seed of workload and memory; the same seed gives the same results.
    #[schemars(extend("brief" = "Seed of workload and memory"))]
    pub seed: Count,
    /// Instructions to pass over first; what they map stays mapped.
    #[schemars(extend("brief" = "Instructions to pass over first"))]
    pub skip: Count,
    /// Instructions to run, warm-up included, for example 10M [default: the whole trace, 20M of a
    /// workload].
    #[schemars(extend("brief" = "Instructions to run, such as 10M [default: all; 20M of a workload]"))]
    pub instructions: Option<Count>,
    /// Other workloads or traces that run beside the workload, as programs of their own that take short
    /// turns with it, or run on other hardware threads: names with + between them.
    #[schemars(extend("form" = "NAME[+NAME…]"))]
    #[schemars(extend("brief" = "Other programs that run beside it, with + between their names"))]
    pub beside: Option<String>,
    /// Threads that do the work of a synthetic workload, in short turns. A trace has the threads that
    /// were recorded.
    #[schemars(extend("brief" = "Threads that share the work of a synthetic workload"))]
    pub threads: Count<1>,
    /// Cores, each with its own caches, TLBs and page walkers, but for the last-level cache. Threads of
    /// the programs run side by side on them; each stays where it begins, on the hardware thread that
    /// has the fewest.
    #[schemars(extend("brief" = "Cores on which threads and programs run side by side"))]
    pub cores: Count<1>,
    /// Hardware threads of each core (SMT), which share its caches, TLBs and page walkers and have equal
    /// parts of its queues.
    #[schemars(extend("brief" = "Hardware threads of a core, which share its TLBs and caches"))]
    pub threads_per_core: Count<1>,
    /// With several hardware threads: turns of threads within so many instructions of a recording are
    /// taken to have run side by side; requests to the operating system keep their place. 0 keeps the
    /// order of the recording.
    #[schemars(extend("brief" = "Recorded instructions within which threads run side by side"))]
    pub side_by_side: Count,
}

impl PlacementOptions {
    /// The cores, and what runs on them.
    pub fn processors(&self) -> ProcessorOptions {
        ProcessorOptions {
            cores: self.cores.get(),
            threads_per_core: self.threads_per_core.get(),
            side_by_side: self.side_by_side.get(),
        }
    }
}

impl Default for PlacementOptions {
    fn default() -> Self {
        let (machine, processors) = (Machine::DEFAULT.into(), ProcessorOptions::default());
        Self {
            machine,
            seed: Count::new(1),
            skip: Count::new(0),
            instructions: None,
            beside: None,
            threads: Count::new(1),
            cores: Count::new(processors.cores),
            threads_per_core: Count::new(processors.threads_per_core),
            side_by_side: Count::new(processors.side_by_side),
        }
    }
}

/// Warm-up, clock and checks of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MeasuringOptions {
    /// Instructions before measuring starts, or auto: as many as every scheme takes to settle,
    /// found by running twice [default: a fifth of the run].
    #[schemars(extend("form" = "N|auto"))]
    #[schemars(extend("brief" = "Instructions before measuring starts, or auto [default: a fifth]"))]
    pub warmup: Option<WarmupLength>,
    /// How much is timed: full, or sampled: one window of so many instructions at a random place in
    /// each period (sampled=WINDOW/PERIOD; sampled alone is sampled=10k/500k), the rest only seen by
    /// caches, TLBs and predictors.
    #[schemars(extend("form" = "full|sampled[=N/M]"))]
    #[schemars(extend("brief" = "Time all, or N in every M instructions"))]
    pub timing: Timing,
    /// With sampled timing: end the run once IPC and speed-ups of all schemes are known to within this
    /// share, 95 % of the time.
    #[schemars(extend("form" = "P%"))]
    #[schemars(extend("brief" = "With --timing sampled: stop at this half-width of the 95% interval"))]
    pub precision: Option<Share>,
    /// Instructions at the beginning of each window of a sampled trace that are left out of the
    /// figures with ±; or timed before each window of sampled timing [default: 0, with sampled
    /// timing 2000].
    pub window_warmup: Option<Count>,
    /// Count events only, without a clock: faster, no IPC.
    pub functional: bool,
    /// Compare every translation with the oracle.
    pub check: bool,
}

impl MeasuringOptions {
    /// The warm-up, where it is stated.
    pub(crate) fn stated_warmup(&self) -> Option<u64> {
        match self.warmup {
            Some(WarmupLength::Instructions(instructions)) => Some(instructions),
            Some(WarmupLength::Detected) | None => None,
        }
    }

    /// Windows that are timed, where not all is.
    pub(crate) fn timed_windows(&self) -> Option<TimedWindows> {
        match self.timing {
            Timing::Sampled(windows) if !self.functional => Some(windows),
            Timing::Sampled(_) | Timing::Full => None,
        }
    }

    /// Instructions at the beginning of each window that are not counted.
    pub(crate) fn window_warmup(&self) -> u64 {
        let default = if self.timed_windows().is_some() { TimedWindows::WARMUP } else { 0 };
        self.window_warmup.map_or(default, Count::get)
    }

    /// Refuses combinations that cannot be.
    ///
    /// # Errors
    /// Sampled timing without a clock, a precision without windows, windows that do not fit into
    /// their period.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Timing::Sampled(TimedWindows { window, period }) = self.timing else {
            return match self.precision {
                Some(_) => Err(ConfigError::new("is for --timing sampled").under("precision")),
                None => Ok(()),
            };
        };
        if self.precision.is_some_and(|share| share.value() == 0.0) {
            return Err(ConfigError::new("no sample is without error").under("precision"));
        }
        if self.functional {
            return Err(ConfigError::new("functional runs have no clock").under("timing"));
        }
        let warmup = self.window_warmup();
        if period - window < warmup {
            let problem = format!(
                "windows of {window} with {warmup} instructions before them that are not counted do \
                 not fit into {period}; a longer period, or a shorter window-warmup"
            );
            return Err(ConfigError::new(problem).under("timing"));
        }
        Ok(())
    }

    /// True if everything runs twice, a first time to find how long the warm-up must be.
    pub(crate) fn detects_warmup(&self) -> bool {
        self.warmup == Some(WarmupLength::Detected)
    }
}

/// How long the warm-up is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmupLength {
    /// As many instructions as said.
    Instructions(u64),
    /// As many as are found to be needed.
    Detected,
}

impl<'de> Deserialize<'de> for WarmupLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "auto" {
            return Ok(Self::Detected);
        }
        let count = text.parse::<Count>().map_err(|error| format!("{error}; or auto"));
        count.map(|count| Self::Instructions(count.get())).map_err(D::Error::custom)
    }
}

impl JsonSchema for WarmupLength {
    fn schema_name() -> Cow<'static, str> {
        "WarmupLength".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"] })
    }
}

impl MemoryOptions {
    /// All options of memory and, after `host-`, of the host's.
    pub fn keys() -> Vec<Key> {
        let all = keys::<Self>();
        let is_shared = |key: &&Key| !Self::GUEST_ONLY.contains(&key.name.as_str());
        let of_host = |key: &Key| Key {
            name: format!("host-{}", key.name),
            help: format!("As {}, of the host under a virtual machine", key.name),
            brief: format!("As {}, of the host", key.name),
            ..key.clone()
        };
        let hosts: Vec<Key> = all.iter().filter(is_shared).map(of_host).collect();
        let own = all.into_iter().filter(|key| key.name != "host");
        own.chain(hosts).collect()
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::read;

    use super::*;

    #[test]
    fn a_warmup_is_said_or_found() {
        assert_eq!(read("auto"), Ok(WarmupLength::Detected));
        assert_eq!(read("2M"), Ok(WarmupLength::Instructions(2_000_000)));
        let error = read::<WarmupLength>("some").unwrap_err().to_string();
        assert!(error.contains("expected a whole number") && error.ends_with("or auto"), "{error}");
    }

    #[test]
    fn a_host_has_the_options_of_its_guest() {
        let names: Vec<String> = MemoryOptions::keys().into_iter().map(|key| key.name).collect();
        let has = |name: &str| names.iter().any(|known| known == name);
        assert!(has("memory-from") && has("host-memory-from") && has("host-ksm") && has("modes"));
        assert!(!has("host") && !has("host-modes") && !has("host-host"));
    }
}
