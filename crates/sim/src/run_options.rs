//! Options of placement and measuring. The options of memory are in [`crate::MemoryOptions`].

use std::borrow::Cow;

use perforate_config::{ConfigError, Count, Share, options};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AdvisedRanges, Machine, ProcessorOptions, TimedWindows, Timing};

options! {
    /// Machine, seed, part of the workload, and processors that it runs on.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct PlacementOptions, () {
        /// Machine: a name from `perforate list machines` or a machine file; on the command line also
        /// host, this machine by CPUID and what `perforate calibrate` measured.
        machine: String = Machine::DEFAULT.to_owned(), Machine {
            form: "NAME|FILE",
            brief: "A name (`perforate list machines`), a file, or host: this machine",
        };
        /// Seed of workload and memory; the same seed gives the same results.
        seed: Count = Count::new(1), Length {
            brief: "Seed of workload and memory",
        };
        /// Instructions of the program to leave out at first; memory that they map stays mapped.
        skip: Count, Length {
            brief: "Instructions of the program to leave out at first",
        };
        /// Instructions to run, warm-up included, for example 10M [default: the whole trace, 20M of a
        /// workload].
        instructions: Option<Count>, Length {
            brief: "Instructions to run, such as 10M [default: all; 20M of a workload]",
        };
        /// Other workloads or traces that run at the same time as separate programs, on other
        /// hardware threads or in short turns with the workload: names with + between them.
        beside: Option<String>, Program {
            is_rare: true,
            form: "NAME[+NAME…]",
            brief: "Other programs that run beside it, with + between their names",
        };
        /// Threads that share the work of a synthetic workload in short turns. A trace has the
        /// threads that were recorded.
        threads: Count<1> = Count::new(1), Program {
            is_rare: true,
            brief: "Threads that share the work of a synthetic workload",
        };
        /// Ranges of addresses for which the program requests large pages (MADV_HUGEPAGE) as soon as it maps
        /// memory there, besides its own requests: START-END,…, or a file with one range a line;
        /// PROCESS:START-END for another process than the first. The scheme thp-madvise has large pages there;
        /// START-END=64K asks for pages of another size than 2MB in that range: 16K to 1M, or 1G.
        #[schemars(with = "Option<String>")]
        madvise: Option<AdvisedRanges>, Program {
            is_rare: true,
            form: "START-END,…|FILE",
            brief: "Ranges of addresses for which the program requests large pages",
        };
        /// Cores, each with its own TLBs, page walkers and caches; they share the last-level cache.
        /// Each thread of the programs stays on one hardware thread: the one with the fewest
        /// threads when it begins.
        cores: Count<1> = Count::new(1), Machine {
            brief: "Cores on which threads and programs run side by side",
        };
        /// Hardware threads of each core (SMT), which share its caches, TLBs and page walkers and have equal
        /// parts of its queues.
        threads_per_core: Count<1> = Count::new(1), Machine {
            is_rare: true,
            brief: "Hardware threads of a core, which share its TLBs and caches",
        };
        /// With several hardware threads: window of a recording, in instructions, within which its
        /// threads run at the same time, although the recorder ran one after the other. Requests to
        /// the operating system keep their place. 0 keeps the recorded order.
        side_by_side: Count = Count::new(2_000_000), Machine {
            is_rare: true,
            brief: "Recorded instructions within which threads run side by side",
        };
    }
}

options! {
    /// Warm-up, clock and checks of a run.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    pub struct MeasuringOptions, () {
        /// Instructions before measuring starts, or auto: as many as every scheme takes to settle,
        /// found by running twice [default: a fifth of the run].
        warmup: Option<WarmupLength>, Length {
            form: "N|auto",
            brief: "Instructions before measuring starts, or auto [default: a fifth]",
        };
        /// Instructions that are timed: full, all of them; sampled=WINDOW/PERIOD, a window of
        /// WINDOW instructions at a random place in every PERIOD instructions, while the others
        /// only update caches, TLBs and branch predictors; sampled alone is sampled=10k/500k.
        timing: Timing, Length {
            form: "full|sampled[=N/M]",
            brief: "Time all, or N in every M instructions",
        };
        /// With sampled timing: end the run once the 95 % confidence intervals of all schemes' IPC
        /// and speed-ups are at most ± this share.
        precision: Option<Share>, Length {
            is_rare: true,
            form: "P%",
            brief: "With --timing sampled: stop at this half-width of the 95% interval",
        };
        /// Instructions at the beginning of each window of a sampled trace that do not count in
        /// figures with ±. With sampled timing: instructions timed before each window without
        /// counting [default: 0, with sampled timing 2000].
        window_warmup: Option<Count>, Length {
            is_rare: true,
        };
        /// Count events only, such as TLB misses, without timing: faster, but there are no cycles
        /// and no IPC.
        functional: bool, Length {
            brief: "Count events only, without timing: faster, no IPC",
        };
        /// Compare every translation with the oracle.
        check: bool, Length;
    }
}

