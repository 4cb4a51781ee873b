//! Other values for keys of the machine: `--set KEY=VALUE` of the command line.

use perforate_sim::{MachineFile, SimError};

use crate::Failure;

/// Other values for keys of the machine, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSettings(pub Vec<(String, String)>);

impl MachineSettings {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets another value.
    pub fn push(&mut self, key: &str, value: &str) {
        self.0.push((key.to_owned(), value.to_owned()));
    }

    /// Sets the values in a machine file.
    ///
    /// # Errors
    /// The first that there is no key for, or whose value the key cannot have.
    pub fn apply(&self, file: &mut MachineFile) -> Result<(), Failure> {
        for (key, value) in &self.0 {
            let wrong = |error| match error {
                SimError::Machine { problem, .. } => {
                    let own = problem.strip_prefix(&format!("{key}: ")).unwrap_or(&problem);
                    Failure::Usage(format!("--set {key}={value}: {own}"))
                }
                error => error.into(),
            };
            file.set(key, value).map_err(wrong)?;
        }
        Ok(())
    }

    /// What is wrong with the machine that they make, if they make none.
    pub fn blame(&self, error: SimError) -> Failure {
        match error {
            SimError::Machine { problem, .. } if !self.is_empty() => {
                let all: Vec<_> =
                    self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
                Failure::Usage(format!("--set {}: {problem}", all.join(" --set ")))
            }
            error => error.into(),
        }
    }
}
