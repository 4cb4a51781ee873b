//! `perforate verify`: measures a program as it is and with advice on large pages. Not listed in the help:
//! `advise` predicts, and this command measures.

mod text;

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ValueEnum};
use perforate_config::Count;
use perforate_host::Reporter;
use perforate_host::verify::{AdvisedArea, Base, Options, verify};
use perforate_records::{Clock, GainRatio, json_line};

use crate::actions::Failure;
use crate::output::CommandOutput;

pub use text::{tables, text};

/// Measure a program as it is and with large pages in parts of its memory.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate verify -- PROG ARGS…                    all private anonymous memory in large pages
  perforate verify --area heap:0-64M --area mapping3 --predicted 1.21,1.13-1.29 -- PROG ARGS…

Runs the program as it is, advised, advised, as it is, and then in the opposite order, and compares
processor times. The program is not changed: a library that is loaded before it gives the advice. No
setting of the system is changed.")]
pub struct VerifyArguments {
    /// Area with advice: heap, static, mappingN, sharedN (each with offsets, as in heap:0-64M,1G-),
    /// anonymous, name=NAME, text=FILE; repeatable [default: heap and anonymous: everything]
    #[arg(long, value_name = "AREA")]
    area: Vec<AdvisedArea>,
    /// Predicted ratio of the times, as it is ÷ advised, and its interval
    #[arg(long, value_name = "RATIO[,LOW-HIGH]", value_parser = gain_ratio)]
    predicted: Option<GainRatio>,
    /// Rounds of four runs
    #[arg(long, value_name = "N", default_value_t = Count::new(3))]
    rounds: Count<1, 1000>,
    /// Seconds after which a run is ended
    #[arg(long, value_name = "SECONDS", default_value_t = Count::new(600))]
    limit: Count<1, 1_000_000>,
    /// Processor to measure on [default: all]
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Time that is compared
    #[arg(long, value_enum, default_value_t = ClockName::Processor)]
    time: ClockName,
    /// Compare with 4KB pages only, also where the system gives large pages to all memory
    #[arg(long)]
    small: bool,
    /// Give the advice to programs that the program executes, too
    #[arg(long)]
    inherit: bool,
    /// Print the record as a JSON line, and nothing else
    #[arg(long)]
    pub json: bool,
    /// Program to measure, which must end by itself
    #[arg(last = true, required = true, value_name = "PROG ARGS…")]
    program: Vec<OsString>,
}

/// Names of kinds of time.
#[derive(Clone, Copy, ValueEnum)]
enum ClockName {
    Processor,
    User,
    Wall,
}

/// Parses a ratio such as `1.21`, or `1.21,1.13-1.29` with its interval.
fn gain_ratio(text: &str) -> Result<GainRatio, String> {
    let parsed = || {
        let (ratio, interval) = text.split_once(',').map_or((text, None), |(a, b)| (a, Some(b)));
        let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
        let ratio = number(ratio)?;
        let (low, high) = match interval {
            Some(interval) => {
                let (low, high) = interval.split_once('-')?;
                (number(low)?, number(high)?)
            }
            None => (ratio, ratio),
        };
        (low <= ratio && ratio <= high).then_some(GainRatio { ratio, low, high })
    };
    parsed()
        .ok_or_else(|| "expected a ratio in its interval, such as 1.21 or 1.21,1.13-1.29".into())
}

/// Measures a program with and without advice, and judges a prediction. Setting `stop` ends the measurement.
pub fn run(
    arguments: &VerifyArguments,
    reporter: &mut dyn Reporter,
    stop: &AtomicBool,
) -> Result<CommandOutput, Failure> {
    let everything = AdvisedArea::everything();
    let advice = if arguments.area.is_empty() { &everything } else { &arguments.area };
    let options = Options {
        rounds: arguments.rounds.get() as u32,
        processor: arguments.cpu,
        limit: Duration::from_secs(arguments.limit.get()),
        inherits: arguments.inherit,
        base: if arguments.small { Base::SmallPages } else { Base::AsItIs },
        clock: match arguments.time {
            ClockName::Processor => Clock::Processor,
            ClockName::User => Clock::User,
            ClockName::Wall => Clock::Wall,
        },
    };
    let found = verify(&arguments.program, advice, arguments.predicted, &options, stop, reporter)?;
    Ok(CommandOutput { json: json_line(&found), text: text(&found) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_lie_in_their_intervals() {
        let wanted = GainRatio { ratio: 1.21, low: 1.13, high: 1.29 };
        assert_eq!(gain_ratio("1.21,1.13-1.29"), Ok(wanted));
        assert_eq!(gain_ratio("1.5"), Ok(GainRatio { ratio: 1.5, low: 1.5, high: 1.5 }));
        for wrong in ["", "x", "0", "1.2,1.3-1.4", "1.2,1.1", "-1", "inf"] {
            assert!(gain_ratio(wrong).is_err(), "{wrong}");
        }
    }
}
