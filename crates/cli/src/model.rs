//! `perforate model`: linear models of direct segments.

use std::path::PathBuf;

use crate::actions::Failure;
use clap::Args;
use perforate_config::Share;
use perforate_experiment::linear_model::{
    ACCEPTED_EVENTS, Prediction, ResultSchemes, Row, Runs, Shares, predict, read_perf, read_results,
};
use perforate_report::text::{Column, columns};
use serde_json::json;

use crate::output::{notes, print, text_columns};

/// Predict what direct segments would cost, from measured counters or results, with the linear
/// models of D Table IV.
#[derive(Args)]
#[command(after_help = help())]
pub struct ModelArguments {
    /// Counters of the native run, as `perf stat -x,` writes them; of several the medians are taken
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "results")]
    native: Vec<PathBuf>,
    /// Counters of the same work in a virtual machine
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "results")]
    virtualized: Vec<PathBuf>,
    /// Counters of the native run with 2MB pages, for the overheads [default: the native run]
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "results")]
    native_2m: Vec<PathBuf>,
    /// Take the runs from results of compare or run instead
    #[arg(long, value_name = "FILE", required_unless_present_any = ["native", "virtualized"])]
    results: Option<PathBuf>,
    /// The native run in the results [default: 4k]
    #[arg(long, value_name = "NAME", requires = "results")]
    native_scheme: Option<String>,
    /// The virtualized run in the results [default: 4k+4k]
    #[arg(long, value_name = "NAME", requires = "results")]
    virtualized_scheme: Option<String>,
    /// The native run with 2MB pages in the results [default: thp, if there]
    #[arg(long, value_name = "NAME", requires = "results")]
    native_2m_scheme: Option<String>,
    /// Share of the misses in the native direct segment, 0.999 or 99.9% [default with --results: as
    /// counted there]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    segment_share: Option<Share>,
    /// Share in the VMM segment [default: as --segment-share]
    #[arg(long, value_name = "SHARE", requires = "segment_share", allow_hyphen_values = true)]
    vmm_share: Option<Share>,
    /// Share in the guest segment [default: as --segment-share]
    #[arg(long, value_name = "SHARE", requires = "segment_share", allow_hyphen_values = true)]
    guest_share: Option<Share>,
    /// Share in both segments [default: the lesser of the two]
    #[arg(long, value_name = "SHARE", requires = "segment_share", allow_hyphen_values = true)]
    both_share: Option<Share>,
    /// Print one JSON line per design and nothing else
    #[arg(long)]
    json: bool,
}

fn help() -> String {
    format!(
        "Examples:
  perforate model --native native.csv --virtualized virtual.csv --segment-share 99.9%
  perforate model --native n1.csv n2.csv n3.csv --virtualized v1.csv v2.csv v3.csv \\
      --native-2m thp.csv --segment-share 99.9% --vmm-share 100%
  perforate model --results results/results.jsonl

The files come from, on the host and in the virtual machine:
  perf stat -x, -o native.csv -e cycles,dTLB-load-misses,dtlb_load_misses.walk_active -- PROG
Events, by the first name that is there:
  {ACCEPTED_EVENTS}"
    )
}

/// Inputs of a prediction: measured runs, shares of misses in direct segments, and notes on both.
struct Case {
    title: String,
    runs: Runs,
    shares: Shares,
    notes: Vec<String>,
}

/// Prints the measured runs and the predictions of the models.
pub fn model(arguments: &ModelArguments) -> Result<(), Failure> {
    let shares = arguments.shares()?;
    let cases = match &arguments.results {
        Some(path) => arguments.simulated(path, shares)?,
        None => vec![arguments.measured(shares)?],
    };
    let write = if arguments.json { json_lines } else { text };
    let texts: Vec<String> =
        cases.iter().map(|case| write(case, &predict(&case.runs, &case.shares))).collect();
    print(&texts.join(if arguments.json { "" } else { "\n" }))
}

impl ModelArguments {
    fn shares(&self) -> Result<Option<Shares>, Failure> {
        let Some(segment) = self.segment_share else { return Ok(None) };
        let (segment, value) = (segment.value(), |share: Option<Share>| share.map(Share::value));
        let [vmm, guest, both] = [self.vmm_share, self.guest_share, self.both_share].map(value);
        Ok(Some(Shares::new(segment, vmm, guest, both)?))
    }

