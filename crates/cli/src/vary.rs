//! `--vary KEY=A,B,C`: one comparison for each value of an option or machine key. With two keys, one for
//! each pair of values.

use std::str::FromStr;

use crate::actions::{Failure, RunRequest, WithError};
use perforate_config::{Count, Share, Size, read};
use perforate_sim::{MachineFile, RunResult, RunSpec};
use serde_json::{Value, json};

/// Maximum number of runs of a command: values × schemes × seeds. Larger sweeps should be experiments, which
/// can be continued.
const MOST_RUNS: u64 = 1_024;

/// Maximum number of keys that may be varied together.
const MOST_KEYS: usize = 2;

/// Option or machine key that is varied, and its values.
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
        // Values that contain commas are separated by semicolons.
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
    /// True if `key` is the option or machine key that is varied.
    pub fn is_for(&self, key: &str) -> bool {
        self.key == key
    }

    /// True if a note says only that a varied key overrides the machine file.
    pub fn is_stated_by(&self, note: &str) -> bool {
        note.starts_with(&MachineFile::set_to(&self.key))
    }
}

/// One of the comparisons that `--vary` demands.
pub struct Variant {
    /// Options of the comparison, with its values of the varied keys.
    pub request: RunRequest,
    /// Varied keys with their values in this comparison; empty without `--vary`.
    varied: Vec<Setting>,
}

/// Value that a varied key has in one comparison.
#[derive(Clone)]
struct Setting {
    key: String,
    value: String,
    /// The value as a number, and its unit on an axis; `None` if it is no number.
    number: Option<(f64, &'static str)>,
}

/// Makes the comparisons to run; one without `--vary`. Each has `runs_each` runs.
///
/// # Errors
/// An unknown option or key, too many keys, or too many runs.
pub fn variants(
    keys: &[Vary],
    request: RunRequest,
    runs_each: u64,
) -> Result<Vec<Variant>, Failure> {
    check_keys(keys)?;
    let mut all = vec![Variant { request, varied: Vec::new() }];
    let runs = keys.iter().map(|key| key.values.len() as u64).product::<u64>() * runs_each;
    if !keys.is_empty() && runs > MOST_RUNS {
        return Err(Failure::Usage(format!(
            "--vary: {runs} runs (values × schemes × seeds); expected {MOST_RUNS} at most: name fewer of \
             them, or write an experiment, which can be continued (docs/experiments.md)"
        )));
    }
    for Vary { key, values } in keys {
        let settings: Vec<Setting> = values
            .iter()
            .zip(numbers(values, is_count(key)))
            .map(|(value, number)| Setting { key: key.clone(), value: value.clone(), number })
            .collect();
        let with = |(variant, own): (&Variant, &Setting)| {
            let request = variant.request.with(key, &own.value).map_err(failure)?;
            let varied = variant.varied.iter().chain([own]).cloned().collect();
            Ok(Variant { request, varied })
        };
        let pairs = all.iter().flat_map(|variant| settings.iter().map(move |own| (variant, own)));
        all = pairs.map(with).collect::<Result<_, Failure>>()?;
    }
    Ok(all)
}

fn check_keys(keys: &[Vary]) -> Result<(), Failure> {
    let problem = match keys {
        [one, other] if one.key == other.key => {
            format!("{} is given twice; name all its values after one --vary", one.key)
        }
        _ if keys.len() > MOST_KEYS => {
            format!("{} keys; expected {MOST_KEYS} at most, more are an experiment's", keys.len())
        }
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!("--vary: {problem}")))
}

fn failure(error: WithError) -> Failure {
    match error {
        WithError::Value(failure) => failure,
        WithError::Key(error) => Failure::Usage(format!(
            "--vary: {}; keys of the machine are such as tlb.l2.entries",
            error.problem()
        )),
    }
}