impl PlacementOptions {
    /// Returns the cores and hardware threads of the run.
    pub fn processors(&self) -> ProcessorOptions {
        ProcessorOptions {
            cores: self.cores.get(),
            threads_per_core: self.threads_per_core.get(),
            side_by_side: self.side_by_side.get(),
        }
    }
}

impl MeasuringOptions {
    /// Returns the requested length of the warm-up in instructions; `None` if the run detects it or
    /// takes the default.
    pub(crate) fn stated_warmup(&self) -> Option<u64> {
        match self.warmup {
            Some(WarmupLength::Instructions(instructions)) => Some(instructions),
            Some(WarmupLength::Detected) | None => None,
        }
    }

    /// Returns the windows of sampled timing; `None` for full timing and functional runs.
    pub(crate) fn timed_windows(&self) -> Option<TimedWindows> {
        match self.timing {
            Timing::Sampled(windows) if !self.functional => Some(windows),
            Timing::Sampled(_) | Timing::Full => None,
        }
    }

    /// Returns the number of instructions at the beginning of each window that are not counted. The
    /// default is 2000 for sampled timing, otherwise 0.
    pub(crate) fn window_warmup(&self) -> u64 {
        let default = if self.timed_windows().is_some() { TimedWindows::WARMUP } else { 0 };
        self.window_warmup.map_or(default, Count::get)
    }

    /// Checks that these options do not contradict each other.
    ///
    /// # Errors
    /// Sampled timing is requested for a functional run, a precision without sampled timing or of 0
    /// %, or windows that do not fit into their period.
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

    /// True if the run makes two passes over the workload, because the first one detects the length
    /// of the warm-up.
    pub(crate) fn detects_warmup(&self) -> bool {
        self.warmup == Some(WarmupLength::Detected)
    }
}

/// Length of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmupLength {
    /// The requested number of instructions.
    Instructions(u64),
    /// As many instructions as the slowest scheme takes to reach a steady state, detected in a
    /// first pass.
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

impl Serialize for WarmupLength {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Instructions(instructions) => serializer.serialize_u64(*instructions),
            Self::Detected => serializer.serialize_str("auto"),
        }
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

#[cfg(test)]
mod tests {
    use perforate_config::{OptionTexts, read};

    use super::*;
    use crate::{ResolvedRun, Workload};

    #[test]
    fn a_run_without_options_has_their_defaults() {
        let run = ResolvedRun::new(Workload::named("random"), Vec::new());
        let options = PlacementOptions::default();
        assert_eq!(run.processors, options.processors());
        assert_eq!((run.seed, run.machine.name), (options.seed.get(), options.machine));
    }

