//! Conversion of options to text that the parser can read.

use serde::Serialize;
use serde_json::Value;

use crate::{Options, key, words};

/// Writes a value as text that [`crate::read()`] parses: a struct is `key=value,…`, values have
/// their unit, an enum is its word.
pub fn write<T: Options>(value: &T) -> String {
    match json(value) {
        Value::String(word) => word,
        _ => list(&entries(value)),
    }
}

/// Writes the options of `value` that differ from `base`, as `key=value,…`.
pub fn write_changed<T: Options>(value: &T, base: &T) -> String {
    let base = entries(base);
    let changed = entries(value).into_iter().zip(base).filter(|(entry, base)| entry != base);
    list(&changed.map(|(entry, _)| entry).collect::<Vec<_>>())
}

/// Keys of a struct's options and their values as texts, in the order of the fields.
pub(crate) fn entries<T: Options>(value: &T) -> Vec<(String, String)> {
    let json = json(value);
    let text = |(name, property): (String, Value)| {
        let text = key::text_of(json.get(&name).unwrap_or(&Value::Null), &property);
        (words::kebab(&name), text)
    };
    key::properties::<T>().into_iter().map(text).collect()
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("options are plain data")
}

fn list(entries: &[(String, String)]) -> String {
    let entries = entries.iter().map(|(key, text)| format!("{key}={text}"));
    entries.collect::<Vec<_>>().join(",")
}
