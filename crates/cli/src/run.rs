//! `perforate run`: runs one scheme.

use std::path::PathBuf;

use crate::actions::{Failure, RESULTS, ResultFolder, json_lines};
use clap::Args;
use perforate_config::Section;
use perforate_report::text::{Column, columns};
use perforate_sim::{Composition, RunResult, Sampled, SimError};
use perforate_types::counted;

use crate::options::{RunFlags, own_memory_bar};
use crate::output::{notes, print, text_columns};
use crate::progress::Bar;

/// Run one scheme and print all its counters.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate run random --scheme perforated
  perforate run redis --scheme thp --functional --check
  perforate run random:size=1G --scheme thp --memory 768M --swap 2G --functional
  perforate run my.trace --scheme 4k --json | jq .counters.walks")]
pub struct RunArguments {
    /// Trace file, bundled trace or workload [default: hpcc, a bundled trace]
    ///
    /// `perforate list workloads` has them; FORMAT:FILE is a foreign trace whose content does not
    /// identify its format (docs/foreign-traces.md), - a trace on standard input
    #[arg(value_name = "TRACE|WORKLOAD", help_heading = Section::Program.title())]
    workload: Option<String>,
    /// The scheme; GUEST+HOST is one in a virtual machine over one of its host
    #[arg(
        long,
        value_name = "NAME",
        default_value = "perforated",
        help_heading = Section::Schemes.title()
    )]
    scheme: String,
    #[command(flatten)]
    simulation: RunFlags<true>,
    /// Folder for results.jsonl [default: none is written]
    #[arg(short, long, value_name = "DIR", help_heading = Section::Output.title())]
    out: Option<PathBuf>,
    /// Print the result as a JSON line and nothing else
    #[arg(long, help_heading = Section::Output.title())]
    json: bool,
}

/// Runs the scheme and prints its counters.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let request = arguments.simulation.request()?;
    let schemes = Composition::list(&arguments.scheme).map_err(SimError::from)?;
    let workload = arguments.workload.as_deref();
    if schemes.len() != 1 {
        return Err(Failure::Usage("run takes one scheme; use compare for several".into()));
    }
    let run = request.resolve(workload, schemes, &own_memory_bar())?;
    let folder = arguments.out.as_deref().map(ResultFolder::named).transpose()?;
    let bar = Bar::instructions("simulating");
    let results = perforate_sim::run(&run, &mut |progress| bar.show(progress))?;
    drop(bar);
    if let Some(folder) = &folder {
        folder.write(&vec![(RESULTS.to_owned(), json_lines(&results))])?;
    }
    if arguments.json {
        return print(&json_lines(&results));
    }
    let texts: Vec<String> = results.iter().map(text).collect();
    print(&texts.concat())
}

/// Describes the estimates from sampled windows for the whole program, or for the measured part.
fn sampled(sampled: &Sampled) -> String {
    let groups = [(&sampled.figures, 4), (&sampled.extrapolated, 0)];
    let figures = groups.iter().flat_map(|(group, decimals)| {
        group.iter().map(move |(name, figure)| (name, figure, *decimals))
    });
    let rows = figures.map(|(name, figure, decimals)| {
        let half = figure.half_width_95.map(|half| format!("± {half:.decimals$}"));
        (name.to_string(), (format!("{:.decimals$}", figure.mean), half.unwrap_or_default()))
    });
    let (names, (means, halves)) = rows.unzip();
    let table = [Column::texts("", names), Column::numbers("", means), Column::texts("", halves)];
    let whole = if sampled.only_timing { "measured part" } else { "whole program" };
    format!(
        "\n{whole} from {}, ± half of the 95% confidence interval\n{}",
        counted(sampled.windows, "window"),
        columns(&table, text_columns())
    )
}

fn text(result: &RunResult) -> String {
    let mut rows = vec![("instructions".to_owned(), result.instructions.to_string())];
    if let (Some(cycles), Some(ipc)) = (result.cycles, result.ipc) {
        rows.push(("cycles".to_owned(), cycles.to_string()));
        rows.push(("ipc".to_owned(), format!("{ipc:.4}")));
    }
    let first: Vec<String> = rows.iter().map(|(name, _)| name.clone()).collect();
    let counters = result.counters.iter().filter(|(name, _)| !first.iter().any(|row| name == row));
    rows.extend(counters.map(|(name, value)| {
        let value = match value {
            perforate_types::CounterValue::Count(count) => count.to_string(),
            perforate_types::CounterValue::Ratio(ratio) => format!("{ratio:.4}"),
        };
        (name.to_string(), value)
    }));
    let (names, values) = rows.into_iter().unzip();
    format!(
        "{} under {} on {}, seed {}\n\n{}{}\n{}",
        result.workload,
        result.scheme,
        result.machine,
        result.seed,
        columns(&[Column::texts("", names), Column::numbers("", values)], text_columns()),
        result.sampled.as_ref().map_or(String::new(), sampled),
        notes(&result.notes, text_columns())
    )
}