    /// Pairs of options that contradict each other, with the option that the error names.
    #[test]
    fn sampled_timing_has_conditions() {
        let wrong = |options: &[(&str, &str)]| {
            let texts: OptionTexts = options.iter().copied().collect();
            let options: MeasuringOptions = texts.read().unwrap();
            options.check().err().map(|error| error.to_string())
        };
        for (options, expected) in [
            (vec![], None),
            (vec![("functional", "yes")], None),
            (vec![("precision", "5%")], Some("precision")),
            (vec![("precision", "5%"), ("functional", "yes")], Some("precision")),
            (vec![("timing", "sampled=2k/10k"), ("precision", "5%")], None),
            (vec![("timing", "sampled=2k/10k"), ("precision", "0%")], Some("precision")),
            (vec![("timing", "sampled=2k/10k"), ("functional", "yes")], Some("timing")),
            // 2k timed and 8k before them fill the period.
            (vec![("timing", "sampled=2k/10k"), ("window-warmup", "8k")], None),
            (vec![("timing", "sampled=2k/10k"), ("window-warmup", "8001")], Some("timing")),
        ] {
            match (wrong(&options), expected) {
                (None, None) => {}
                (Some(error), Some(name)) => {
                    assert!(error.starts_with(name), "{options:?}: {error}")
                }
                (found, _) => panic!("{options:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_warmup_is_given_or_detected() {
        assert_eq!(read("auto"), Ok(WarmupLength::Detected));
        assert_eq!(read("2M"), Ok(WarmupLength::Instructions(2_000_000)));
        let error = read::<WarmupLength>("some").unwrap_err().to_string();
        assert!(error.contains("expected a whole number") && error.ends_with("or auto"), "{error}");
    }

    fn measuring(options: &[(&str, &str)]) -> MeasuringOptions {
        options.iter().copied().collect::<OptionTexts>().read().unwrap()
    }

    #[test]
    fn contradictions_are_explained() {
        let windows = "timing: windows of 2000 with 8001 instructions before them that are not \
                       counted do not fit into 10000; a longer period, or a shorter window-warmup";
        for (options, expected) in [
            (&[("precision", "5%")][..], "precision: is for --timing sampled"),
            (
                &[("timing", "sampled"), ("precision", "0%")],
                "precision: no sample is without error",
            ),
            (
                &[("timing", "sampled"), ("functional", "yes")],
                "timing: functional runs have no clock",
            ),
            (&[("timing", "sampled=2k/10k"), ("window-warmup", "8001")], windows),
        ] {
            let error = measuring(options).check().unwrap_err().to_string();
            assert_eq!(error, expected, "{options:?}");
        }
        // 2000 instructions before each window are the default.
        assert!(measuring(&[("timing", "sampled=1k/3k")]).check().is_ok());
        assert!(measuring(&[("timing", "sampled=1k/2999")]).check().is_err());
    }

    #[test]
    fn windows_and_warm_ups_follow_from_the_options() {
        let windows = TimedWindows { window: 1_000, period: 5_000 };
        let sampled = ("timing", "sampled=1k/5k");
        for (options, timed, window_warmup) in [
            (&[][..], None, 0),
            (&[("window-warmup", "7")], None, 7),
            (&[sampled], Some(windows), 2_000),
            (&[sampled, ("window-warmup", "0")], Some(windows), 0),
            (&[sampled, ("functional", "yes")], None, 0),
        ] {
            let options = measuring(options);
            assert_eq!(options.timed_windows(), timed);
            assert_eq!(options.window_warmup(), window_warmup);
        }
        for (options, stated, detected) in [
            (&[][..], None, false),
            (&[("warmup", "auto")], None, true),
            (&[("warmup", "0")], Some(0), false),
            (&[("warmup", "3k")], Some(3_000), false),
        ] {
            let options = measuring(options);
            let found = (options.stated_warmup(), options.detects_warmup());
            assert_eq!(found, (stated, detected));
            let stored = serde_json::to_value(&options).unwrap()["warmup"].clone();
            let expected = match (stated, detected) {
                (Some(count), _) => serde_json::json!(count),
                (None, true) => serde_json::json!("auto"),
                (None, false) => serde_json::Value::Null,
            };
            assert_eq!(stored, expected);
        }
        let stored = serde_json::to_value(measuring(&[sampled])).unwrap()["timing"].clone();
        assert_eq!(stored, "sampled=1000/5000");
    }

    #[test]
    fn processors_are_those_of_the_options() {
        let texts = [("cores", "3"), ("threads-per-core", "2"), ("side-by-side", "7")];
        let options: PlacementOptions = texts.into_iter().collect::<OptionTexts>().read().unwrap();
        let expected = ProcessorOptions { cores: 3, threads_per_core: 2, side_by_side: 7 };
        assert_eq!(options.processors(), expected);
        let default = PlacementOptions::default();
        let values = (default.seed.get(), default.skip.get(), default.threads.get());
        assert_eq!(values, (1, 0, 1));
        assert_eq!((default.instructions, default.beside, default.madvise), (None, None, None));
    }
}
