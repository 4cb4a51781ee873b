//! Overrides of machine keys: `--set KEY=VALUE` on the command line. A machine key is the dotted path of a
//! value in a machine file, such as `tlb.l2.entries`.

use perforate_sim::{MachineFile, SimError};

use super::Failure;

/// Machine keys with the values that override those of the machine file, in the order of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSettings(pub Vec<(String, String)>);

impl MachineSettings {
    /// True if no key is overridden.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends an override of the machine key `key`.
    pub fn push(&mut self, key: &str, value: &str) {
        self.0.push((key.to_owned(), value.to_owned()));
    }

    /// Applies the overrides to a machine file.
    ///
    /// # Errors
    /// An unknown key or an invalid value; the first is reported.
    pub fn apply(&self, file: &mut MachineFile) -> Result<(), Failure> {
        for (key, value) in &self.0 {
            let wrong = |error| match error {
                SimError::Machine { problem, .. } => {
                    let own = problem.strip_prefix(&format!("{key}: ")).unwrap_or(&problem);
                    let (settings, problem) = (vec![(key.clone(), value.clone())], own.to_owned());
                    Failure::Setting { settings, problem }
                }
                error => error.into(),
            };
            file.set(key, value).map_err(wrong)?;
        }
        Ok(())
    }

    /// Makes a failure that names these overrides as the cause of `error`, if it is an error of the machine.
    pub fn blame(&self, error: SimError) -> Failure {
        match error {
            SimError::Machine { problem, .. } if !self.is_empty() => {
                Failure::Setting { settings: self.0.clone(), problem }
            }
            error => error.into(),
        }
    }
}
