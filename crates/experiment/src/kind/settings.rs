//! Settings of a measurement: texts by key, as an experiment file has them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use perforate_sim::parse_size;
use serde::{Deserialize, Serialize};

/// A setting that a kind knows.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its key; one that ends with a point stands for all keys that begin so.
    pub key: &'static str,
    /// What it says, in a line.
    pub meaning: &'static str,
    /// What holds where it is not given; none: it must be given, or is off.
    pub default: Option<&'static str>,
}

/// Settings by key; numbers and truth values as their texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(pub BTreeMap<String, String>);

impl Settings {
    /// The text of a setting.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The text of a setting that must be there.
    ///
    /// # Errors
    /// It is not.
    pub fn required(&self, key: &str) -> Result<&str, String> {
        self.text(key).ok_or_else(|| format!("setting {key:?} is missing"))
    }

    /// A number or whatever else can be read from the text, or the default.
    ///
    /// # Errors
    /// The text is not one.
    pub fn value<T: FromStr>(&self, key: &str, default: T) -> Result<T, String>
    where
        T::Err: Display,
    {
        self.text(key).map_or(Ok(default), |text| {
            text.parse().map_err(|error| format!("setting {key:?} is {text:?}: {error}"))
        })
    }

    /// A count with k, M, G or T for powers of 1000.
    ///
    /// # Errors
    /// The text is not one.
    pub fn count(&self, key: &str, default: u64) -> Result<u64, String> {
        self.text(key).map_or(Ok(default), |text| {
            let wrong =
                || format!("setting {key:?} is {text:?}; expected a count such as 500k or 2M");
            count(text).ok_or_else(wrong)
        })
    }

    /// A size in bytes, such as 2G.
    ///
    /// # Errors
    /// The text is not one.
    pub fn size(&self, key: &'static str, default: &str) -> Result<u64, String> {
        parse_size(key, self.text(key).unwrap_or(default)).map_err(|error| error.to_string())
    }

    /// Settings that begin with `prefix`, without it.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let stripped = move |(key, text): (&'a String, &'a String)| {
            key.strip_prefix(prefix).map(|rest| (rest, text.as_str()))
        };
        self.0.iter().filter_map(stripped)
    }
}

/// A count with k, M, G or T for powers of 1000, if it is one.
pub fn count(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let texts = [("a", "500k"), ("b", "x"), ("machine.l2.ways", "4")];
        let settings = Settings(texts.map(|(key, text)| (key.into(), text.into())).into());
        assert_eq!(settings.count("a", 1), Ok(500_000));
        assert_eq!(settings.count("none", 7), Ok(7));
        assert_eq!(settings.size("none", "4K"), Ok(4096));
        assert!(settings.count("b", 1).unwrap_err().contains("setting \"b\" is \"x\""));
        assert!(settings.value::<u32>("b", 1).unwrap_err().contains("setting \"b\" is \"x\""));
        assert!(settings.required("c").unwrap_err().contains("\"c\" is missing"));
        assert_eq!(settings.below("machine.").collect::<Vec<_>>(), [("l2.ways", "4")]);
        for wrong in ["", "M", "1m", "2X", "-1", "1.5M", "99999999999999999999", "1é"] {
            assert_eq!(count(wrong), None, "{wrong}");
        }
    }
}
