//! Simulated runs: a workload on a machine and a memory, under schemes.

use std::path::Path;

use perforate_config::{Key, keys};
use perforate_sim::{
    Composition, FiguresOnly, MemorySnapshot, Progress, ResolvedRun, RunResult, RunSpec,
    SchemeSetup,
};
use perforate_trace::bundled;
use perforate_workloads::WorkloadSpec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::settings::{problem_of, wrong};
use super::{Measurement, Settings, Study};
use crate::identity::identity;

/// Simulated runs; figures are those of `perforate run --json`, with `cycles` and `ipc`. Subjects are
/// schemes, or pairs `GUEST+HOST`.
pub struct Simulation {
    /// Run that the settings describe, with seed 0 and without schemes.
    run: ResolvedRun,
    instructions: f64,
}

#[derive(Deserialize, JsonSchema)]
pub struct WorkloadSettings {
    /// Workload with its parameters, bundled trace, or path of a trace.
    workload: String,
}

impl Study for Simulation {
    const NAME: &'static str = "simulation";
    type Settings = WorkloadSettings;

    fn settings() -> Vec<Key> {
        // The experiment sets the seed.
        let run = RunSpec::keys().into_iter().filter(|key| key.name != "seed");
        keys::<WorkloadSettings>().into_iter().chain(run).collect()
    }

    fn read(settings: &Settings) -> Result<Self, String> {
        let mut given = settings.given();
        let WorkloadSettings { workload: text } = given.take().map_err(wrong)?;
        let spec = RunSpec::read(given).map_err(wrong)?;
        let workload = if WorkloadSpec::is_workload(&text) {
            WorkloadSpec::parse(&text).map_err(|error| error.to_string())?;
            text
        } else {
            let path = bundled::resolve(&text);
            if !Path::new(&path).exists() {
                return Err(format!(
                    "setting workload: {text:?} is neither a workload nor a file; expected the path \
                     of a trace, or a name from `perforate list workloads`"
                ));
            }
            path
        };
        let machine = settings.machine(&spec.placement.machine)?;
        let run = spec.resolve(workload, machine, Vec::new(), &MemorySnapshot::load);
        let instructions = spec.placement.instructions.map_or(20e6, |count| count.get() as f64);
        Ok(Self { run: run.map_err(problem_of)?, instructions })
    }

    fn check(&self, subject: &str) -> Result<(), String> {
        self.under(&[subject.to_owned()], 0).map(|_| ())
    }

    fn identity(&self, _: &Settings, subject: &str, seed: u64) -> Result<Value, String> {
        identity(&self.under(&[subject.to_owned()], seed)?)
    }

    fn cost(&self) -> f64 {
        self.instructions / if self.run.measuring.functional { 4.0 } else { 1.0 }
    }

    fn measure_all(
        &self,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let mut observer = FiguresOnly(|Progress { done, total }| {
            progress(done as f64 / total.unwrap_or_default().max(1) as f64);
        });
        let results = perforate_sim::run(&self.under(subjects, seed)?, &mut observer);
        Ok(results.map_err(|error| error.to_string())?.iter().map(figures).collect())
    }
}

impl Simulation {
    /// Returns the run of the settings with these schemes and this seed.
    fn under(&self, subjects: &[String], seed: u64) -> Result<ResolvedRun, String> {
        let find =
            |name: &String| Composition::find(name).map_err(|error| problem_of(error.into()));
        let schemes = subjects.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        for scheme in schemes.iter().flat_map(Composition::in_hardware) {
            scheme.check_machine(&self.run.machine).map_err(problem_of)?;
        }
        Ok(ResolvedRun { schemes, seed, ..self.run.clone() })
    }
}

/// Returns all counters of a run, and other numbers of its result such as `cycles`.
fn figures(result: &RunResult) -> Measurement {
    let mut figures: Measurement =
        result.counters.iter().map(|(name, value)| (name.to_owned(), value.as_f64())).collect();
    figures.insert("instructions".into(), result.instructions as f64);
    if let (Some(cycles), Some(ipc)) = (result.cycles, result.ipc) {
        figures.insert("cycles".into(), cycles as f64);
        figures.insert("ipc".into(), ipc);
    }
    figures
}
