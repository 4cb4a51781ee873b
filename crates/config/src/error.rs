//! An option whose text cannot be read: what is wrong, and at which key.

use std::fmt::{self, Display};

use serde::de;

use crate::words;

/// Error in an option: path of keys to the wrong value, the problem, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Keys on the way to the wrong value, innermost first.
    path: Vec<String>,
    problem: String,
}

impl ConfigError {
    /// Creates an error whose path is still empty.
    pub fn new(problem: impl Into<String>) -> Self {
        Self { path: Vec::new(), problem: problem.into() }
    }

    /// Adds an enclosing key to the path; keys are added from the inside out.
    #[must_use]
    pub fn under(mut self, key: impl Into<String>) -> Self {
        self.path.push(key.into());
        self
    }

    /// Creates an error for an unknown key that names the nearest of the `known` keys, or all of
    /// them.
    pub fn unknown_key(key: &str, known: &[&str]) -> Self {
        Self::new(words::unknown(key, known))
    }

    /// Keys on the way to the wrong value, outermost first.
    pub fn path(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.path.iter().rev().map(String::as_str)
    }

    /// Description of the problem and of what would be right, without the path.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path().collect::<Vec<_>>().join(": "))?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for ConfigError {}

impl de::Error for ConfigError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(format!("expected {expected}, not {found}"))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(words::none_of(variant, expected))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown_key(field, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("{} is missing", words::kebab(field)))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(format!("{} is given twice", words::kebab(field)))
    }
}
