//! Selection of a machine: by name, from a file, or the one that the program runs on.

use perforate_host::machine::own_machine;
use perforate_sim::{Machine, MachineFile};

use super::{Failure, MachineSettings};

/// Machine name that selects the machine that the program runs on.
pub(crate) const HOST: &str = "host";

/// Loads a machine by name or from a file and applies overrides of its keys. The name `host`
/// selects the machine that the program runs on.
///
/// # Errors
/// An unknown machine or key, or an invalid file.
pub fn load_machine(name: &str, settings: &MachineSettings) -> Result<Machine, Failure> {
    if !name.eq_ignore_ascii_case(HOST) && settings.is_empty() {
        return Ok(Machine::load(name)?);
    }
    machine_file(name, settings)?.machine().map_err(|error| settings.blame(error))
}

/// Loads the file of a machine, and applies overrides as [`load_machine`] does.
///
/// # Errors
/// An unknown machine or key, or a file that is invalid even without the overrides.
pub fn machine_file(name: &str, settings: &MachineSettings) -> Result<MachineFile, Failure> {
    if name != HOST && name.eq_ignore_ascii_case(HOST) {
        return Err(Failure::Usage(format!("no machine {name:?}; did you mean {HOST}?")));
    }
    let mut file = if name == HOST { own_machine()? } else { MachineFile::load(name)? };
    // Checks the file first, so that the overrides are not blamed for its errors.
    file.machine()?;
    settings.apply(&mut file)?;
    Ok(file)
}
