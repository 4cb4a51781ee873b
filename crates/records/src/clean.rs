//! Reading JSON without characters that steer a terminal or reorder what is read.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads one JSON text; all its strings are [cleaned](clean).
///
/// # Errors
/// What the JSON reader says.
pub fn read_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_value(cleaned(serde_json::from_str(text)?))
}

fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(cleaned).collect()),
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(name, value)| (clean(&name), cleaned(value))).collect(),
        ),
        other => other,
    }
}

/// Line ends and tabs become spaces; other control characters, and characters that reorder text,
/// become U+FFFD.
pub fn clean(text: &str) -> String {
    let visible = |character: char| match character {
        '\n' | '\r' | '\t' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        // Not allowed in XML.
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
        let value: Value = read_json(r#"{"a\u001b":["x\ny\u202e",1]}"#).unwrap();
        assert_eq!(value, serde_json::json!({"a\u{fffd}": ["x y\u{fffd}", 1]}));
    }
}
