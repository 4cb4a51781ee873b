//! Results of all bundled experiments over made-up measurements, with their texts and pages, compared with
//! `tests/kept.txt`.
//!
//! A measurement is a fixed function of the point and of the name of the figure. So nothing is simulated, and
//! curves, claims, readings and reports are those of no other change than one of how they are computed.

use std::collections::BTreeSet;
use std::fmt::Write;

use perforate_experiment::{
    Experiment, ExperimentOptions, Job, Measurement, Plan, Shard, Store, Study, Unstated,
};
use perforate_kept::{self as kept, TextHash};
use perforate_records::ExperimentResults;
use perforate_report::{ReportOptions, experiments_html, experiments_table};
use serde_json::Value;

/// Words before parentheses in the texts of experiments, among them all measured figures in formulas.
fn figures(experiments: &[Experiment]) -> BTreeSet<String> {
    let texts = format!("{experiments:?}");
    let is_of_word = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_';
    let word = |before: &str| {
        let start = before.trim_end_matches(is_of_word).len();
        before[start..].to_owned()
    };
    texts.split('(').map(word).filter(|word| !word.is_empty()).collect()
}

/// Made-up measurements of a job, each figure between 0.25 and 2.25. Some are missing.
fn made_up(job: &Job, figures: &BTreeSet<String>) -> Vec<Measurement> {
    let job = serde_json::to_value(job).unwrap();
    let subjects = job["subjects"].as_array().unwrap().iter();
    let of_subject = |subject: &Value| {
        let point = TextHash::of(&format!("{}{}{}", job["settings"], job["seed"], subject[0]));
        let of_figure = |figure: &String| {
            let number = TextHash::of(&format!("{point}{figure}")).0 >> 8;
            let value = 0.25 + (number % 2000) as f64 / 1000.0;
            (!number.is_multiple_of(31)).then(|| (figure.clone(), value))
        };
        figures.iter().filter_map(of_figure).collect()
    };
    subjects.map(of_subject).collect()
}

/// Results of experiments over made-up measurements.
fn results(experiments: &[Experiment], unstated: Option<Unstated>) -> (Plan, ExperimentResults) {
    let (figures, mut store) = (figures(experiments), Store::in_memory("kept".into()));
    let study = Study::of(experiments.to_vec(), unstated).unwrap();
    let plan = study.plan("kept").unwrap();
    for job in plan.jobs(Shard::WHOLE) {
        job.keep(made_up(job, &figures), &mut store).unwrap();
    }
    let results = study.results(&plan, &store, true).unwrap();
    (plan, results)
}

/// Adds a line with hashes of a result's records, texts and page.
fn add(kept: &mut String, name: &str, results: &ExperimentResults, options: &ReportOptions) {
    let texts = [60, 100].map(|columns| experiments_table(results, columns)).concat();
    let page = experiments_html(results, options);
    let [records, texts, page] = [&results.lines(), &texts, &page].map(|text| TextHash::of(text));
    writeln!(kept, "{name} records {records} texts {texts} page {page}").unwrap();
}

#[test]
fn results_of_bundled_experiments_are_as_they_were() {
    let quick = ExperimentOptions { quick: true, seeds: None, seed: None, samples: None };
    let experiments = Experiment::bundled().into_iter().map(|one| one.with(&quick));
    let experiments: Vec<Experiment> = experiments.collect();
    let mut kept = String::new();
    for (number, experiment) in experiments.iter().enumerate() {
        // Other numbers of seeds, and seeds of their own, as users may choose them.
        let chosen = ExperimentOptions {
            quick: true,
            seeds: Some(1 + number as u64 % 4),
            seed: (number % 3 == 1).then_some(7),
            samples: None,
        };
        let unstated = [None, Some(Unstated::Ranges(3)), Some(Unstated::Joint(6))][number / 4 % 3];
        let (plan, alone) = results(&[experiment.clone().with(&chosen)], unstated);
        let jobs: String =
            plan.jobs(Shard::WHOLE).map(|job| serde_json::to_string(job).unwrap()).collect();
        let options = ReportOptions {
            title: experiment.title.clone(),
            command: format!("perforate experiment run {}", experiment.name),
            results: "{}\n".into(),
            vocabulary: perforate_sim::vocabulary(),
        };
        let name = format!("{} {} points {}", experiment.name, plan.len(), TextHash::of(&jobs));
        add(&mut kept, &name, &alone, &options);
    }
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kept.txt"), &kept);
}
