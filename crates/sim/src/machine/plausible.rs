//! Parameters for which the sources of a machine file or an experiment give no value.

use serde::{Deserialize, Serialize};
use toml_edit::{Array, Item, Table, Value};

use super::document::leaves;
use super::{Machine, MachineFile};
use crate::SimError;

/// A parameter for which the sources give no value: a `[[plausible]]` section of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plausible {
    /// Short name of the parameter.
    pub name: String,
    /// Reason for choosing these values.
    pub reason: String,
    /// Alternative values. Each sets keys of the machine file (`"absent"` removes a key), or
    /// choices of the experiment.
    #[serde(default)]
    pub values: Vec<toml::Table>,
    /// Keys whose numbers are all multiplied by the same factor; used instead of `values`.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Factors by which the numbers of `keys` are multiplied. Each factor is one alternative.
    #[serde(default)]
    pub times: Vec<f64>,
}

/// Alternative value of a parameter: dotted keys of the machine file and their new values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alternative {
    /// Short description of the alternative, such as `cache.l1d.mshrs = 16`.
    pub description: String,
    /// Dotted keys of the machine file and their new values.
    pub changes: Vec<(String, String)>,
}

impl Plausible {
    /// Returns all alternatives, in the order of the file. `file` has the current values.
    ///
    /// # Errors
    /// There are neither `values` nor `keys` with `times`, or a key in `keys` is not a number of
    /// the file.
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

/// Collects all dotted keys of a table with their values.
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
    /// Returns the parameters for which the sources of a machine give no value, with their
    /// alternatives.
    ///
    /// # Errors
    /// As [`Machine::load`].
    pub fn left_open(name: &str) -> Result<Vec<(Plausible, Vec<Alternative>)>, SimError> {
        let file = MachineFile::load(name)?;
        file.machine()?.alternatives(name, &file)
    }

