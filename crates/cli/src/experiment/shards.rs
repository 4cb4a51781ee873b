//! Shards of experiments: parts that are measured by separate commands and merged.

use std::path::Path;

use crate::actions::{Failure, ResultFolder};
use perforate_experiment::{
    Experiment, ExperimentOptions, Plan, Shard, Store, Study, Unstated, build,
};
use perforate_types::counted;
use serde::{Deserialize, Serialize};

use super::MergeArguments;
use super::run::{POINTS, write_files};
use crate::output::{command, notes, print, result_folder, text_columns};

/// Name of the file that describes the command by which a part of the points (`--shard`) was
/// measured.
const PART: &str = "part.json";

/// Command by which a part of the points (`--shard`) was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Part {
    experiments: Vec<String>,
    index: usize,
    count: usize,
    quick: bool,
    seeds: Option<u64>,
    seed: Option<u64>,
    samples: Option<u64>,
    #[serde(default)]
    unstated: Option<Unstated>,
    build: String,
}

/// Writes the description of a part into `folder`, next to the part's measurements.
pub fn write(
    folder: &ResultFolder,
    shard: Shard,
    names: &[String],
    options: &ExperimentOptions,
    unstated: Option<Unstated>,
    plan: &Plan,
    store: &Store,
) -> Result<(), Failure> {
    let Shard { index, count } = shard;
    let ExperimentOptions { quick, seeds, seed, samples } = *options;
    let (experiments, build) = (names.to_vec(), store.build().to_owned());
    let part = Part { experiments, index, count, quick, seeds, seed, samples, unstated, build };
    let text = serde_json::to_string_pretty(&part).expect("a part is plain data") + "\n";
    folder.write(&vec![(PART.to_owned(), text)])?;
    let measured = plan.point_count() - plan.missing(store);
    print(&format!(
        "part {index} of {count}: {measured} of {} in {}\n\
         join the parts with: perforate experiment merge DIR… --out DIR\n{}",
        counted(plan.point_count(), "point"),
        folder.kept_file(POINTS)?.display(),
        notes(&store.remarks(), text_columns())
    ))
}

/// Merges the parts of a run, and writes its results.
pub fn merge(arguments: &MergeArguments) -> Result<(), Failure> {
    let folder = result_folder(arguments.out.as_deref(), arguments.json, "experiments")?;
    let parts: Vec<Part> =
        arguments.parts.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let whole = check_same_run(arguments, &parts)?;
    let Part { quick, seeds, seed, samples, unstated, .. } = *whole;
    let options = ExperimentOptions { quick, seeds, seed, samples };
    let mut experiments = Vec::new();
    for name in &whole.experiments {
        experiments.push(Experiment::load(name)?.with(&options));
    }
    let build = build()?;
    let study = Study::of(experiments, unstated)?;
    let plan = study.plan(&build)?;
    let mut store = Store::in_memory(build);
    for path in &arguments.parts {
        store.add_from(&path.join(POINTS))?;
    }
    let missing = plan.missing(&store);
    if missing > 0 {
        let there: Vec<String> = parts.iter().map(|part| part.index.to_string()).collect();
        return Err(Failure::Parts(format!(
            "{missing} of {} missing; the parts that are there: {} of {}",
            counted(plan.point_count(), "point"),
            there.join(", "),
            whole.count
        )));
    }
    let found = study.results(&plan, &store, quick)?;
    let points = format!("points:  {}, of {}\n", plan.point_count(), counted(parts.len(), "part"));
    write_files(folder.as_ref(), &found, &command(), &points, false)?.print(arguments.json)
}

fn read(folder: &Path) -> Result<Part, Failure> {
    let path = folder.join(PART);
    let wrong = |problem: String| Failure::Parts(format!("{}: {problem}", path.display()));
    let text = perforate_config::read_text(&path)
        .map_err(|error| wrong(format!("{error}; expected a folder that --shard I/N wrote")))?;
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

/// Returns the first part. Fails if the parts do not belong to one run.
fn check_same_run<'a>(arguments: &MergeArguments, parts: &'a [Part]) -> Result<&'a Part, Failure> {
    let first = &parts[0];
    for (path, part) in arguments.parts.iter().zip(parts) {
        let same = Part { index: first.index, ..part.clone() };
        if same != *first {
            return Err(Failure::Parts(format!(
                "{} and {} are parts of different runs: other experiments, options, number of \
                 parts, or another build of this program",
                arguments.parts[0].display(),
                path.display()
            )));
        }
    }
    Ok(first)
}
