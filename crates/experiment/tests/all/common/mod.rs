//! What the tests of experiments share.

use perforate_experiment::{Experiment, ExperimentError, Outcome, Plan, Shard, Store};
use perforate_records::ExperimentResults;

/// Measures experiments and says what came of them.
pub fn run(experiments: &[Experiment]) -> Result<Vec<Outcome>, ExperimentError> {
    let mut store = Store::in_memory("tests".into());
    let plan = Plan::of(experiments, "tests")?;
    plan.measure(&mut store, Shard::WHOLE, 2, &|_| {})?;
    experiments.iter().map(|one| Outcome::of(one.clone(), &plan, &store)).collect()
}

/// All records of an outcome, as a reader has them.
pub fn records(outcome: &Outcome) -> Vec<serde_json::Value> {
    let experiments = vec![outcome.record(true, Vec::new())];
    let lines = ExperimentResults { experiments, joint: Vec::new() }.lines();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
