//! Workloads as text: `random`, `random:size=4G,others=4,dependent`.

use std::fmt;

use super::registry::{Parameter, ParameterKind, WORKLOADS, Workload};
use crate::{Limited, Source, TraceError};

/// A workload with a value for every parameter. Prints as text that parses to the same again.
#[derive(Clone)]
pub struct WorkloadSpec {
    workload: &'static Workload,
    /// One value for each parameter, in the workload's order.
    values: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq)]
struct Value {
    number: f64,
    bytes_or_count: u64,
    text: String,
}

impl WorkloadSpec {
    /// Whether `text` names a workload (rightly or wrongly parametrised) rather than a file.
    pub fn is_workload(text: &str) -> bool {
        find(text.split(':').next().unwrap_or_default()).is_some()
    }

    /// Parses `NAME[:KEY[=VALUE],…]`.
    ///
    /// # Errors
    /// For an unknown name or key (the known ones are listed), a value out of range, a key given
    /// twice.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        Self::parse_parts(text).map_err(|problem| TraceError::workload(text, problem))
    }

    fn parse_parts(text: &str) -> Result<Self, String> {
        let (name, list) = text.split_once(':').unwrap_or((text, ""));
        let workload = find(name).ok_or_else(|| {
            format!("no such workload; expected {}", join(WORKLOADS.iter().map(|known| known.name)))
        })?;
        let mut given: Vec<Option<Value>> = vec![None; workload.parameters.len()];
        for item in list.split(',').filter(|_| !list.is_empty()) {
            let (key, value) = match item.split_once('=') {
                Some((key, value)) => (key, Some(value)),
                None => (item, None),
            };
            let place =
                workload.parameters.iter().position(|parameter| parameter.name == key).ok_or_else(
                    || {
                        let known = join(workload.parameters.iter().map(|known| known.name));
                        format!("unknown parameter '{key}'; expected {known}")
                    },
                )?;
            let value = parse_value(&workload.parameters[place], value)?;
            if given[place].replace(value).is_some() {
                return Err(format!("parameter '{key}' is given twice; expected once"));
            }
        }
        let values = given.into_iter().zip(workload.parameters).map(|(value, parameter)| {
            value.unwrap_or_else(|| {
                let default = match parameter.kind {
                    ParameterKind::Flag => Ok(Value::absent()),
                    _ => parse_value(parameter, Some(parameter.default)),
                };
                default.expect("defaults are possible values")
            })
        });
        Ok(Self { workload, values: values.collect() })
    }

    /// The workload.
    pub fn workload(&self) -> &'static Workload {
        self.workload
    }

    /// The workload's instructions: endless, or the first `instructions`. Every choice it makes
    /// follows from `seed`.
    pub fn source(&self, seed: u64, instructions: Option<u64>) -> Box<dyn Source> {
        let source = (self.workload.build)(self, seed);
        match instructions {
            Some(limit) => Box::new(Limited::new(source, limit)),
            None => source,
        }
    }

    /// Bytes that the source keeps in host memory, about: the contents of its data.
    pub fn host_bytes(&self) -> u64 {
        (self.workload.host_bytes)(self)
    }

    fn value(&self, name: &str) -> &Value {
        let mut pairs = self.workload.parameters.iter().zip(&self.values);
        pairs.find(|(parameter, _)| parameter.name == name).expect("the workload has it").1
    }

    pub(crate) fn size(&self, name: &str) -> u64 {
        self.value(name).bytes_or_count
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        self.value(name).number
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.value(name).bytes_or_count != 0
    }
}

impl Value {
    fn absent() -> Self {
        Self { number: 0.0, bytes_or_count: 0, text: String::new() }
    }
}

impl fmt::Display for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.workload.name)?;
        let mut separator = ':';
        for (parameter, value) in self.workload.parameters.iter().zip(&self.values) {
            match parameter.kind {
                ParameterKind::Flag if value.bytes_or_count == 0 => continue,
                ParameterKind::Flag => write!(f, "{separator}{}", parameter.name)?,
                _ => write!(f, "{separator}{}={}", parameter.name, value.text)?,
            }
            separator = ',';
        }
        Ok(())
    }
}

impl fmt::Debug for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn parse_value(parameter: &Parameter, text: Option<&str>) -> Result<Value, String> {
    let name = parameter.name;
    let wrong = |expected: String| {
        let found = text.unwrap_or_default();
        if found.is_empty() {
            format!("parameter '{name}' has no value; expected {expected}")
        } else {
            format!("{name}={found}; expected {expected}")
        }
    };
    let expected = describe(parameter.kind);
    let text_or_empty = text.unwrap_or_default();
    let parsed = match parameter.kind {
        ParameterKind::Flag => match text {
            None => Some((1.0, 1)),
            Some(_) => None,
        },
        ParameterKind::Size(least, most) => parse_size(text_or_empty)
            .filter(|size| (least..=most).contains(size))
            .map(|size| (size as f64, size)),
        ParameterKind::Count(most) => parse_count(text_or_empty, 0, most),
        ParameterKind::Between(least, most) => parse_count(text_or_empty, least, most),
        ParameterKind::Share => parse_share(text_or_empty).map(|share| (share, 0)),
        ParameterKind::Choice(words) => {
            let place = words.iter().position(|word| *word == text_or_empty);
            place.map(|place| (place as f64, place as u64))
        }
        ParameterKind::Exponent => text_or_empty
            .parse::<f64>()
            .ok()
            .filter(|number| (0.0..=10.0).contains(number))
            .map(|number| (number, 0)),
    };
    let (number, bytes_or_count) = parsed.ok_or_else(|| wrong(expected))?;
    Ok(Value { number, bytes_or_count, text: text_or_empty.to_owned() })
}

fn describe(kind: ParameterKind) -> String {
    match kind {
        ParameterKind::Size(least, most) => {
            format!("{least} to {most} bytes, with an optional K, M, G or T")
        }
        ParameterKind::Count(most) => format!("a whole number from 0 to {most}"),
        ParameterKind::Between(least, most) => format!("a whole number from {least} to {most}"),
        ParameterKind::Choice(words) => format!("one of {}", words.join(", ")),
        ParameterKind::Share => "a share from 0 to 1 or from 0% to 100%".to_owned(),
        ParameterKind::Exponent => "a number from 0 to 10".to_owned(),
        ParameterKind::Flag => "the name alone, without a value".to_owned(),
    }
}

/// `4096`, `64K`, `2G`; `None` for anything else or more than 64 bits.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// `5000`, `500k`, `2M`, within limits.
fn parse_count(text: &str, least: u64, most: u64) -> Option<(f64, u64)> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    let count = digits.parse::<u64>().ok()?.checked_mul(factor)?;
    (least..=most).contains(&count).then_some((count as f64, count))
}

fn parse_share(text: &str) -> Option<f64> {
    let (digits, unit) = match text.strip_suffix('%') {
        Some(digits) => (digits, 100.0),
        None => (text, 1.0),
    };
    let share = digits.parse::<f64>().ok()? / unit;
    (0.0..=1.0).contains(&share).then_some(share)
}
