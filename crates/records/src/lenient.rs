//! Deserializers that accept unexpected values from other programs, or from other versions of this
//! program.

use std::collections::BTreeMap;

use perforate_types::{CounterValue, Counters};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads a value; null is read as the type's default.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a value that this version of the program knows; any other value is read as the type's default.
pub(crate) fn known_or_default<'de, D: Deserializer<'de>, T: Default + DeserializeOwned>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Reads text that is not blank; anything else is read as `None`.
pub(crate) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        _ => Ok(None),
    }
}

/// Reads an integer. Fractions are truncated; null and negative numbers are read as 0.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(some_whole(deserializer)?.unwrap_or_default())
}

/// Reads an integer. Fractions are truncated; null and negative numbers are read as `None`.
pub(crate) fn some_whole<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let number: Option<serde_json::Number> = Option::deserialize(deserializer)?;
    Ok(number.as_ref().and_then(whole_of))
}

fn whole_of(number: &serde_json::Number) -> Option<u64> {
    let cut = || number.as_f64().filter(|&value| value >= 0.0).map(|value| value as u64);
    number.as_u64().or_else(cut)
}

/// Reads a list of integers. Elements that are not numbers are read as 0.
pub(crate) fn wholes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let values: Option<Vec<Value>> = Option::deserialize(deserializer)?;
    Ok(values.unwrap_or_default().iter().map(whole_of_value).collect())
}

/// Returns `value` as an integer; 0 if it is not a number or negative.
pub(crate) fn whole_of_value(value: &Value) -> u64 {
    match value {
        Value::Number(number) => whole_of(number).unwrap_or_default(),
        _ => 0,
    }
}

/// Reads a map from names to integers. Values that are not numbers are left out; negative numbers
/// are read as 0.
pub(crate) fn counts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, u64>, D::Error> {
    let all: Option<BTreeMap<String, Value>> = Option::deserialize(deserializer)?;
    let count = |(name, value)| match value {
        Value::Number(number) => Some((name, whole_of(&number).unwrap_or_default())),
        _ => None,
    };
    Ok(all.unwrap_or_default().into_iter().filter_map(count).collect())
}

/// Reads a map from names to integers, and leaves out names that this version does not know.
pub(crate) fn known_names<'de, D: Deserializer<'de>, K: DeserializeOwned + Ord>(
    deserializer: D,
) -> Result<BTreeMap<K, u64>, D::Error> {
    let known = |(name, count)| Some((serde_json::from_value(Value::String(name)).ok()?, count));
    Ok(counts(deserializer)?.into_iter().filter_map(known).collect())
}

/// Reads a map from names to counters, and leaves out values that are not finite numbers.
pub(crate) fn counters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Counters, D::Error> {
    let all: Option<BTreeMap<String, Value>> = Option::deserialize(deserializer)?;
    let figure = |(name, value): (String, Value)| {
        let value = match value.as_u64() {
            Some(count) => CounterValue::Count(count),
            None => CounterValue::Ratio(value.as_f64().filter(|value| value.is_finite())?),
        };
        Some((name, value))
    };
    Ok(all.unwrap_or_default().into_iter().filter_map(figure).collect())
}
