//! Reading and writing of JSON. Readers replace characters that control a terminal or reorder text.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Writes a record as one line of a file, including the line feed.
///
/// # Panics
/// If the record cannot be written as JSON.
pub fn json_line(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect("records are plain data") + "\n"
}

/// Returns the name of an enum variant as it appears in records.
///
/// # Panics
/// If the variant is not written as a string.
pub fn word(variant: impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(Value::String(word)) => word,
        other => panic!("{other:?} is not a word"),
    }
}

/// Reads one JSON text, and [cleans](clean) all its strings.
///
/// # Errors
/// If the text is not JSON, or not a record of this type.
pub fn read_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_value(mapped(serde_json::from_str(text)?, clean))
}

/// Replaces control characters, and characters that reorder text, in all strings and keys of a JSON value by
/// U+FFFD.
pub fn harmless_json(value: Value) -> Value {
    mapped(value, harmless)
}

fn mapped(value: Value, text: fn(&str) -> String) -> Value {
    match value {
        Value::String(found) => Value::String(text(&found)),
        Value::Array(items) => items.into_iter().map(|item| mapped(item, text)).collect(),
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(name, value)| (text(&name), mapped(value, text))).collect(),
        ),
        other => other,
    }
}

/// Replaces line feeds and tabs by spaces, and other characters as [`harmless`] does.
pub fn clean(text: &str) -> String {
    harmless(&text.replace(['\n', '\r', '\t'], " "))
}

/// Replaces control characters, except line feeds and tabs, and characters that reorder text by U+FFFD.
pub fn harmless(text: &str) -> String {
    let visible = |character: char| match character {
        '\n' | '\t' => character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        // XML does not allow these characters.
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        other if other.is_control() => '\u{fffd}',
        other => other,
    };
    text.chars().map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_lose_what_cannot_be_seen() {
        let text = r#"{"a\u001b":["x\ny\u202e",1]}"#;
        let value: Value = read_json(text).unwrap();
        assert_eq!(value, serde_json::json!({"a\u{fffd}": ["x y\u{fffd}", 1]}));
        let value = harmless_json(serde_json::from_str(text).unwrap());
        assert_eq!(value, serde_json::json!({"a\u{fffd}": ["x\ny\u{fffd}", 1]}));
    }

    /// Ends of the ranges of characters that reorder text, with their neighbours.
    #[test]
    fn only_characters_that_control_or_reorder_are_replaced() {
        for (kept, replaced) in [
            ("\t\n ~\u{a0}", "\u{0}\u{8}\u{b}\r\u{1b}\u{7f}\u{85}\u{9f}"),
            ("\u{200d}\u{2010}\u{2029}\u{202f}", "\u{200e}\u{200f}\u{202a}\u{202c}\u{202e}"),
            ("\u{2065}\u{206a}\u{fffd}\u{10000}", "\u{2066}\u{2069}\u{fffe}\u{ffff}"),
        ] {
            assert_eq!(harmless(kept), kept);
            assert!(harmless(replaced).chars().all(|one| one == '\u{fffd}'), "{replaced:?}");
        }
        assert_eq!(clean("a\tb\r\nc"), "a b  c");
    }
}
