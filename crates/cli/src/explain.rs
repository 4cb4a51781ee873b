//! `perforate explain`: shows translations step by step.

use crate::actions::{Failure, Question};
use clap::Args;
use perforate_config::{Address, ConfigError, Section};

use crate::options::{RunFlags, own_memory_bar};
use crate::output::{print, text_columns};

/// Show one translation step by step.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate explain                             addresses that show different cases
  perforate explain 0x7eff80070000 --scheme perforated
  perforate explain 0x7eff80070000 --scheme 4k --machine ice-lake-sp
  perforate explain --set walker.l2_tlb_cycles=7 --set walk_cache.level2_entries=64

Cycles are those of an idle machine, with empty data caches and with every line read in the
first-level cache. Cases 1–7 are those of P §IV.D.")]
pub struct ExplainArguments {
    /// Virtual addresses, hexadecimal with 0x or decimal [default: chosen to show
    /// different cases]
    #[arg(value_name = "ADDRESS", value_parser = address, help_heading = Section::Program.title())]
    addresses: Vec<u64>,
    /// Trace or workload to run first: 1 M instructions, or as many as --instructions says
    #[arg(
        long,
        value_name = "TRACE|WORKLOAD",
        default_value = "random",
        help_heading = Section::Program.title()
    )]
    workload: String,
    /// The scheme
    #[arg(
        long,
        value_name = "NAME",
        default_value = "perforated",
        help_heading = Section::Schemes.title()
    )]
    scheme: String,
    #[command(flatten)]
    placement: RunFlags<false>,
}

fn address(text: &str) -> Result<u64, String> {
    let Address(address) = text.parse().map_err(|error: ConfigError| error.to_string())?;
    if address >> 47 != 0 {
        return Err(format!("{text}: not a user address of x86-64 (47 bits)"));
    }
    Ok(address)
}

/// Runs the workload, and prints explanations of the translations.
pub fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let ExplainArguments { addresses, workload, scheme, placement } = arguments;
    let question = Question { addresses, workload, scheme };
    let explained = crate::actions::explain(&placement.request()?, &question, &own_memory_bar())?;
    print(&explained.text(text_columns()))
}