    fn measured(&self, shares: Option<Shares>) -> Result<Case, Failure> {
        for (option, files) in [("--native", &self.native), ("--virtualized", &self.virtualized)] {
            if files.is_empty() {
                return Err(Failure::Usage(format!(
                    "{option} is missing; expected the counters of a native and of a virtualized run"
                )));
            }
        }
        let shares = shares.ok_or_else(|| {
            let problem = "--segment-share is missing: counters do not tell which misses lie in a \
                           segment; expected a share such as 99.9%";
            Failure::Usage(problem.into())
        })?;
        let mut groups = vec![&self.native[..], &self.virtualized];
        if !self.native_2m.is_empty() {
            groups.push(&self.native_2m);
        }
        let read = read_perf(&groups)?;
        let runs = Runs {
            native: read[0].measured,
            virtualized: read[1].measured,
            native_2m: read.get(2).map(|files| files.measured),
        };
        let mut notes: Vec<String> = read.into_iter().flat_map(|files| files.notes).collect();
        notes.dedup();
        Ok(Case { title: "measured counters".into(), runs, shares, notes })
    }

    fn simulated(
        &self,
        path: &std::path::Path,
        shares: Option<Shares>,
    ) -> Result<Vec<Case>, Failure> {
        let default = ResultSchemes::default();
        let or = |given: &Option<String>, default| given.clone().unwrap_or(default);
        let schemes = ResultSchemes {
            native: or(&self.native_scheme, default.native),
            virtualized: or(&self.virtualized_scheme, default.virtualized),
            native_2m: or(&self.native_2m_scheme, default.native_2m),
        };
        let found = read_results(path, &schemes)?;
        found
            .into_iter()
            .map(|found| {
                let shares = shares.or(found.shares).ok_or_else(|| {
                    Failure::Usage(format!(
                        "{}: no run on {:?} counted misses in segments; expected one of a scheme \
                         with segments, or --segment-share",
                        path.display(),
                        found.workload
                    ))
                })?;
                let title = format!("{} · machine {}", found.workload, found.machine);
                let notes = vec![format!(
                    "runs: {} native, {} virtualized; medians over seeds",
                    schemes.native, schemes.virtualized
                )];
                Ok(Case { title, runs: found.runs, shares, notes })
            })
            .collect()
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn text(case: &Case, prediction: &Prediction) -> String {
    // Each group of rows begins with a heading.
    let groups = [("Runs", true), ("Models", false)];
    let rows: Vec<(&str, Option<&Row>)> = groups
        .iter()
        .flat_map(|&(heading, is_measured)| {
            let rows = prediction.rows.iter().filter(move |row| row.is_measured == is_measured);
            std::iter::once((heading, None)).chain(rows.map(|row| (row.design, Some(row))))
        })
        .collect();
    let name = |row: &(&str, Option<&Row>)| match row.1 {
        Some(_) => format!("  {}", row.0),
        None => row.0.to_owned(),
    };
    let numbers = |heading: &str, write: fn(&Row) -> String| {
        Column::numbers(
            heading,
            rows.iter().map(|row| row.1.map_or_else(String::new, write)).collect(),
        )
    };
    let table = columns(
        &[
            Column::texts("", rows.iter().map(name).collect()),
            numbers("walk cycles", |row| format!("{:.0}", row.walk_cycles)),
            numbers("÷ native time", |row| percent(row.share_of_native)),
            numbers("overhead", |row| row.overhead.map_or_else(|| "–".to_owned(), percent)),
        ],
        text_columns(),
    );
    format!("Cost of page walks by D Table IV: {}\n\n{table}\n", plain(&case.title))
        + notes(&prediction.notes, text_columns()).as_str()
        + notes(&case.notes, text_columns()).as_str()
}

/// Removes control characters from a text.
fn plain(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).collect()
}

fn json_lines(case: &Case, prediction: &Prediction) -> String {
    let line = |row: &Row| {
        let value = json!({
            "case": case.title,
            "design": row.design,
            "is_measured": row.is_measured,
            "walk_cycles": row.walk_cycles,
            "share_of_native_cycles": row.share_of_native,
            "overhead": row.overhead,
        });
        format!("{value}\n")
    };
    prediction.rows.iter().map(line).collect()
}
