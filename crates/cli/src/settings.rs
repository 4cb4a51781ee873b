//! `--set KEY=VALUE`: other values for keys of the machine.

use clap::Args;
use perforate_sim::{MachineFile, SimError};

use crate::failure::Failure;
use crate::sections;

/// Other values for keys of the machine, in the order in which they were given.
#[derive(Args, Clone, Debug, Default)]
pub struct MachineSettings {
    /// Another value for a key of the machine, such as tlb.l2.entries=3072
    ///
    /// `perforate machines show NAME` has the keys; absent takes a key away; may be given several
    /// times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting, help_heading = sections::MACHINE)]
    all: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("{text:?} has no value; expected KEY=VALUE such as tlb.l2.entries=3072")),
    }
}

impl MachineSettings {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The same with one more.
    pub fn with(&self, key: &str, value: &str) -> Self {
        let mut all = self.all.clone();
        all.push((key.to_owned(), value.to_owned()));
        Self { all }
    }

    /// Sets the values in a machine file.
    ///
    /// # Errors
    /// The first that there is no key for, or whose value the key cannot have.
    pub fn apply(&self, file: &mut MachineFile) -> Result<(), Failure> {
        for (key, value) in &self.all {
            let wrong = |error| match error {
                SimError::Machine { problem, .. } => {
                    Failure::Usage(format!("--set {key}={value}: {problem}"))
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
                    self.all.iter().map(|(key, value)| format!("{key}={value}")).collect();
                Failure::Usage(format!("--set {}: {problem}", all.join(" --set ")))
            }
            error => error.into(),
        }
    }
}
