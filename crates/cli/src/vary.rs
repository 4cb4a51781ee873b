//! `--vary KEY=A,B,C`: one comparison for each value of an option or of a key of the machine.

use std::str::FromStr;

use perforate_commands::{Choice, Failure};
use perforate_config::{ConfigError, Count, Share, Size, read};
use perforate_sim::{MachineFile, RunResult};
use serde_json::{Value, json};

/// Most values times schemes: more is an experiment's.
const MOST: usize = 32;

/// A key and the values that it takes in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    key: String,
    values: Vec<String>,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((key, values)) = text.split_once('=') else {
            return Err(format!("{text:?} has no values; expected KEY=A,B,…"));
        };
        // Values with commas of their own have semicolons between them.
        let separator = if values.contains(';') { ';' } else { ',' };
        let values: Vec<String> =
            values.split(separator).map(|value| value.trim().to_owned()).collect();
        if let Some(twice) =
            (1..values.len()).find(|&index| values[..index].contains(&values[index]))
        {
            return Err(format!("{key}: {:?} is given twice", values[twice]));
        }
        if values.len() < 2 || values.iter().any(String::is_empty) {
            return Err(format!(
                "{key}: expected several values, such as {key}=A,B,C or {key}=A;B"
            ));
        }
        Ok(Self { key: key.trim().to_owned(), values })
    }
}

impl Vary {
    /// Whether it is this option or key that changes.
    pub fn is_of(&self, key: &str) -> bool {
        self.key == key
    }

    /// Whether a note only says that the key has another value than in the machine file.
    pub fn is_told_by(&self, note: &str) -> bool {
        note.starts_with(&MachineFile::set_to(&self.key))
    }
}

/// A comparison of several: its options, and the value that makes it.
pub struct Variant {
    /// All options.
    pub choice: Choice,
    /// Key and value; none where nothing is varied.
    varied: Option<(String, String)>,
}

/// The comparisons that are asked for, one if nothing is varied.
///
/// # Errors
/// There is no such option or key, or there are too many values for so many schemes.
pub fn variants(
    vary: Option<&Vary>,
    choice: &Choice,
    schemes: usize,
) -> Result<Vec<Variant>, Failure> {
    let Some(Vary { key, values }) = vary else {
        return Ok(vec![Variant { choice: choice.clone(), varied: None }]);
    };
    if values.len() * schemes > MOST {
        return Err(Failure::Usage(format!(
            "--vary {key}: {} values of {schemes} schemes are more than {MOST} runs; name fewer of \
             either, or write an experiment (docs/experiments.md)",
            values.len()
        )));
    }
    let variant = |value: &String| {
        let choice = choice.with(key, value).map_err(|error| unknown(&error))?;
        Ok(Variant { choice, varied: Some((key.clone(), value.clone())) })
    };
    values.iter().map(variant).collect()
}

/// There is neither an option nor a key of the machine of this name.
fn unknown(error: &ConfigError) -> Failure {
    let problem = error.problem();
    Failure::Usage(format!("--vary: {problem}; keys of the machine are such as tlb.l2.entries"))
}

impl Variant {
    /// What it is, for a progress bar.
    pub fn name(&self) -> Option<String> {
        self.varied.as_ref().map(|(key, value)| format!("{key}={value}"))
    }

    /// Says in results which value they are of.
    pub fn mark(&self, results: &mut [RunResult]) {
        let Some((key, value)) = &self.varied else { return };
        let (number, unit) = number(value).unzip();
        for result in results {
            result.config["varied"] = json!({
                "key": key, "value": value, "number": number, "unit": unit.unwrap_or_default(),
            });
        }
    }
}

/// A value as a number, with what stands behind it on an axis.
fn number(value: &str) -> Option<(f64, &'static str)> {
    if let Some(percent) = value.strip_suffix('%') {
        read::<Share>(value).ok()?;
        return Some((percent.parse().ok()?, " %"));
    }
    if let Ok(number) = value.parse::<f64>() {
        return number.is_finite().then_some((number, ""));
    }
    // A size has a unit of powers of two, a count one of powers of ten: what is a size of bytes is
    // drawn in MB, and which of the two it is makes no difference to the picture.
    if let Ok(size) = read::<Size>(value) {
        return Some((size.bytes() as f64 / f64::from(1 << 20), "M"));
    }
    read::<Count>(value).ok().map(|count| (count.get() as f64, ""))
}

/// Says of values that change nothing that they do.
pub fn note_without_effect(vary: &Vary, results: &mut [RunResult]) {
    let of = |value: &str, results: &[RunResult]| {
        let is_own = |result: &&RunResult| result.config["varied"]["value"] == value;
        results.iter().filter(is_own).map(figures).collect::<Vec<_>>()
    };
    let Vary { key, values } = vary;
    let first = of(&values[0], results);
    let same: Vec<&String> =
        values[1..].iter().filter(|value| of(value, results) == first).collect();
    if same.is_empty() {
        return;
    }
    let note = if same.len() + 1 == values.len() {
        format!("no effect: {key} changes no figure of any scheme here")
    } else {
        let same: Vec<&str> = same.iter().map(|value| value.as_str()).collect();
        format!("no effect: {key} {} has the figures of {}", same.join(", "), values[0])
    };
    results.iter_mut().for_each(|result| result.notes.push(note.clone()));
}

/// All that was found, without what it was made from.
fn figures(result: &RunResult) -> Value {
    let machine = String::new();
    let all = RunResult { config: Value::Null, notes: Vec::new(), machine, ..result.clone() };
    serde_json::to_value(all).expect("results are plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_separated_by_commas_or_semicolons() {
        let values = |text: &str| text.parse::<Vary>().map(|vary| vary.values);
        assert_eq!(values("defrag=never,always"), Ok(vec!["never".into(), "always".into()]));
        let lists = values("fragmentation=portion=50%,holes=25%,clustered; none");
        assert_eq!(lists, Ok(vec!["portion=50%,holes=25%,clustered".into(), "none".into()]));
        for (text, problem) in [
            ("defrag", "has no values"),
            ("defrag=", "expected several values"),
            ("defrag=never", "expected several values"),
            ("defrag=never,,always", "expected several values"),
            ("defrag=never,never", "\"never\" is given twice"),
        ] {
            let message = values(text).unwrap_err();
            assert!(message.contains(problem), "{message}");
        }
    }

    #[test]
    fn values_can_be_numbers() {
        assert_eq!(number("3072"), Some((3072.0, "")));
        assert_eq!(number("2.5"), Some((2.5, "")));
        assert_eq!(number("25%"), Some((25.0, " %")));
        assert_eq!(number("1G"), Some((1024.0, "M")));
        assert_eq!(number("never"), None);
        assert_eq!(number("nan"), None);
    }
}
