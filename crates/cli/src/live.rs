//! `perforate experiment live`.

mod text;

use perforate_commands::Failure;
use perforate_schemes::perforated::{Perforated, PerforationOptions};
use std::time::Duration;

use clap::Args;
use perforate_config::{Size, read};
use perforate_host::live::{Request, ask};

use crate::output::print;
use crate::progress::StageBars;

/// Ask this machine for memory in large pages (P §III.C).
#[derive(Args)]
#[command(after_help = "Examples:
  perforate experiment live                        4GB, or half of what is available
  perforate experiment live --size 512M --wait 5s
  perforate experiment live --wait 2m --collapse --json

Asks the kernel for anonymous memory with MADV_HUGEPAGE, touches all of it, and tells how much came
in 2MB pages, at once and after a wait. As root it also tells, from /proc/kpageflags, how much more
could be had as perforated pages. No setting of the system is changed. The memory is this process's
own and goes with it, also after Ctrl-C; when memory is short, this process is killed first.")]
pub struct LiveArguments {
    /// Memory to ask for; never more than half of what is available
    #[arg(long, value_name = "SIZE", default_value = "4G", allow_hyphen_values = true)]
    size: Size,
    /// How long to let khugepaged work before looking again: seconds, or with m minutes
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    wait: Duration,
    /// After the wait, ask the kernel to make 2MB pages now (MADV_COLLAPSE, Linux 6.1)
    #[arg(long)]
    collapse: bool,
    /// Policy for perforated pages, as elsewhere [default: that of P §III.C]
    #[arg(long, value_name = "SPEC", value_parser = read::<PerforationOptions>)]
    perforation: Option<PerforationOptions>,
    /// Print the result as a JSON line and nothing else
    #[arg(long)]
    json: bool,
}

/// Parses a time such as `30`, `30s` or `2m`, at most a day.
fn duration(text: &str) -> Result<Duration, String> {
    let (digits, factor) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    let seconds = seconds.filter(|seconds| *seconds <= 86_400);
    seconds.map(Duration::from_secs).ok_or_else(|| "expected a time such as 30s or 2m".into())
}

/// Runs the experiment.
pub fn live(arguments: &LiveArguments) -> Result<(), Failure> {
    let bytes = arguments.size.bytes();
    let options = arguments.perforation.unwrap_or(PerforationOptions::SELECTIVE);
    let policy = Perforated::new(options).map_err(|error| error.under("perforation"))?;
    let request =
        Request { bytes, wait: arguments.wait, collapse: arguments.collapse, policy: &policy };
    let outcome = ask(&request, &mut StageBars::default())?;
    let json = || perforate_records::json_line(&outcome);
    print(&if arguments.json { json() } else { text::text(&outcome) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, seconds) in [("30", 30), ("30s", 30), ("2m", 120)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for wrong in ["", "s", "-1", "1h", "1.5s", "86401", "99999999999999999999m"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
