//! What the sources of a machine file, or of an experiment, leave open.

use serde::{Deserialize, Serialize};
use toml_edit::{Array, Item, Table, Value};

use super::document::leaves;
use super::{Machine, MachineFile};
use crate::SimError;

/// Something that the sources leave open, as the file has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plausible {
    /// What it is, in a few words.
    pub name: String,
    /// Why these values.
    pub reason: String,
    /// Each other value: the keys of the machine file that it changes (`"absent"` takes a key away),
    /// or the choices of the experiment.
    #[serde(default)]
    pub values: Vec<toml::Table>,
    /// Numbers that are multiplied together, instead of `values`.
    #[serde(default)]
    pub keys: Vec<String>,
    /// By what.
    #[serde(default)]
    pub times: Vec<f64>,
}

/// Another value that something could have: keys of the machine file with points in them, and what
/// they become.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alternative {
    /// The value in a few words: `cache.l1d.mshrs = 16`.
    pub description: String,
    /// Keys and values.
    pub changes: Vec<(String, String)>,
}

impl Plausible {
    /// All other values, in the order of the file; `file` is what they are other to.
    ///
    /// # Errors
    /// There are none, or a key to be multiplied is no number of the file.
    pub fn alternatives(&self, file: &toml::Table) -> Result<Vec<Alternative>, String> {
        let mut alternatives = Vec::new();
        for value in &self.values {
            let mut changes = Vec::new();
            flatten(value, "", &mut changes);
            let texts: Vec<_> =
                changes.iter().map(|(key, text)| format!("{key} = {text}")).collect();
            alternatives.push(Alternative { description: texts.join(", "), changes });
        }
        for times in &self.times {
            let scaled = |key: &String| {
                let value = number(file, key).ok_or_else(|| format!("{key} is no number"))?;
                Ok((key.clone(), (value * times).to_string()))
            };
            let changes = self.keys.iter().map(scaled).collect::<Result<_, String>>()?;
            alternatives.push(Alternative { description: format!("times {times}"), changes });
        }
        if alternatives.is_empty() || self.keys.is_empty() != self.times.is_empty() {
            return Err("expected values, or keys and times".into());
        }
        Ok(alternatives)
    }
}

/// All keys of a table with points in them, and their values.
fn flatten(table: &toml::Table, path: &str, found: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            toml::Value::Table(table) => flatten(table, &path, found),
            toml::Value::String(text) => found.push((path, text.clone())),
            other => found.push((path, other.to_string())),
        }
    }
}

fn number(file: &toml::Table, key: &str) -> Option<f64> {
    let (section, key) = key.rsplit_once('.')?;
    let table = section.split('.').try_fold(file, |table, name| table.get(name)?.as_table())?;
    let value = table.get(key)?;
    value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64))
}

impl Machine {
    /// What the sources of the machine of this name leave open, each with its other values.
    ///
    /// # Errors
    /// As [`Machine::load`].
    pub fn left_open(name: &str) -> Result<Vec<(Plausible, Vec<Alternative>)>, SimError> {
        let file = MachineFile::load(name)?;
        file.machine()?.alternatives(name, &file)
    }

    /// The same; every value makes a machine, and another one than the file.
    pub(super) fn alternatives(
        &self,
        name: &str,
        file: &MachineFile,
    ) -> Result<Vec<(Plausible, Vec<Alternative>)>, SimError> {
        let wrong = |problem| SimError::Machine { name: name.into(), problem };
        let text = file.text();
        let table: toml::Table =
            toml::from_str(&text).map_err(|error| wrong(super::one_line(&error, &text)))?;
        let mut found = Vec::new();
        for plausible in &self.plausible {
            let wrong = |problem| wrong(format!("plausible {:?}: {problem}", plausible.name));
            let alternatives = plausible.alternatives(&table).map_err(wrong)?;
            for Alternative { description, changes } in &alternatives {
                let other = file
                    .machine_with(changes)
                    .map_err(|error| wrong(format!("{description}: {error}")))?;
                if (Self { plausible: self.plausible.clone(), ..other }) == *self {
                    return Err(wrong(format!("{description} is what the file has")));
                }
            }
            found.push((plausible.clone(), alternatives));
        }
        Ok(found)
    }
}

/// Names of keys whose values go together: those of a TLB, and those of a cache.
const GEOMETRY: [&str; 3] = ["entries", "ways", "size_bytes"];

/// Whether a value of one key says something of another: they are the same, one is in the other, or
/// they only fit together.
fn are_related(one: &str, other: &str) -> bool {
    let is_in = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let section = |key: &'_ str| {
        let (section, last) = key.rsplit_once('.')?;
        GEOMETRY.contains(&last).then(|| section.to_owned())
    };
    let is_geometry = section(one).is_some() && section(one) == section(other);
    is_in(one, other) || is_in(other, one) || is_geometry
}

/// Takes out of a machine file what it says is left open of these keys, which have other values now.
pub fn forget<S: AsRef<str>>(file: &mut Table, keys: &[S]) {
    let plausible = file.get_mut("plausible").and_then(Item::as_array_of_tables_mut);
    let Some(plausible) = plausible else { return };
    for key in keys.iter().map(AsRef::as_ref) {
        plausible.iter_mut().for_each(|entry| take_out(entry, key));
        plausible.retain(|entry| !speaks_of(entry, key));
    }
}