    /// Returns the parameters for which a loaded machine file's sources give no value, with their
    /// alternatives. Checks that each alternative is a valid machine and differs from the file.
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

/// Keys that depend on each other: the parts of the geometry of a TLB or a cache.
const GEOMETRY: [&str; 3] = ["entries", "ways", "size_bytes"];

/// True if setting one key affects the other: they are equal, a table and a key in it, or keys of
/// the same geometry.
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

/// Removes the alternatives of these keys from the `[[plausible]]` sections of a machine file,
/// because their values have been replaced.
pub fn forget<S: AsRef<str>>(file: &mut Table, keys: &[S]) {
    let plausible = file.get_mut("plausible").and_then(Item::as_array_of_tables_mut);
    let Some(plausible) = plausible else { return };
    for key in keys.iter().map(AsRef::as_ref) {
        plausible.iter_mut().for_each(|entry| remove_key(entry, key));
        plausible.retain(|entry| !affects(entry, key));
    }
}

/// Removes a key, and related keys, from the list `keys` of a `[[plausible]]` section.
fn remove_key(entry: &mut Table, key: &str) {
    if let Some(keys) = entry.get_mut("keys").and_then(Item::as_array_mut) {
        keys.retain(|one| one.as_str().is_none_or(|one| !are_related(one, key)));
    }
}

/// True if a `[[plausible]]` section is obsolete once `key` is set: one of its alternatives sets a
/// related key, or its list `keys` has become empty.
fn affects(entry: &Table, key: &str) -> bool {
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

    /// The file must list other plausible values for every value that no source publishes.
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

    /// Each value of a bundled file names its source.
    #[test]
    fn every_value_has_its_source_beside_it() {
        for machine in Machine::bundled() {
            let text = Machine::text(&machine.name).unwrap();
            // After name and summary, before the alternatives.
            let sections = text.split_once("\n[").unwrap().1;
            let values = sections.split("[[plausible]]").next().unwrap().lines();
            for line in values.filter(|line| !line.starts_with('#') && line.contains(" = ")) {
                assert!(line.contains(" # "), "{}: {line}", machine.name);
            }
        }
    }

    #[test]
    fn keys_are_related_by_tables_and_geometry() {
        for (one, other, expected) in [
            ("tlb.l2", "tlb.l2", true),
            ("tlb.l2.entries", "tlb.l2", true),
            ("tlb.l2", "tlb.l2.entries", true),
            ("tlb.l2.entries", "tlb.l2.ways", true),
            ("cache.l2.size_bytes", "cache.l2.ways", true),
            ("cache.l2.size_bytes", "cache.l1d.ways", false),
            ("cache.l2.mshrs", "cache.l2.ways", false),
            ("cache.l2.mshrs", "cache.l2.latency_cycles", false),
            ("tlb.l2", "tlb.l2_2m", false),
            ("tlb.l2_2m.entries", "tlb.l2.entries", false),
            ("core.width", "dram.channels", false),
        ] {
            assert_eq!(are_related(one, other), expected, "{one} and {other}");
            assert_eq!(are_related(other, one), expected, "{other} and {one}");
        }
    }

    /// A section goes with the last of its keys, and with any key of its values.
    #[test]
    fn sections_of_replaced_values_are_forgotten() {
        let text = "[[plausible]]\nname = \"values\"\nvalues = [{ core.width = 1 }, { a.b = 2 }]\n\
                    [[plausible]]\nname = \"keys\"\nkeys = [\"x.y\", \"x.z\"]\ntimes = [2.0]\n";
        for (keys, left, kept) in [
            (&["q.r"][..], &["values", "keys"][..], Some(2)),
            (&["core.width"], &["keys"], Some(2)),
            (&["a.b"], &["keys"], Some(2)),
            (&["core"], &["keys"], Some(2)),
            (&["x.y"], &["values", "keys"], Some(1)),
            (&["x.y", "x.z"], &["values"], None),
            (&["x"], &["values"], None),
        ] {
            let mut document: toml_edit::DocumentMut = text.parse().unwrap();
            forget(document.as_table_mut(), keys);
            let sections = document["plausible"].as_array_of_tables().unwrap();
            let names: Vec<_> = sections.iter().map(|it| it["name"].as_str().unwrap()).collect();
            assert_eq!(names, left, "{keys:?}");
            let listed = sections.iter().find_map(|it| it.get("keys")?.as_array());
            assert_eq!(listed.map(Array::len), kept, "{keys:?}");
        }
    }

    /// Factors scale all keys of a section; either values or keys with factors are expected.
    #[test]
    fn factors_scale_every_key() {
        let file: toml::Table =
            toml::from_str("top = 1\n[a]\nb = 3\nc.d = 1.5\ne = \"f\"\n").unwrap();
        let alternatives = |values: &[&str], keys: &[&str], times: &[f64]| {
            let plausible = Plausible {
                name: "n".into(),
                reason: "r".into(),
                values: values.iter().map(|text| toml::from_str(text).unwrap()).collect(),
                keys: keys.iter().map(|key| (*key).to_owned()).collect(),
                times: times.to_vec(),
            };
            let found = plausible.alternatives(&file)?;
            let words = |it: &Alternative| {
                let changes: Vec<_> =
                    it.changes.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("{}: {}", it.description, changes.join(" "))
            };
            Ok::<_, String>(found.iter().map(words).collect::<Vec<_>>())
        };
        assert_eq!(
            alternatives(&["a.b = 4", "a.e = \"g\""], &["a.b", "a.c.d"], &[0.5, 2.0]).unwrap(),
            [
                "a.b = 4: a.b=4",
                "a.e = g: a.e=g",
                "times 0.5: a.b=1.5 a.c.d=0.75",
                "times 2: a.b=6 a.c.d=3"
            ]
        );
        for (values, keys, times, problem) in [
            (&[][..], &[][..], &[][..], "expected values, or keys and times"),
            (&["a.b = 4"], &["a.b"], &[], "expected values, or keys and times"),
            (&["a.b = 4"], &[], &[2.0], "expected values, or keys and times"),
            (&[], &["a.b", "a.e"], &[2.0], "a.e is no number"),
            (&[], &["a.x"], &[2.0], "a.x is no number"),
            (&[], &["top"], &[2.0], "top is no number"),
        ] {
            assert_eq!(alternatives(values, keys, times).unwrap_err(), problem);
        }
    }
}
