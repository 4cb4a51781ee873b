//! Settings of a measurement: texts by key, as in an experiment file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use perforate_config::{Changes, ConfigError, Key, OptionTexts, Options};
use perforate_sim::{Machine, SimError};
use perforate_trace::bundled;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::identity::hash_of_file;

/// Prefix of settings that override a key of the machine file, such as `machine.walker.walkers`.
const MACHINE_KEYS: &str = "machine.";

/// Cache of parsed machines, because an experiment has thousands of points but few machines.
static BUNDLED: Mutex<BTreeMap<MachineSettings, Machine>> = Mutex::new(BTreeMap::new());

/// Name of a machine, and overrides of keys of its file as (key, value).
type MachineSettings = (String, Vec<(String, String)>);

/// Settings of a measurement by key; numbers and booleans are texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(pub BTreeMap<String, String>);

impl Settings {
    /// Returns the text of a setting; `None` if the setting is absent.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Converts the settings to the settings struct of a kind.
    ///
    /// # Errors
    /// An invalid setting, with the valid values.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        self.given().read().map_err(wrong)
    }

    /// Returns all settings except overrides of the machine file. Options of a workload form a group:
    /// `store.keys` is `keys` of the group `store`.
    pub fn given(&self) -> OptionTexts {
        let settings = self.0.iter().filter(|(key, _)| !key.starts_with(MACHINE_KEYS));
        let given =
            settings.map(|(key, text)| (key.as_str(), text.as_str())).collect::<OptionTexts>();
        self.groups().fold(given, OptionTexts::grouped)
    }

    /// Returns the prefixes of dotted keys, such as `store` of `store.keys`.
    fn groups(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|key| Some(key.split_once('.')?.0))
    }

    /// Loads the machine of this name, with the overrides of machine keys in these settings.
    ///
    /// # Errors
    /// Errors of [`Machine::load_with`].
    pub fn machine(&self, name: &str) -> Result<Machine, String> {
        check_machine(name)?;
        let changed = self.0.iter().filter_map(|(key, text)| {
            key.strip_prefix(MACHINE_KEYS).map(|rest| (rest, text.as_str()))
        });
        let load = || Machine::load_with(name, changed.clone()).map_err(|error| error.to_string());
        if !Machine::is_bundled(name) {
            return load();
        }
        let changes = changed.clone().map(|(key, text)| (key.into(), text.into())).collect();
        let mut bundled = BUNDLED.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match bundled.entry((name.into(), changes)) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => new.insert(load()?).clone(),
        })
    }

    /// Returns the contents of machine files and the hashes of other files that these settings name,
    /// including files that defaults name.
    ///
    /// # Errors
    /// An unreadable file.
    pub fn inputs(&self, known: &[Key]) -> Result<Vec<String>, String> {
        let mut inputs = Vec::new();
        for Key { name, default, .. } in known {
            let text = self.text(name).unwrap_or(default);
            let path = match name.as_str() {
                "machine" => {
                    check_machine(text)?;
                    inputs.push(Machine::text(text).map_err(|error| error.to_string())?);
                    continue;
                }
                "workload" => bundled::resolve(text),
                _ => text.to_owned(),
            };
            if Path::new(&path).is_file() {
                inputs.push(hash_of_file(Path::new(&path))?);
            }
        }
        Ok(inputs)
    }
}

/// Rejects the machine `host`, which is for the command line only. Results of experiments are
/// stored and compared later, when `host` may describe another machine.
fn check_machine(name: &str) -> Result<(), String> {
    if !name.eq_ignore_ascii_case("host") {
        return Ok(());
    }
    Err("machine = \"host\" is for the command line; an experiment takes a file: write one with \
         `perforate calibrate --out my.toml` (measured) or `perforate machines show host > my.toml` \
         (as the processor says), and set machine = \"my.toml\""
        .into())
}

/// Returns `options` with the changes that the setting `name` makes.
///
/// # Errors
/// Errors of [`Changes::over`].
pub fn changed<T: Options>(
    changes: Option<Changes<T>>,
    options: T,
    name: &str,
) -> Result<T, String> {
    let changed = changes.map(|changes| changes.over(&options));
    changed.unwrap_or(Ok(options)).map_err(|error| wrong(error.under(name)))
}

/// Returns the message for an invalid setting.
pub fn wrong(error: ConfigError) -> String {
    format!("setting {error}")
}

/// Returns the message for an error of the simulation, or for an invalid setting if that is the cause.
pub fn problem_of(error: SimError) -> String {
    match error {
        SimError::Config(error) => wrong(error),
        error => error.to_string(),
    }
}

/// Checks that a key is among the settings of a kind.
///
/// # Errors
/// An unknown key, with a similar known one.
pub fn check_key(key: &str, known: &[Key]) -> Result<(), ConfigError> {
    let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
    // The machine file's reader checks the text after the dot.
    let name = key.split_once('.').map_or(key, |(group, _)| group);
    if names.contains(&name) {
        return Ok(());
    }
    Err(ConfigError::unknown_key(key, &names))
}

#[cfg(test)]
mod tests {
    use perforate_config::{Count, Size, keys};
    use schemars::JsonSchema;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Some {
        reads: Count,
        heap: Size,
        machine: String,
    }

    #[test]
    fn settings_are_read() {
        let settings = |texts: &[(&str, &str)]| {
            Settings(texts.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect())
        };
        let read = settings(&[("reads", "500k"), ("heap", "4K"), ("machine.walker.walkers", "4")]);
        let expected =
            Some { reads: Count::new(500_000), heap: Size(4096), machine: String::new() };
        assert_eq!(read.read(), Ok(expected));
        let problem = read.machine("host").unwrap_err();
        assert!(problem.contains("calibrate --out my.toml"), "{problem}");
        assert_eq!(read.machine("gtsm-table4").unwrap().walker.walkers, 4);
        let problem = settings(&[("heap", "64")]).read::<Some>().unwrap_err();
        assert_eq!(problem, "setting heap: 64 has no unit: 64M or 64G?");
        let known = keys::<Some>();
        assert_eq!(check_key("machine.tlb.l2", &known), Ok(()));
        assert_eq!(check_key("heap", &known), Ok(()));
        let problem = check_key("heep", &known).unwrap_err().to_string();
        assert_eq!(problem, "there is no \"heep\"; did you mean heap?");
        assert!(check_key("machine.tlb", &known[..1]).is_err());
    }

    #[test]
    fn files_count_by_what_they_hold() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.trace");
        let settings = Settings([("reads".into(), path.to_str().unwrap().into())].into());
        let known = keys::<Some>();
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            settings.inputs(&known[..2]).unwrap()
        };
        assert_eq!(of("one").len(), 1);
        assert_eq!(of("one"), of("one"));
        assert_ne!(of("one"), of("two"));
        assert_eq!(settings.inputs(&known[1..2]), Ok(vec![]));
        let machine = Settings([("machine".into(), "gtsm-table4".into())].into());
        let inputs = machine.inputs(&known).unwrap();
        assert!(inputs.len() == 1 && inputs[0].contains("[tlb"), "{inputs:?}");
    }
}
