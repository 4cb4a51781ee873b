//! `--set KEY=VALUE`: other values for keys of the machine.

use clap::Args;
use perforate_commands::MachineSettings;
use perforate_config::Section;

/// Other values for keys of the machine, in the order in which they were given.
#[derive(Args, Clone, Debug, Default)]
pub struct SettingFlags {
    /// Another value for a key of the machine, such as tlb.l2.entries=3072
    ///
    /// `perforate machines show NAME` has the keys; absent takes a key away; may be given several
    /// times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting, help_heading = Section::Machine.title())]
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

impl SettingFlags {
    /// Values by key of the machine, in the order of the flags.
    pub fn settings(&self) -> MachineSettings {
        MachineSettings(self.all.clone())
    }
}
