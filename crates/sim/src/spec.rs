//! A run as requested ([`RunSpec`]) and as carried out ([`ResolvedRun`]).

use perforate_config::{ConfigError, Key, OptionTexts, Table};

use crate::{
    Composition, Machine, MeasuringOptions, MemoryOptions, MemoryState, PlacementOptions,
    ProcessorOptions, SimError, Snapshots, Workload,
};

/// All options of a run, parsed once. The command line, experiment files and Python build it from the
/// same texts.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// Texts as given, by option.
    given: OptionTexts,
    /// Machine, seed, part of the workload, and processors.
    pub placement: PlacementOptions,
    /// Warm-up, clock and checks.
    pub measuring: MeasuringOptions,
    /// Memory and operating system.
    pub memory: MemoryOptions,
}

impl RunSpec {
    /// Fragmentation if no option describes the state of memory: the point that P §VII.B and §VII.C use
    /// for the real machine of §III.C.
    pub const DEFAULT_FRAGMENTATION: &str = "portion=50%,holes=25%,clustered";

    /// Keys of all options.
    pub fn keys() -> Vec<Key> {
        let mut all = PlacementOptions::keys();
        all.extend(MemoryOptions::keys());
        all.extend(MeasuringOptions::keys());
        all
    }

    /// Parses the options. Injects [`Self::DEFAULT_FRAGMENTATION`] if none of fragmentation, age and
    /// memory-from is given.
    ///
    /// # Errors
    /// A wrong value, or an unknown key.
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

    /// Texts as given, by option.
    pub fn given(&self) -> &OptionTexts {
        &self.given
    }

    /// Resolves these options to a run of `workload` under `schemes`.
    ///
    /// # Errors
    /// Options that contradict each other, or files that cannot be read.
    pub fn resolve(
        &self,
        workload: String,
        machine: Machine,
        schemes: Vec<Composition>,
        snapshots: Snapshots<'_>,
    ) -> Result<ResolvedRun, SimError> {
        Ok(ResolvedRun {
            workload: Workload::new(workload, &self.placement),
            machine,
            schemes,
            memory: self.memory.resolve(snapshots)?,
            processors: self.placement.processors(),
            seed: self.placement.seed.get(),
            measuring: self.measuring.clone(),
        })
    }
}

/// All inputs of a run; equal inputs give equal results.
#[derive(Clone)]
pub struct ResolvedRun {
    /// Workload, and its part that runs.
    pub workload: Workload,
    /// Hardware of the run.
    pub machine: Machine,
    /// Schemes that are compared.
    pub schemes: Vec<Composition>,
    /// Memory and operating system.
    pub memory: MemoryState,
    /// Cores and hardware threads.
    pub processors: ProcessorOptions,
    /// Seed of workload and memory.
    pub seed: u64,
    /// Warm-up, clock and checks. The default warm-up is a fifth of the run if its length is known. It
    /// is 0 if the program announces the end of its set-up, because the set-up is never measured.
    pub measuring: MeasuringOptions,
}

impl ResolvedRun {
    /// Runs all of a workload under `schemes` on the default machine and memory.
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

    /// Canonical form of all inputs except the content of traces, independent of how options were
    /// spelled. Equal values mean equal runs by one build of the program.
    pub fn identity(&self) -> serde_json::Value {
        let Self { workload, machine, schemes, memory, processors, seed, measuring } = self;
        let schemes: Vec<String> = schemes.iter().map(Composition::name).collect();
        serde_json::json!([workload, machine, schemes, memory, processors, seed, measuring])
    }
}
