//! Deserializers that tolerate odd values from other programs, or from other versions of this program.

use std::collections::BTreeMap;

use perforate_types::{CounterValue, Counters};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A value that may be null; null is the default.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A value that this version knows; any other value is the default.
pub(crate) fn known_or_default<'de, D: Deserializer<'de>, T: Default + DeserializeOwned>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Text that is not blank; any other value is `None`.
pub(crate) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        _ => Ok(None),
    }
}

/// A whole number. A fraction is truncated; null and negative numbers are 0.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(some_whole(deserializer)?.unwrap_or_default())
}

/// A whole number. A fraction is truncated; null and negative numbers are `None`.
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

/// A list of whole numbers. Elements that are not numbers are 0.
pub(crate) fn wholes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let values: Option<Vec<Value>> = Option::deserialize(deserializer)?;
    Ok(values.unwrap_or_default().iter().map(whole_of_value).collect())
}

/// The whole number in `value`; 0 if `value` is not a number, or negative.
pub(crate) fn whole_of_value(value: &Value) -> u64 {
    match value {
        Value::Number(number) => whole_of(number).unwrap_or_default(),
        _ => 0,
    }
}

/// Whole numbers by name. Values that are not numbers are left out; negative numbers are 0.
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

/// Whole numbers by name; names that this version does not know are left out.
pub(crate) fn known_names<'de, D: Deserializer<'de>, K: DeserializeOwned + Ord>(
    deserializer: D,
) -> Result<BTreeMap<K, u64>, D::Error> {
    let known = |(name, count)| Some((serde_json::from_value(Value::String(name)).ok()?, count));
    Ok(counts(deserializer)?.into_iter().filter_map(known).collect())
}

/// Counters by name. Values that are not finite numbers are left out.
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
