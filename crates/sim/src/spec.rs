//! A run as requested by options ([`RunSpec`]), and as executed ([`ResolvedRun`]).

use perforate_config::{ConfigError, Key, OptionTexts, Table};

use crate::idle_options::check_layouts;
use crate::{
    Composition, Machine, MeasuringOptions, MemoryOptions, MemoryState, PlacementOptions,
    ProcessorOptions, SimError, Snapshots, Workload,
};

/// All options of a run, parsed once. The command line, experiment files and Python build it from
/// the same texts.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// Options as texts, as the user wrote them.
    given: OptionTexts,
    /// Machine, seed, processors, and the part of the workload that runs.
    pub placement: PlacementOptions,
    /// Warm-up, clock and checks by the oracle.
    pub measuring: MeasuringOptions,
    /// Options of memory and operating system.
    pub memory: MemoryOptions,
}

impl RunSpec {
    /// Fragmentation if no option describes the state of memory. P §VII.B and §VII.C use these
    /// values for the real machine of §III.C.
    pub const DEFAULT_FRAGMENTATION: &str = "portion=50%,holes=25%,clustered";

    /// Returns the keys of all options.
    pub fn keys() -> Vec<Key> {
        let mut all = PlacementOptions::keys();
        all.extend(MemoryOptions::keys());
        all.extend(MeasuringOptions::keys());
        all
    }

    /// Parses the options. Uses [`Self::DEFAULT_FRAGMENTATION`] if none of `fragmentation`, `age`
    /// and `memory-from` is given.
    ///
    /// # Errors
    /// A value is wrong, or a key is unknown.
    pub fn read(given: OptionTexts) -> Result<Self, ConfigError> {
        let mut rest = given.clone();
        let says_state = |key: &&str| given.contains(key);
        if !["fragmentation", "age", "memory-from"].iter().any(says_state) {
            rest.insert("fragmentation", Self::DEFAULT_FRAGMENTATION);
        }
        let mut rest = rest.grouped("host");
        let (placement, measuring) = (rest.take()?, rest.take()?);
        let memory = MemoryOptions::take(&mut rest)?;
        rest.refuse_rest(Self::keys)?;
        Ok(Self { given, placement, measuring, memory })
    }

    /// Returns the options as texts, as the user wrote them.
    pub fn given(&self) -> &OptionTexts {
        &self.given
    }

    /// Loads the files that these options name, and creates a run of `workload` under `schemes`.
    ///
    /// # Errors
    /// Options contradict each other, or files cannot be read.
    pub fn resolve(
        &self,
        workload: String,
        machine: Machine,
        schemes: Vec<Composition>,
        snapshots: Snapshots<'_>,
    ) -> Result<ResolvedRun, SimError> {
        let memory = self.memory.resolve(snapshots)?;
        check_layouts(&schemes, &memory)?;
        Ok(ResolvedRun {
            workload: Workload::new(workload, &self.placement),
            machine,
            schemes,
            memory,
            processors: self.placement.processors(),
            seed: self.placement.seed.get(),
            measuring: self.measuring.clone(),
        })
    }
}

/// All inputs of a run. Equal inputs give equal results.
#[derive(Clone)]
pub struct ResolvedRun {
    /// Workload, and the part of it that runs.
    pub workload: Workload,
    /// Simulated machine.
    pub machine: Machine,
    /// Schemes to compare.
    pub schemes: Vec<Composition>,
    /// Memory and operating system of the program, and of the host if there is one.
    pub memory: MemoryState,
    /// Cores and hardware threads.
    pub processors: ProcessorOptions,
    /// Seed of the random numbers of workload and memory.
    pub seed: u64,
    /// Warm-up, timing and checks. The default warm-up is a fifth of the run if its length is
    /// known. It is 0 if the program announces the end of its set-up, because the set-up is never
    /// measured.
    pub measuring: MeasuringOptions,
}

impl ResolvedRun {
    /// Creates a run of a whole workload under `schemes`, on the default machine and memory.
    ///
    /// # Panics
    /// If the bundled default machine is invalid.
    pub fn new(workload: Workload, schemes: Vec<Composition>) -> Self {
        Self {
            workload,
            machine: Machine::load(Machine::DEFAULT).expect("it comes with the program"),
            schemes,
            memory: MemoryState::default(),
            processors: ProcessorOptions::default(),
            seed: 1,
            measuring: MeasuringOptions::default(),
        }
    }

