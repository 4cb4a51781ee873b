//! `perforate machines`: lists and shows machine files.

use crate::actions::{Failure, machine_file};
use clap::{Args, Subcommand};

use crate::list;
use crate::options::SettingFlags;
use crate::output::print;

/// List machines, or show one with the sources of its values.
#[derive(Args)]
#[command(arg_required_else_help = true)]
pub struct MachinesArguments {
    #[command(subcommand)]
    command: MachinesCommand,
}

#[derive(Subcommand)]
enum MachinesCommand {
    /// List the bundled machines
    List,
    /// Print a machine file with the source of each value, including the values of its base
    #[command(after_help = "Examples:
  perforate machines show ice-lake-sp
  perforate machines show host                          this machine, by CPUID and by calibrate
  perforate machines show mine.toml --set tlb.l2.entries=3072
  perforate machines show ice-lake-sp > mine.toml       to edit

A machine file may name a base, and have only the values that differ from it:

  base = \"ice-lake-sp\"           # or a path from the folder of this file
  tlb.l2.entries = 3072          # \"absent\" removes a key")]
    Show(ShowArguments),
}

#[derive(Args)]
struct ShowArguments {
    /// A bundled machine, a machine file, or host, this machine
    #[arg(value_name = "NAME|FILE")]
    machine: String,
    #[command(flatten)]
    settings: SettingFlags,
}

/// Lists machines, or shows one.
pub fn machines(arguments: &MachinesArguments) -> Result<(), Failure> {
    match &arguments.command {
        MachinesCommand::List => print(&list::machines()),
        MachinesCommand::Show(arguments) => show(arguments),
    }
}

fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let settings = arguments.settings.settings();
    let file = machine_file(&arguments.machine, &settings)?;
    let machine = file.machine().map_err(|error| settings.blame(error))?;
    let remarks: String = machine.remarks.iter().map(|remark| format!("# {remark}\n")).collect();
    let separator = if remarks.is_empty() { "" } else { "#\n" };
    print(&format!("{remarks}{separator}{}", file.text()))
}
