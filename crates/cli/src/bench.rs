//! `perforate bench`: speed of the simulator on this computer, and gain and error of sampled timing.

use std::time::Instant;

use crate::actions::Failure;
use clap::Args;
use perforate_config::Section;
use perforate_report::text::{Column, columns, compact, wrapped};
use perforate_sim::{
    Composition, FiguresOnly, MeasuringOptions, ProcessorOptions, Progress, ResolvedRun, RunResult,
    SimError, TimedWindows, Timing,
};
use serde_json::json;

use crate::options::{RunFlags, own_memory_bar};
use crate::output::{print, text_columns};
use crate::progress::Bar;

/// Workloads that `bench` runs by default: data larger than every TLB, a stream, and recorded programs.
const WORKLOADS: [&str; 8] =
    ["random", "chase:size=1G", "sequential", "bfs", "redis", "mummer", "xz", "hpcc"];
/// Number of instructions that each run has by default.
const INSTRUCTIONS: u64 = 50_000_000;

/// Measure how fast this computer simulates, and how far sampled timing is from full timing
#[derive(Args)]
#[command(after_help = "Examples:
  perforate bench                                       eight workloads, three minutes
  perforate bench redis --schemes 4k,thp --timing sampled=20k/1M
  perforate bench xz --instructions 5M --json | jq .seconds

Each run is alone. One thread decodes, one simulates; with sampled timing, a third runs
the clock if there are more than two processors.")]
pub struct BenchArguments {
    /// Trace files, bundled traces or workloads [default: eight]
    #[arg(value_name = "TRACE|WORKLOAD", help_heading = Section::Program.title())]
    workloads: Vec<String>,
    /// Schemes; the speed-ups of the others are relative to the first
    #[arg(
        long,
        value_name = "NAME,…",
        default_value = "4k,perforated",
        help_heading = Section::Schemes.title()
    )]
    schemes: String,
    #[command(flatten)]
    placement: RunFlags<false>,
    /// Windows that are timed in sampled runs [default: sampled=10k/500k]
    #[arg(long, value_name = "sampled=N/M", help_heading = Section::Length.title())]
    timing: Option<Timing>,
    /// Print a JSON line for each workload and scheme and nothing else
    #[arg(long, help_heading = Section::Output.title())]
    json: bool,
}

/// Result of a run, and the seconds that it took.
struct Run {
    result: RunResult,
    seconds: f64,
}

/// Runs of a workload under a scheme: with full timing, with sampled timing, and without timing.
struct Measured {
    /// Workload as the user named it.
    workload: String,
    full: Run,
    sampled: Run,
    functional: Run,
    /// Relative error, in the sampled runs, of the speed-up over the first scheme; `None` for the first
    /// scheme.
    speed_error: Option<f64>,
}

/// Runs all workloads under all schemes, and prints a table.
pub fn bench(arguments: &BenchArguments) -> Result<(), Failure> {
    let timing = match arguments.timing {
        Some(Timing::Full) => {
            return Err(Failure::Usage(
                "--timing: full timing is measured in any case; expected sampled=WINDOW/PERIOD"
                    .into(),
            ));
        }
        Some(timing) => timing,
        None => Timing::Sampled(TimedWindows::default()),
    };
    let schemes = Composition::list(&arguments.schemes).map_err(SimError::from)?;
    let request = arguments.placement.request()?;
    let mut names: Vec<&str> = arguments.workloads.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.extend(WORKLOADS);
    }
    let bar = Bar::instructions("measuring");
    let mut all = Vec::new();
    for name in names {
        let mut of_workload: Vec<Measured> = Vec::new();
        for scheme in &schemes {
            bar.stage(&format!("{name} under {}", scheme.name()));
            let mut run = request.resolve(Some(name), vec![*scheme], &own_memory_bar())?;
            run.workload.instructions.get_or_insert(INSTRUCTIONS);
            let measured = measure((name, &run), timing, of_workload.first(), &bar)?;
            of_workload.push(measured);
        }
        all.extend(of_workload);
    }
    drop(bar);
    if arguments.json {
        let lines: Vec<String> = all.iter().map(|it| format!("{}\n", it.json())).collect();
        return print(&lines.concat());
    }
    print(&table(&all, timing))
}

fn measure(
    (name, run): (&str, &ResolvedRun),
    timing: Timing,
    first: Option<&Measured>,
    bar: &Bar,
) -> Result<Measured, SimError> {
    let mut before = 0;
    let mut timed = |functional, timing| -> Result<Run, SimError> {
        let measuring = MeasuringOptions { functional, timing, ..run.measuring.clone() };
        let run = ResolvedRun { measuring, processors: ProcessorOptions::default(), ..run.clone() };
        let mut done = 0;
        let start = Instant::now();
        let mut results = perforate_sim::run(
            &run,
            &mut FiguresOnly(|progress: Progress| {
                done = progress.done;
                let total = progress.total.map(|total| total * 3);
                bar.show(Progress { done: before + done, total });
            }),
        )?;
        let seconds = start.elapsed().as_secs_f64();
        before += done;
        Ok(Run { result: results.remove(0), seconds })
    };
    let full = timed(false, Timing::Full)?;
    let sampled = timed(false, timing)?;
    let functional = timed(true, Timing::Full)?;
    let speed_error = first.and_then(|first| {
        let speed = |run: &Run, base: &Run| Some(run.result.ipc? / base.result.ipc?);
        Some(speed(&sampled, &first.sampled)? / speed(&full, &first.full)? - 1.0)
    });
    Ok(Measured { workload: name.to_owned(), full, sampled, functional, speed_error })
}

