//! Machines by name, by file, or the one that the program runs on.

use perforate_host::machine::own_machine;
use perforate_sim::{Machine, MachineFile};

use crate::{Failure, MachineSettings};

/// The name of the machine that the program runs on.
pub(crate) const HOST: &str = "host";

/// The machine of this name or file, or this one, with other values for some of its keys.
///
/// # Errors
/// There is no such machine, or no such key; the file is wrong.
pub fn load_machine(name: &str, settings: &MachineSettings) -> Result<Machine, Failure> {
    if !name.eq_ignore_ascii_case(HOST) && settings.is_empty() {
        return Ok(Machine::load(name)?);
    }
    machine_file(name, settings)?.machine().map_err(|error| settings.blame(error))
}

/// The file of such a machine.
///
/// # Errors
/// There is no such machine, or no such key; the file is wrong without the other values.
pub fn machine_file(name: &str, settings: &MachineSettings) -> Result<MachineFile, Failure> {
    if name != HOST && name.eq_ignore_ascii_case(HOST) {
        return Err(Failure::Usage(format!("no machine {name:?}; did you mean {HOST}?")));
    }
    let mut file = if name == HOST { own_machine()? } else { MachineFile::load(name)? };
    // What is wrong without them is not their fault.
    file.machine()?;
    settings.apply(&mut file)?;
    Ok(file)
}
