//! Machines by name, file, or as this one, and `perforate machines`.

use clap::{Args, Subcommand};
use perforate_host::machine::own_machine;
use perforate_sim::{Machine, MachineFile};

use crate::failure::Failure;
use crate::list;
use crate::output::print;
use crate::settings::MachineSettings;

/// The name of the machine that the program runs on.
const HOST: &str = "host";

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
    /// Print a machine file with the source of each value, what it is based on included
    #[command(after_help = "Examples:
  perforate machines show ice-lake-sp
  perforate machines show host                          this machine, by CPUID and by calibrate
  perforate machines show mine.toml --set tlb.l2.entries=3072
  perforate machines show ice-lake-sp > mine.toml       to change what one likes

A file of one's own may say what differs from another and nothing else:

  base = \"ice-lake-sp\"           # or a path from the folder of this file
  tlb.l2.entries = 3072          # \"absent\" takes a key away")]
    Show(ShowArguments),
}

#[derive(Args)]
struct ShowArguments {
    /// A bundled machine, a machine file, or host, this machine
    #[arg(value_name = "NAME|FILE")]
    machine: String,
    #[command(flatten)]
    settings: MachineSettings,
}

/// Runs the subcommand.
pub fn machines(arguments: &MachinesArguments) -> Result<(), Failure> {
    match &arguments.command {
        MachinesCommand::List => print(&list::machines()),
        MachinesCommand::Show(arguments) => show(arguments),
    }
}

fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    let file = file(&arguments.machine, &arguments.settings)?;
    let machine = checked(&file, &arguments.settings)?;
    let remarks: String = machine.remarks.iter().map(|remark| format!("# {remark}\n")).collect();
    let separator = if remarks.is_empty() { "" } else { "#\n" };
    print(&format!("{remarks}{separator}{}", file.text()))
}

/// The machine of this name or file, or this one, with other values for some of its keys.
///
/// # Errors
/// There is no such machine, or no such key; the file is wrong.
pub fn load(name: &str, settings: &MachineSettings) -> Result<Machine, Failure> {
    if !name.eq_ignore_ascii_case(HOST) && settings.is_empty() {
        return Ok(Machine::load(name)?);
    }
    checked(&file(name, settings)?, settings)
}

fn file(name: &str, settings: &MachineSettings) -> Result<MachineFile, Failure> {
    if name != HOST && name.eq_ignore_ascii_case(HOST) {
        return Err(Failure::Usage(format!("no machine {name:?}; did you mean {HOST}?")));
    }
    let mut file = if name == HOST { own_machine()? } else { MachineFile::load(name)? };
    // What is wrong without them is not their fault.
    file.machine()?;
    settings.apply(&mut file)?;
    Ok(file)
}

fn checked(file: &MachineFile, settings: &MachineSettings) -> Result<Machine, Failure> {
    file.machine().map_err(|error| settings.blame(error))
}
