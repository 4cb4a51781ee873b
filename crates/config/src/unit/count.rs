//! Counts.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::{number, unit};
use crate::ConfigError;

/// A number of instructions, pages or whatever else is counted: `10M`, `1_000_000`, `2e6`. Letters
/// are powers of 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Count(pub u64);

impl Count {
    const EXPECTED: &'static str = "a whole number such as 5000, 10M or 2e6";
}

unit!(Count, "count");

impl FromStr for Count {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        number::count(text.trim()).map(Self).map_err(ConfigError::new)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