impl Variant {
    /// Keys and values of the comparison for a progress bar; `None` without `--vary`.
    pub fn name(&self) -> Option<String> {
        let text = |Setting { key, value, .. }: &Setting| format!("{key}={value}");
        let texts: Vec<_> = self.varied.iter().map(text).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// Adds the varied keys and their values to results.
    pub fn mark(&self, results: &mut [RunResult]) {
        let setting = |Setting { key, value, number }: &Setting| {
            let (number, unit) = number.unzip();
            json!({
                "key": key, "value": value, "number": number, "unit": unit.unwrap_or_default(),
            })
        };
        let Some(first) = self.varied.first() else { return };
        let mut varied = setting(first);
        if let Some(second) = self.varied.get(1) {
            varied["second"] = setting(second);
        }
        for result in results {
            result.config["varied"] = varied.clone();
        }
    }
}

/// True for an option whose values are counts (`500k` instructions), not sizes (`4G`).
fn is_count(key: &str) -> bool {
    let name = key.replace('_', "-");
    let option = RunSpec::keys().into_iter().find(|option| option.name == name);
    let is_number = |part: &str| part == "N" || part.parse::<u64>().is_ok();
    option.is_some_and(|option| option.form.split(['|', '-']).any(is_number))
}

/// The values of a key as numbers, each with its unit on an axis. Where one value is a size such as 32K, plain numbers are
/// sizes in bytes.
fn numbers(values: &[String], are_counts: bool) -> Vec<Option<(f64, &'static str)>> {
    let mut numbers: Vec<_> = values.iter().map(|value| number(value, are_counts)).collect();
    if numbers.iter().any(|number| matches!(number, Some((_, "M")))) {
        for (bytes, unit) in numbers.iter_mut().flatten().filter(|(_, unit)| unit.is_empty()) {
            (*bytes, *unit) = (*bytes / f64::from(1 << 20), "M");
        }
    }
    numbers
}

/// Parses a value as a number; also returns its unit on an axis. `None` if the value is not a number.
fn number(value: &str, is_count: bool) -> Option<(f64, &'static str)> {
    if let Some(percent) = value.strip_suffix('%') {
        read::<Share>(value).ok()?;
        return Some((percent.parse().ok()?, " %"));
    }
    if let Ok(number) = value.parse::<f64>() {
        return number.is_finite().then_some((number, ""));
    }
    if is_count {
        return read::<Count>(value).ok().map(|count| (count.get() as f64, ""));
    }
    read::<Size>(value).ok().map(|size| (size.bytes() as f64 / f64::from(1 << 20), "M"))
}

/// Adds notes about varied values that change no figure. In a grid, results are compared for each value of
/// the other key.
pub fn note_without_effect(keys: &[Vary], results: &mut [RunResult]) {
    let notes: Vec<String> =
        (0..keys.len()).filter_map(|place| without_effect(keys, place, results)).collect();
    results.iter_mut().for_each(|result| result.notes.extend_from_slice(&notes));
}

fn without_effect(keys: &[Vary], place: usize, results: &[RunResult]) -> Option<String> {
    let Vary { key, values } = &keys[place];
    let of = |value: &str| {
        let is_own = |result: &&RunResult| value_of(result, place) == Some(value);
        results.iter().filter(is_own).map(figures).collect::<Vec<_>>()
    };
    let first = of(&values[0]);
    let same: Vec<&str> =
        values[1..].iter().map(String::as_str).filter(|value| of(value) == first).collect();
    match same.len() {
        0 => None,
        all if all + 1 == values.len() => {
            Some(format!("no effect: {key} changes no figure of any scheme here"))
        }
        _ => Some(format!("no effect: {key} {} has the figures of {}", same.join(", "), values[0])),
    }
}

/// Value of the first (`place` 0) or second varied key in a result; `None` if none is varied.
fn value_of(result: &RunResult, place: usize) -> Option<&str> {
    let varied = result.config.get("varied")?;
    let varied = if place == 0 { varied } else { varied.get("second")? };
    varied.get("value")?.as_str()
}

/// Copies a result without configuration, notes and machine, which leaves the figures.
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
        let size = |value| number(value, false);
        assert_eq!(size("3072"), Some((3072.0, "")));
        assert_eq!(size("2.5"), Some((2.5, "")));
        assert_eq!(size("25%"), Some((25.0, " %")));
        assert_eq!(size("1G"), Some((1024.0, "M")));
        assert_eq!(size("never"), None);
        assert_eq!(size("nan"), None);
        let count = |value| number(value, true);
        assert_eq!(count("500k"), Some((500_000.0, "")));
        assert_eq!(count("2e6"), Some((2e6, "")));
        assert_eq!(count("never"), None);
        let of = |values: &[&str]| {
            numbers(&values.iter().map(|&it| it.into()).collect::<Vec<_>>(), false)
        };
        assert_eq!(of(&["2048", "8K"]), [Some((1.0 / 512.0, "M")), Some((1.0 / 128.0, "M"))]);
        assert_eq!(of(&["2048", "none"]), [Some((2048.0, "")), None]);
    }

    #[test]
    fn options_of_counts_and_of_sizes() {
        for key in ["instructions", "skip", "seed", "warmup"] {
            assert!(is_count(key), "{key}");
        }
        for key in ["memory", "host_memory", "defrag", "tlb.l2.entries", "none"] {
            assert!(!is_count(key), "{key}");
        }
    }
}