    /// Returns a canonical form of all inputs, except the content of traces. It does not depend on
    /// the spelling of options. Equal values mean equal runs by the same build of the program.
    pub fn identity(&self) -> serde_json::Value {
        let Self { workload, machine, schemes, memory, processors, seed, measuring } = self;
        let schemes: Vec<String> = schemes.iter().map(Composition::name).collect();
        serde_json::json!([workload, machine, schemes, memory, processors, seed, measuring])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySnapshot;

    fn read(options: &[(&str, &str)]) -> Result<RunSpec, String> {
        let options = options.iter().copied().collect();
        RunSpec::read(options).map_err(|error| error.to_string())
    }

    /// Memory is fragmented unless an option says what state it has.
    #[test]
    fn memory_is_fragmented_by_default() {
        let default = Some(RunSpec::DEFAULT_FRAGMENTATION.to_owned());
        for (options, expected) in [
            (&[][..], default.clone()),
            (&[("memory", "2G"), ("seed", "3")], default.clone()),
            (&[("fragmentation", "none")], None),
            (
                &[("fragmentation", "portion=5%,holes=5%,clustered")],
                Some("portion=5%,holes=5%,clustered".into()),
            ),
            (&[("age", "weeks")], None),
            (&[("memory-from", "x")], None),
            (&[("host-age", "weeks")], default),
        ] {
            let spec = read(options).unwrap();
            let found = spec.memory.kernel.fragmentation.map(|it| it.to_string());
            assert_eq!(found, expected, "{options:?}");
            let given: Vec<bool> =
                options.iter().map(|(key, _)| spec.given().contains(key)).collect();
            assert!(given.iter().all(|given| *given) && !spec.given().contains("warmup"));
            assert_eq!(
                spec.given().contains("fragmentation"),
                options.iter().any(|(key, _)| *key == "fragmentation"),
                "as the user wrote them"
            );
        }
    }

    #[test]
    fn runs_are_resolved_from_their_options() {
        let spec = read(&[
            ("seed", "3"),
            ("cores", "2"),
            ("warmup", "5"),
            ("skip", "7"),
            ("fragmentation", "none"),
            ("memory", "1G"),
        ])
        .unwrap();
        let resolve = |spec: &RunSpec| {
            let machine = Machine::load("gtsm-table4").unwrap();
            let schemes = Composition::list("4k,4k+thp").unwrap();
            spec.resolve("random".into(), machine, schemes, &MemorySnapshot::load).unwrap()
        };
        let run = resolve(&spec);
        assert_eq!((run.seed, run.processors.cores, run.workload.skip), (3, 2, 7));
        assert_eq!((&*run.machine.name, &*run.workload.name), ("gtsm-table4", "random"));
        assert_eq!(run.measuring.stated_warmup(), Some(5));
        assert_eq!((run.memory.kernel.memory_bytes, run.schemes.len()), (1 << 30, 2));
        // Runs differ if any input does; the spelling of options does not matter.
        let same = read(&[
            ("memory", "1024M"),
            ("cores", "2"),
            ("seed", "3"),
            ("skip", "7"),
            ("warmup", "5"),
            ("fragmentation", "portion=0%,holes=5%,clustered"),
        ]);
        assert_eq!(resolve(&same.unwrap()).identity(), run.identity());
        let mut others = vec![run.clone(); 7];
        others[0].workload.skip = 8;
        others[1].machine = Machine::load(Machine::DEFAULT).unwrap();
        others[2].schemes.truncate(1);
        others[3].memory.kernel.memory_bytes = 2 << 30;
        others[4].processors.side_by_side = 1;
        others[5].seed = 4;
        others[6].measuring.check = true;
        for (place, other) in others.iter().enumerate() {
            assert_ne!(other.identity(), run.identity(), "{place}");
        }
        let names = run.identity()[2].clone();
        assert_eq!(names, serde_json::json!(["4k", "4k+thp"]));
    }

    #[test]
    fn unknown_options_are_refused() {
        for (key, problem) in [
            ("sed", "there is no \"sed\"; did you mean seed?"),
            ("host-seed", "host: there is no \"seed\""),
            ("warmups", "there is no \"warmups\"; did you mean warmup?"),
        ] {
            let error = read(&[(key, "1")]).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
        let keys = RunSpec::keys();
        for name in ["seed", "memory", "host-memory", "warmup"] {
            assert_eq!(keys.iter().filter(|key| key.name == name).count(), 1, "{name}");
        }
    }
}
