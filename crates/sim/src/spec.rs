//! A run as requested by options ([`RunSpec`]), and as executed ([`ResolvedRun`]).

use perforate_config::{ConfigError, Key, OptionTexts, Table};

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
