//! A run as it is asked for, and as it is carried out.

use perforate_config::{ConfigError, Given, Key, Table};

use crate::{
    Composition, Machine, MeasuringOptions, MemoryOptions, MemoryState, PlacementOptions,
    ProcessorOptions, SimError, Snapshots, Workload,
};

/// Everything that options say of a run, read once. The command line, experiment files and Python make
/// it from the same texts.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// The texts that were given, by option.
    given: Given,
    /// Machine, seed, part of the workload, processors.
    pub placement: PlacementOptions,
    /// Warm-up, clock and checks.
    pub measuring: MeasuringOptions,
    /// Memory and operating system.
    pub memory: MemoryOptions,
}

impl RunSpec {
    /// Fragmentation if nothing is said of the state of memory: the point that P §VII.B and §VII.C take
    /// for the real machine of §III.C.
    pub const DEFAULT_FRAGMENTATION: &str = "portion=50%,holes=25%,clustered";

    /// All options.
    pub fn keys() -> Vec<Key> {
        let mut all = PlacementOptions::keys();
        all.extend(MemoryOptions::keys());
        all.extend(MeasuringOptions::keys());
        all
    }

    /// Reads the options. Injects [`Self::DEFAULT_FRAGMENTATION`] if none of fragmentation, age and
    /// memory-from is given.
    ///
    /// # Errors
    /// A wrong value, or a key that is no option.
    pub fn read(given: Given) -> Result<Self, ConfigError> {
        let mut rest = given.clone();
        let says_state = |key: &&str| given.contains(key);
        if !["fragmentation", "age", "memory-from"].iter().any(says_state) {
            rest.insert("fragmentation", Self::DEFAULT_FRAGMENTATION);
        }
        let mut rest = rest.grouped("host");
        let (placement, measuring) = (rest.take()?, rest.take()?);
        let memory = MemoryOptions::take(&mut rest)?;
        rest.refuse_rest(Self::keys().iter().map(|key| key.name.as_str()))?;
        Ok(Self { given, placement, measuring, memory })
    }

    /// The texts that were given.
    pub fn given(&self) -> &Given {
        &self.given
    }

    /// The run of a workload under schemes that these options describe.
    ///
    /// # Errors
    /// Options that contradict each other, files that cannot be read.
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

/// Everything that makes the results of a run; the same values give the same results.
#[derive(Clone)]
pub struct ResolvedRun {
    /// Workload, and the part of it that runs.
    pub workload: Workload,
    /// Machine.
    pub machine: Machine,
    /// Schemes that are compared.
    pub schemes: Vec<Composition>,
    /// Memory and operating system.
    pub memory: MemoryState,
    /// Cores that it runs on.
    pub processors: ProcessorOptions,
    /// Seed of workload and memory.
    pub seed: u64,
    /// Warm-up, clock and checks. If no warm-up is given: none if the program has a set-up, which comes
    /// before in any case; else a fifth of the run if its length is known.
    pub measuring: MeasuringOptions,
}

impl ResolvedRun {
    /// A workload under schemes on the default machine and memory, all of it.
    ///
    /// # Panics
    /// If the machine that comes with the program is broken.
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

    /// Everything that the results depend on but for the content of traces, as it is understood whatever
    /// words were used. Equal values are equal runs of one build of the program.
    pub fn identity(&self) -> serde_json::Value {
        let Self { workload, machine, schemes, memory, processors, seed, measuring } = self;
        let schemes: Vec<String> = schemes.iter().map(Composition::name).collect();
        serde_json::json!([workload, machine, schemes, memory, processors, seed, measuring])
    }
}
