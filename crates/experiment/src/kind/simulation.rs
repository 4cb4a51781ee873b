//! Simulated runs: a workload on a machine and a memory, under schemes.

use std::path::Path;

use perforate_config::{Key, keys};
use perforate_sim::{
    Composition, FiguresOnly, MemorySnapshot, Placed, Progress, ResolvedRun, RunResult, RunSpec,
    SimError,
};
use perforate_trace::bundled;
use perforate_workloads::WorkloadSpec;
use schemars::JsonSchema;
use serde::Deserialize;

use super::settings::wrong;
use super::{Kind, Measurement, Settings};

/// Simulated runs of a workload under schemes.
pub struct Simulation;

#[derive(Deserialize, JsonSchema)]
struct WorkloadSettings {
    /// Workload with its parameters, bundled trace, or path of a trace.
    workload: String,
}

/// Workload, and specification of the run.
fn read(settings: &Settings) -> Result<(String, RunSpec), String> {
    let mut given = settings.given();
    let WorkloadSettings { workload: name } = given.take().map_err(wrong)?;
    let workload = if WorkloadSpec::is_workload(&name) { name } else { bundled::resolve(&name) };
    Ok((workload, RunSpec::read(given).map_err(wrong)?))
}

impl Kind for Simulation {
    fn name(&self) -> &'static str {
        "simulation"
    }

    fn summary(&self) -> &'static str {
        "simulated runs; figures are those of `perforate run --json`, with cycles and ipc"
    }

    fn subjects(&self) -> &'static str {
        "schemes, or pairs GUEST+HOST"
    }

    fn settings(&self) -> Vec<Key> {
        // Seeds are the experiment's.
        let run = RunSpec::keys().into_iter().filter(|key| key.name != "seed");
        keys::<WorkloadSettings>().into_iter().chain(run).collect()
    }

    fn check(&self, settings: &Settings, subject: &str) -> Result<(), String> {
        resolve(settings, &[subject.to_owned()], 0).map(|_| ())
    }

    fn cost(&self, settings: &Settings) -> f64 {
        let Ok((_, spec)) = read(settings) else { return 0.0 };
        let instructions = spec.placement.instructions.map_or(20e6, |count| count.get() as f64);
        instructions / if spec.measuring.functional { 4.0 } else { 1.0 }
    }

    fn measure(
        &self,
        settings: &Settings,
        subjects: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Measurement>, String> {
        let run = resolve(settings, subjects, seed)?;
        let mut observer = FiguresOnly(|Progress { done, total }| {
            progress(done as f64 / total.unwrap_or(0).max(1) as f64);
        });
        let results = perforate_sim::run(&run, &mut observer);
        Ok(results.map_err(|error| error.to_string())?.iter().map(figures).collect())
    }
}

fn resolve(settings: &Settings, subjects: &[String], seed: u64) -> Result<ResolvedRun, String> {
    let text = |error: SimError| match error {
        SimError::Config(error) => wrong(error),
        error => error.to_string(),
    };
    let (workload, spec) = read(settings)?;
    if WorkloadSpec::is_workload(&workload) {
        WorkloadSpec::parse(&workload).map_err(|error| error.to_string())?;
    } else if !Path::new(&workload).exists() {
        let text = settings.text("workload").unwrap_or(&workload);
        return Err(format!(
            "setting workload: {text:?} is neither a workload nor a file; expected the path of a trace, \
             or a name from `perforate list workloads`"
        ));
    }
    let machine = settings.machine(&spec.placement.machine)?;
    let schemes =
        subjects.iter().map(|name| Composition::find(name).map_err(|error| text(error.into())));
    let schemes = schemes.collect::<Result<Vec<_>, _>>()?;
    for scheme in &schemes {
        scheme.in_hardware().try_for_each(|scheme| scheme.check_machine(&machine)).map_err(text)?;
    }
    let run = spec.resolve(workload, machine, schemes, &MemorySnapshot::load).map_err(text)?;
    Ok(ResolvedRun { seed, ..run })
}

/// All counters, and what stands beside them in a result.
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