/// Takes a key out of those that an entry multiplies.
fn take_out(entry: &mut Table, key: &str) {
    if let Some(keys) = entry.get_mut("keys").and_then(Item::as_array_mut) {
        keys.retain(|one| one.as_str().is_none_or(|one| !are_related(one, key)));
    }
}

/// Whether an entry has another value for a key, or no key left that it multiplies.
fn speaks_of(entry: &Table, key: &str) -> bool {
    let values = entry.get("values").and_then(Item::as_array).into_iter().flatten();
    let tables = values.filter_map(Value::as_inline_table);
    let multiplies_none = entry.get("keys").and_then(Item::as_array).is_some_and(Array::is_empty);
    multiplies_none
        || tables.flat_map(|table| leaves(table)).any(|leaf| are_related(&leaf.key, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_open(plausible: &str) -> Result<Vec<Alternative>, String> {
        let text = Machine::text(Machine::DEFAULT).unwrap();
        let text = text.split("[[plausible]]").next().unwrap();
        let text = format!("{text}\n[[plausible]]\nname = \"n\"\nreason = \"r\"\n{plausible}");
        let file = MachineFile::from_text("m.toml", &text).map_err(|error| error.to_string())?;
        let machine = file.machine().map_err(|error| error.to_string())?;
        let found = machine.alternatives("m.toml", &file).map_err(|error| error.to_string())?;
        Ok(found.into_iter().flat_map(|(_, alternatives)| alternatives).collect())
    }

    #[test]
    fn each_value_changes_some_keys() {
        let values = "values = [{ cache.l1d.mshrs = 8, walker.walkers = 2 }, \
                      { cache.walker = \"absent\" }]";
        let descriptions: Vec<_> =
            left_open(values).unwrap().into_iter().map(|value| value.description).collect();
        let expected = ["cache.l1d.mshrs = 8, walker.walkers = 2", "cache.walker = absent"];
        assert_eq!(descriptions, expected);
        let scaled = left_open(
            "keys = [\"operating_system.map_ns\", \"walker.l2_tlb_cycles\"]\ntimes = [2.0]",
        );
        let [double] = scaled.unwrap().try_into().unwrap();
        assert_eq!(double.description, "times 2");
        assert_eq!(double.changes[0], ("operating_system.map_ns".into(), "50".into()));
    }

    #[test]
    fn values_that_make_no_other_machine_are_refused() {
        for (values, problem) in [
            ("values = []", "plausible \"n\": expected values, or keys and times"),
            ("times = [2.0]", "expected values, or keys and times"),
            ("keys = [\"walker.attach\"]\ntimes = [2.0]", "walker.attach is no number"),
            ("values = [{ cache.l1d.mshrs = 0 }]", "cache.l1d.mshrs = 0: expected 1 to 1024"),
            ("values = [{ cache.l1d.msrs = 2 }]", "did you mean `mshrs`?"),
            ("values = [{ core.width = 8 }]", "core.width = 8 is what the file has"),
        ] {
            let message = left_open(values).unwrap_err();
            assert!(message.contains(problem), "{message}");
        }
    }

    /// What no source says is a choice of ours, and the file says what else it could be.
    #[test]
    fn whatever_is_our_choice_has_other_plausible_values() {
        for machine in Machine::bundled() {
            let open = Machine::left_open(&machine.name).unwrap();
            let alternatives = open.into_iter().flat_map(|(_, alternatives)| alternatives);
            let changes = alternatives.flat_map(|alternative| alternative.changes);
            let changed: Vec<String> = changes.map(|(key, _)| key).collect();
            let mut section = String::new();
            for line in Machine::text(&machine.name).unwrap().lines() {
                if let Some(name) = line.strip_prefix('[') {
                    section = name.split(']').next().unwrap().trim_matches('[').to_owned();
                }
                let Some((key, rest)) = line.split_once(" = ") else { continue };
                let is_choice = ["our choice", "assumption"].iter().any(|word| rest.contains(word));
                if line.starts_with('#') || section == "plausible" || !is_choice {
                    continue;
                }
                let key = format!("{section}.{}", key.trim());
                let is_covered = changed
                    .iter()
                    .any(|changed| *changed == key || changed.starts_with(&format!("{key}.")));
                assert!(
                    is_covered,
                    "{}: {key} is our choice; what else could it be?",
                    machine.name
                );
            }
        }
    }

    /// Every value of a bundled file says where it is from.
    #[test]
    fn every_value_has_its_source_beside_it() {
        for machine in Machine::bundled() {
            let text = Machine::text(&machine.name).unwrap();
            // Behind the name and the summary, and before what is left open.
            let sections = text.split_once("\n[").unwrap().1;
            let values = sections.split("[[plausible]]").next().unwrap().lines();
            for line in values.filter(|line| !line.starts_with('#') && line.contains(" = ")) {
                assert!(line.contains(" # "), "{}: {line}", machine.name);
            }
        }
    }
}