impl Run {
    /// Simulated instructions per second, warm-up included.
    fn rate(&self) -> f64 {
        (self.result.instructions + self.result.warmup.instructions) as f64 / self.seconds
    }
}

impl Measured {
    /// Relative error of the IPC of the sampled run, and relative half width of its 95% confidence interval.
    fn ipc_error(&self) -> Option<(f64, f64)> {
        let error = self.sampled.result.ipc? / self.full.result.ipc? - 1.0;
        let estimate =
            self.sampled.result.sampled.as_ref()?.figures.get("cycles_per_instruction")?;
        Some((error, estimate.half_width_95? / estimate.mean))
    }

    fn json(&self) -> serde_json::Value {
        let RunResult { scheme, instructions, warmup, .. } = &self.full.result;
        let (ipc_error, half_width_95) = self.ipc_error().unzip();
        json!({
            "workload": self.workload,
            "scheme": scheme,
            "instructions": instructions + warmup.instructions,
            "seconds": {
                "full": self.full.seconds,
                "sampled": self.sampled.seconds,
                "functional": self.functional.seconds,
            },
            "ipc": self.full.result.ipc,
            "sampled_ipc_error": ipc_error,
            "sampled_half_width_95": half_width_95,
            "sampled_speed_error": self.speed_error,
        })
    }
}

fn table(all: &[Measured], timing: Timing) -> String {
    let column = |heading: &str, cell: &dyn Fn(&Measured) -> String| {
        Column::numbers(heading, all.iter().map(cell).collect())
    };
    let texts = |heading: &str, cell: &dyn Fn(&Measured) -> String| {
        Column::texts(heading, all.iter().map(cell).collect())
    };
    let percent = |share: f64| format!("{:+.2} %", share * 100.0);
    let per_second = |run: &Run| compact(run.rate().round());
    let table = [
        texts("workload", &|it| it.workload.clone()),
        texts("scheme", &|it| it.full.result.scheme.clone()),
        column("full", &|it| per_second(&it.full)),
        column("sampled", &|it| per_second(&it.sampled)),
        column("no clock", &|it| per_second(&it.functional)),
        column("gain", &|it| format!("{:.1}×", it.full.seconds / it.sampled.seconds)),
        column("IPC error", &|it| {
            it.ipc_error().map_or(String::new(), |(error, _)| percent(error))
        }),
        column("interval", &|it| {
            it.ipc_error().map_or(String::new(), |(_, half)| format!("± {:.2} %", half * 100.0))
        }),
        column("speed-up error", &|it| it.speed_error.map_or(String::new(), percent)),
    ];
    let TimedWindows { window, period } = match timing {
        Timing::Sampled(windows) => windows,
        Timing::Full => TimedWindows::default(),
    };
    let notes = [
        "full, sampled and no clock are instructions simulated per second, decoding and set-up \
         included; one run each, so that other work on this computer affects them"
            .to_owned(),
        format!(
            "sampled: windows of {window} in every {period} instructions; gain: over full; errors: \
             of sampled runs, relative to full ones; interval: that of 95 % which the sampled run \
             states; speed-up: over the first scheme"
        ),
    ];
    let notes: Vec<String> =
        notes.iter().map(|note| wrapped("note: ", note, text_columns())).collect();
    format!("{}\n{}\n", columns(&table, text_columns()), notes.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheme: &str, seconds: f64, ipc: f64) -> Run {
        let result = json!({
            "scheme": scheme, "workload": "w", "instructions": 2_000_000, "ipc": ipc,
            "sampled": {"figures": {"cycles_per_instruction": {"mean": 4.0, "half_width_95": 0.1}}},
        });
        let result = perforate_records::read_results(&result.to_string()).unwrap().remove(0);
        Run { result, seconds }
    }

    #[test]
    fn rates_gains_and_errors_by_hand() {
        let measured = Measured {
            workload: "w".into(),
            full: run("thp", 4.0, 0.2),
            sampled: run("thp", 1.0, 0.21),
            functional: run("thp", 0.5, 0.0),
            speed_error: Some(-0.015),
        };
        let windows = TimedWindows { window: 1_000, period: 20_000 };
        let text = table(&[measured], Timing::Sampled(windows));
        let row = text.lines().find(|line| line.starts_with("w ")).expect(&text);
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>().join(" "),
            "w thp 500k 2.00M 4.00M 4.0× +5.00 % ± 2.50 % -1.50 %"
        );
        assert!(text.contains("windows of 1000 in every 20000 instructions"), "{text}");
    }
}
