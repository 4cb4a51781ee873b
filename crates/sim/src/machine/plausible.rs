//! What the sources of a machine file leave open.

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::SimError;

/// Something that the sources leave open, with the other values that it could have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plausible {
    /// What it is, in a few words.
    pub name: String,
    /// Why these values.
    pub reason: String,
    /// Each other value: the keys of the machine file that it changes. `"absent"` takes a key away.
    pub values: Vec<toml::Table>,
}

impl Plausible {
    /// The keys that a value changes, with points in them, and what they become.
    pub fn changes(value: &toml::Table) -> Vec<(String, String)> {
        fn follow(table: &toml::Table, path: &str, found: &mut Vec<(String, String)>) {
            for (key, value) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match value {
                    toml::Value::Table(table) => follow(table, &path, found),
                    toml::Value::String(text) => found.push((path, text.clone())),
                    other => found.push((path, other.to_string())),
                }
            }
        }
        let mut found = Vec::new();
        follow(value, "", &mut found);
        found
    }

    /// A value in a few words: `cache.l1d.mshrs = 16`.
    pub fn describe(value: &toml::Table) -> String {
        let changes = Self::changes(value).into_iter();
        changes.map(|(key, text)| format!("{key} = {text}")).collect::<Vec<_>>().join(", ")
    }
}

impl Machine {
    /// Checks that every value that is called plausible makes a machine, and another one.
    pub(super) fn check_plausible(&self, name: &str, text: &str) -> Result<(), SimError> {
        let wrong = |problem| SimError::Machine { name: name.into(), problem };
        let table: toml::Table =
            toml::from_str(text).map_err(|error| wrong(super::one_line(&error, text)))?;
        for plausible in &self.plausible {
            if plausible.values.is_empty() {
                return Err(wrong(format!("plausible {:?} has no values", plausible.name)));
            }
            for value in &plausible.values {
                let mut changed = table.clone();
                changed.remove("plausible");
                for (key, text) in Plausible::changes(value) {
                    super::set(&mut changed, &key, super::toml_value(&text)).map_err(wrong)?;
                }
                let described = Plausible::describe(value);
                let other = Self::parse(name, &changed.to_string()).map_err(|error| {
                    wrong(format!("plausible {:?}, {described}: {error}", plausible.name))
                })?;
                if (Self { plausible: self.plausible.clone(), ..other }) == *self {
                    let problem = format!("{described} is the value of the file");
                    return Err(wrong(format!("plausible {:?}: {problem}", plausible.name)));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(plausible: &str) -> Result<Machine, String> {
        let text = Machine::text(Machine::DEFAULT).unwrap();
        let text = text.split("[[plausible]]").next().unwrap();
        let text = format!("{text}\n[[plausible]]\nname = \"n\"\nreason = \"r\"\n{plausible}");
        Machine::parse("m.toml", &text).map_err(|error| error.to_string())
    }

    #[test]
    fn each_value_changes_some_keys() {
        let machine = machine(
            "values = [{ cache.l1d.mshrs = 8, walker.walkers = 2 }, { cache.walker = \"absent\" }]",
        );
        let [plausible] = machine.unwrap().plausible.try_into().unwrap();
        let changes = plausible.values.iter().map(Plausible::describe).collect::<Vec<_>>();
        assert_eq!(changes, ["cache.l1d.mshrs = 8, walker.walkers = 2", "cache.walker = absent"]);
    }

    #[test]
    fn values_that_make_no_other_machine_are_refused() {
        for (values, problem) in [
            ("values = []", "plausible \"n\" has no values"),
            ("values = [{ cache.l1d.mshrs = 0 }]", "cache.l1d.mshrs = 0: expected 1 to 1024"),
            ("values = [{ cache.l1d.msrs = 2 }]", "did you mean `mshrs`?"),
            ("values = [{ core.width = 8 }]", "core.width = 8 is the value of the file"),
        ] {
            let message = machine(values).unwrap_err();
            assert!(message.contains(problem), "{message}");
        }
    }

    /// What no source says is a choice of ours, and the file says what else it could be.
    #[test]
    fn whatever_is_our_choice_has_other_plausible_values() {
        for machine in Machine::bundled() {
            let changed: Vec<String> = machine
                .plausible
                .iter()
                .flat_map(|plausible| plausible.values.iter().flat_map(Plausible::changes))
                .map(|(key, _)| key)
                .collect();
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
                let is_covered = changed.iter().any(|changed| {
                    *changed == key || changed.starts_with(&format!("{key}."))
                });
                assert!(is_covered, "{}: {key} is our choice; what else could it be?", machine.name);
            }
        }
    }

    /// Every value of a bundled file says where it is from.
    #[test]
    fn every_value_has_its_source_beside_it() {
        for machine in Machine::bundled() {
            let text = Machine::text(&machine.name).unwrap();
            let mut section = "";
            for line in text.lines() {
                if let Some(name) = line.strip_prefix('[') {
                    section = name.trim_matches(['[', ']']);
                }
                let is_value = line.split_once(" = ").is_some_and(|(key, _)| {
                    !key.is_empty() && !key.contains(['#', ' ']) || key.trim_end().ends_with('_')
                });
                let needs_source = !["", "plausible", "processors"].contains(&section);
                let is_end = section.split(']').next() == Some("plausible");
                if is_value && needs_source && !is_end {
                    assert!(line.contains('#'), "{}: [{section}] {line}", machine.name);
                }
            }
        }
    }
}
