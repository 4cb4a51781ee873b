//! Settings of an experiment file: dotted keys, quoted or not.

use serde::{Deserialize, Deserializer, de::Error};

use super::{Text, Texts};

/// Prefix of keys that override the machine file, which may occur together with the key `machine`.
const MACHINE: &str = "machine.";

/// Quotes keys such as `machine.walker.walkers` in the text of an experiment file. In TOML, such a key would
/// make `machine` a table, but `machine` is also a key with a name as its value. Line numbers do not change.
pub(super) fn quoted(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| match machine_key(line) {
        Some((before, key, rest)) => format!("{before}\"{key}\" {rest}"),
        None => line.to_owned(),
    });
    lines.collect()
}

/// Splits a line that begins with a `machine.` key into indentation, key and rest; `None` for other lines.
fn machine_key(line: &str) -> Option<(&str, &str, &str)> {
    let start = line.len() - line.trim_start().len();
    let end = start + line[start..].find('=')?;
    let key = line[start..end].trim_end();
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_key = key.starts_with(MACHINE) && key.chars().all(is_bare);
    is_key.then(|| (&line[..start], key, &line[end..]))
}

/// Deserializes a table to texts by key. Keys of nested tables become dotted keys.
pub(super) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
    let mut found = Texts::new();
    let table = toml::Table::deserialize(deserializer)?;
    add(&table, "", &mut found).map_err(D::Error::custom)?;
    Ok(found)
}

fn add(table: &toml::Table, before: &str, found: &mut Texts) -> Result<(), String> {
    for (name, value) in table {
        let key = format!("{before}{name}");
        if let toml::Value::Table(inner) = value {
            add(inner, &format!("{key}."), found)?;
            continue;
        }
        let text = Text::try_from(value.clone()).map_err(|problem| format!("{key}: {problem}"))?;
        if found.insert(key.clone(), text).is_some() {
            return Err(format!("{key} is given twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Experiment;
    use crate::kind::Settings;

    fn settings(text: &str) -> Result<Settings, String> {
        let rest = "[[curve]]\nname = \"c\"\nvalue = \"walks(4k)\"\n";
        let head = "name = \"mine/x\"\ntitle = \"t\"\nsource = \"our own\"\n[settings]\n\
                    workload = \"random:size=16M\"\ninstructions = \"9k\"\n";
        let text = format!("{head}{text}\n{rest}");
        let experiment = Experiment::parse("x.toml", &text).map_err(|error| error.to_string())?;
        let place = experiment.axis.points().remove(0);
        experiment.settings(None, &experiment.values(&place))
    }

    #[test]
    fn keys_of_the_machine_need_no_quotes() {
        let text = "machine = \"gtsm-table4\"\nmachine.walker.walkers = 3\n\
                    \"machine.tlb.tagged\" = false\nmachine.tlb.l2 = { entries = 16, ways = 4 }\n\
                    machine.walker.attach=\"l1d\" # with a comment\n";
        let machine = settings(text).unwrap().machine("gtsm-table4").unwrap();
        assert_eq!((machine.walker.walkers, machine.tlb.tagged), (3, false));
        assert_eq!((machine.tlb.l2.entries, machine.tlb.l2.ways), (16, 4));
    }

    #[test]
    fn mistakes_name_the_key() {
        for (text, problem) in [
            ("machine.walker.walkers = [2]", "machine.walker.walkers: expected a text or a number"),
            ("machine.walker.slits = 2", "there is no key \"walker.slits\""),
            ("machine.tlb.l2.entries = \"many\"", "tlb.l2.entries: expected a whole number"),
            ("\"machine.a.b\" = 2\nmachine.a.b = 2", "duplicate key"),
            ("\"machine.a.b\" = 2\n\"machine.a\" = { b = 2 }", "machine.a.b is given twice"),
        ] {
            let error = settings(text)
                .and_then(|settings| settings.machine("gtsm-table4").map(|_| settings))
                .unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
