//! Plain wording for error messages of libraries, which name types of Rust.

use crate::words;

/// Rewords serde's error messages about values in plain English. Other messages are not changed.
pub fn plain(message: &str) -> String {
    of_type(message).or_else(|| of_word(message)).unwrap_or_else(|| message.to_owned())
}

/// Rewords a message such as `invalid type: string "abc", expected usize`; `None` for other
/// messages.
fn of_type(message: &str) -> Option<String> {
    let rest = ["invalid type: ", "invalid value: "]
        .into_iter()
        .find_map(|it| message.strip_prefix(it))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    Some(format!("expected {}, not {}", type_in_words(expected), found_in_words(found)))
}

/// Rewords a message such as `unknown variant `x`, expected one of `a`, `b``; `None` for other
/// messages.
fn of_word(message: &str) -> Option<String> {
    let (word, known) = message.strip_prefix("unknown variant `")?.split_once('`')?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    Some(words::none_of(word, &known))
}

/// Describes a Rust type in plain English.
fn type_in_words(name: &str) -> String {
    let largest = |most: u64| format!("a whole number of at most {most}, such as 8");
    match name {
        "u8" => largest(u8::MAX.into()),
        "u16" => largest(u16::MAX.into()),
        "u32" => largest(u32::MAX.into()),
        "usize" | "u64" | "u128" => "a whole number, such as 1536".into(),
        "isize" | "i8" | "i16" | "i32" | "i64" | "i128" => "a whole number, such as -1".into(),
        "f32" | "f64" => "a number, such as 2.5".into(),
        "a boolean" => "true or false".into(),
        "a string" => "a text in quotation marks".into(),
        "a sequence" => "a list in square brackets".into(),
        name if name.starts_with("struct ") || name == "a map" => {
            "keys and values in braces, such as { entries = 1536, ways = 12 }".into()
        }
        name if name.starts_with("tuple ") || name.starts_with("a tuple ") => {
            "a list in square brackets".into()
        }
        name => name.into(),
    }
}

/// Description of the wrong value in serde's message.
fn found_in_words(found: &str) -> &str {
    match found {
        "map" => "keys and values",
        "sequence" => "a list",
        found => {
            let kinds = ["string ", "integer ", "floating point ", "boolean "];
            let value = kinds.into_iter().find_map(|kind| found.strip_prefix(kind));
            value.unwrap_or(found).trim_matches('`')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_rust_are_not_named() {
        for (message, plainly) in [
            (
                "invalid type: string \"abc\", expected usize",
                "expected a whole number, such as 1536, not \"abc\"",
            ),
            (
                "invalid value: integer `-5`, expected u64",
                "expected a whole number, such as 1536, not -5",
            ),
            (
                "invalid value: integer `99999999999`, expected u32",
                "expected a whole number of at most 4294967295, such as 8, not 99999999999",
            ),
            (
                "invalid type: floating point `1.5`, expected usize",
                "expected a whole number, such as 1536, not 1.5",
            ),
            (
                "invalid type: string \"fast\", expected f64",
                "expected a number, such as 2.5, not \"fast\"",
            ),
            ("invalid type: integer `7`, expected a boolean", "expected true or false, not 7"),
            (
                "invalid type: integer `5`, expected struct TlbGeometry",
                "expected keys and values in braces, such as { entries = 1536, ways = 12 }, not 5",
            ),
            (
                "unknown variant `foo`, expected one of `l1d`, `l2`, `llc`",
                "expected l1d, l2 or llc, not \"foo\"",
            ),
            (
                "unknown variant `al`, expected `all` or `none`",
                "expected all or none, not \"al\"; did you mean all?",
            ),
            ("tlb.l2: 3 entries", "tlb.l2: 3 entries"),
        ] {
            assert_eq!(plain(message), plainly);
        }
    }
}
