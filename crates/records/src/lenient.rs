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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(default)]
    #[derive(Default)]
    struct All {
        #[serde(deserialize_with = "name")]
        name: Option<String>,
        #[serde(deserialize_with = "whole")]
        whole: u64,
        #[serde(deserialize_with = "some_whole")]
        some: Option<u64>,
        #[serde(deserialize_with = "wholes")]
        list: Vec<u64>,
        #[serde(deserialize_with = "counts")]
        counts: BTreeMap<String, u64>,
        #[serde(deserialize_with = "known_names")]
        known: BTreeMap<bool, u64>,
        #[serde(deserialize_with = "or_default")]
        text: String,
        #[serde(deserialize_with = "known_or_default")]
        flag: bool,
    }

    fn read(text: &str) -> All {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn odd_values_are_read_as_what_they_can_be() {
        for (value, whole, some) in [
            ("7", 7, Some(7)),
            ("0", 0, Some(0)),
            ("7.9", 7, Some(7)),
            ("1e3", 1000, Some(1000)),
            ("-1", 0, None),
            ("-0.0", 0, Some(0)),
            ("null", 0, None),
            ("18446744073709551615", u64::MAX, Some(u64::MAX)),
            ("1e300", u64::MAX, Some(u64::MAX)),
        ] {
            let all = read(&format!(r#"{{"whole":{value},"some":{value},"list":[{value},"x"]}}"#));
            assert_eq!((all.whole, all.some, all.list), (whole, some, vec![whole, 0]), "{value}");
        }
        for (value, expected) in [
            (r#""a b""#, Some("a b")),
            (r#"" ""#, None),
            (r#""""#, None),
            ("5", None),
            ("null", None),
            ("[]", None),
        ] {
            assert_eq!(
                read(&format!(r#"{{"name":{value}}}"#)).name.as_deref(),
                expected,
                "{value}"
            );
        }
        let all =
            read(r#"{"counts":{"a":3,"b":-3,"c":"3","d":null,"e":1.5},"text":null,"list":null}"#);
        let expected = [("a", 3), ("b", 0), ("e", 1)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!((all.counts, all.text, all.list), (expected.into(), String::new(), Vec::new()));
        assert_eq!(read(r#"{"counts":null,"known":null}"#), All::default());
        assert_eq!(
            [r#"true"#, "1", "null", r#""x""#]
                .map(|flag| read(&format!(r#"{{"flag":{flag}}}"#)).flag),
            [true, false, false, false]
        );
        for refused in [
            r#"{"whole":"7"}"#,
            r#"{"some":[]}"#,
            r#"{"list":7}"#,
            r#"{"text":7}"#,
            r#"{"counts":[]}"#,
        ] {
            assert!(serde_json::from_str::<All>(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn counters_are_counts_or_finite_numbers() {
        #[derive(Deserialize)]
        struct Of {
            #[serde(deserialize_with = "counters")]
            counters: Counters,
        }
        let of = |text: &str| {
            let Of { counters } =
                serde_json::from_str(&format!(r#"{{"counters":{text}}}"#)).unwrap();
            counters.iter().map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>()
        };
        let expected = [
            ("a", CounterValue::Count(3)),
            ("b", CounterValue::Ratio(-3.0)),
            ("c", CounterValue::Ratio(0.5)),
            ("d", CounterValue::Count(u64::MAX)),
        ];
        let found =
            of(r#"{"a":3,"b":-3,"c":0.5,"d":18446744073709551615,"e":"1","f":null,"g":true}"#);
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
        assert!(of("null").is_empty());
    }
}
