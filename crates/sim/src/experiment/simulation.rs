//! Schemes simulated on memory of which a share of the frames is retired.

use serde::{Deserialize, Serialize};

use super::curve::{Curve, Point};
use crate::capacity::{Estimate, Sampling};
use crate::{
    Comparison, Composition, Machine, MemoryState, Past, PastOptions, Progress, RunResult,
    SimError, Workload, compare,
};

/// What is simulated at every point of the axis: the share of retired frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultyMemory {
    /// Workload with its parameters, as on the command line.
    pub workload: String,
    /// Machine.
    pub machine: String,
    /// Size of memory.
    pub memory: String,
    /// Schemes, a curve each.
    pub schemes: Vec<String>,
    /// What of each run is shown.
    pub value: Value,
    /// When faults look for blocks of which others hold a part, as `--defrag`.
    #[serde(default)]
    pub defrag: Option<String>,
    /// Instructions of a run, warm-up included.
    pub instructions: u64,
    /// Instructions before measuring starts.
    pub warmup: u64,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// Instructions per cycle, as a share of those under `ideal`, which must be among the schemes.
    IpcOfIdeal,
    /// Share of mapped memory in large mappings.
    LargePageCoverage,
}

/// The scheme that the others are measured by.
const IDEAL: &str = "ideal";

impl FaultyMemory {
    /// What the values are.
    pub(super) fn value_label(&self) -> &'static str {
        match self.value {
            Value::IpcOfIdeal => "IPC ÷ ideal",
            Value::LargePageCoverage => "the program's memory in large mappings",
        }
    }

    /// Most runs of each scheme at a point.
    pub(super) const MOST_RUNS: u64 = 1000;

    /// Names and labels of the curves.
    pub(super) fn curves(&self) -> Result<Vec<(String, String)>, String> {
        let schemes = self.compositions()?;
        if schemes.is_empty() {
            return Err("subject.schemes: there is nothing to measure".into());
        }
        if self.value == Value::IpcOfIdeal && !self.schemes.iter().any(|name| name == IDEAL) {
            return Err("subject.value is ipc-of-ideal, and subject.schemes lacks \"ideal\"".into());
        }
        if self.warmup >= self.instructions {
            return Err("subject.warmup is not less than subject.instructions".into());
        }
        Machine::load(&self.machine).map_err(|error| format!("subject.machine: {error}"))?;
        self.memory(0.0).map_err(|error| format!("subject: {error}"))?;
        Ok(schemes.iter().map(|scheme| (scheme.name(), label(scheme))).collect())
    }

    fn compositions(&self) -> Result<Vec<Composition>, String> {
        let find = |name: &String| {
            Composition::find(name).map_err(|error| format!("subject.schemes: {error}"))
        };
        self.schemes.iter().map(find).collect()
    }

    /// Memory of which this share of frames is retired.
    fn memory(&self, share: f64) -> Result<MemoryState, SimError> {
        let faulty = (share > 0.0).then(|| format!("uniform={}%", share * 100.0));
        let past = Past::parse(PastOptions {
            faulty: faulty.as_deref(),
            defrag: self.defrag.as_deref(),
            ..PastOptions::default()
        })?;
        MemoryState::parse(Some(&self.memory), Some("none"), None)?.with_past(past)
    }

    /// Measures all curves at these places: as many runs of each scheme as there are draws, each
    /// with its own seed.
    pub(super) fn measure(
        &self,
        places: &[f64],
        sampling: Sampling,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Curve>, String> {
        let names = self.curves()?;
        let mut curves: Vec<Curve> = names
            .into_iter()
            .map(|(name, label)| Curve { name, label, points: Vec::new() })
            .collect();
        let runs = sampling.samples.max(1);
        let total = places.len() as u64 * runs;
        for (place, &x) in (0..).zip(places) {
            let mut values = vec![Vec::new(); curves.len()];
            for run in 0..runs {
                progress(Progress { done: place * runs + run, total: Some(total) });
                let seed = sampling.seed.wrapping_add(run);
                let results = self.run(x, seed).map_err(|error| format!("at {x}: {error}"))?;
                for (values, value) in values.iter_mut().zip(self.values(&results)) {
                    values.push(value);
                }
            }
            for (curve, values) in curves.iter_mut().zip(&values) {
                let sampled = Some(Estimate::of(values));
                curve.points.push(Point { x, closed_form: None, sampled });
            }
        }
        progress(Progress { done: total, total: Some(total) });
        Ok(curves)
    }

    fn run(&self, share: f64, seed: u64) -> Result<Vec<RunResult>, SimError> {
        let comparison = Comparison {
            workload: Workload {
                name: self.workload.clone(),
                skip: 0,
                instructions: Some(self.instructions),
            },
            machine: Machine::load(&self.machine)?,
            schemes: self.compositions().map_err(SimError::Past)?,
            memory: self.memory(share)?,
            seed,
            functional: self.value == Value::LargePageCoverage,
            check: false,
            warmup: Some(self.warmup),
        };
        compare(&comparison, &mut |_| {})
    }

    fn values(&self, results: &[RunResult]) -> Vec<f64> {
        let ipc = |result: &RunResult| result.ipc.unwrap_or(0.0);
        let ideal = results.iter().find(|result| result.scheme == IDEAL).map_or(0.0, ipc);
        let value = |result: &RunResult| match self.value {
            Value::IpcOfIdeal => ipc(result) / ideal,
            Value::LargePageCoverage => result.counters.get("large_page_coverage").unwrap_or(0.0),
        };
        results.iter().map(value).collect()
    }
}

/// A scheme as charts name it.
fn label(scheme: &Composition) -> String {
    match (scheme.host, scheme.own.gap_tolerance) {
        (None, Some(mode)) => mode.label(),
        _ => scheme.name(),
    }
}
