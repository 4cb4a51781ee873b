//! Counts in options.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::{number, unit};
use crate::ConfigError;

/// A number of instructions, pages or other things, from `LEAST` to `MOST`: `10M`, `1_000_000`, `2e6`.
/// Suffixes are powers of 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Count<const LEAST: u64 = 0, const MOST: u64 = { u64::MAX }>(u64);

impl<const LEAST: u64, const MOST: u64> Count<LEAST, MOST> {
    /// Creates a count from a number in the range.
    ///
    /// # Panics
    /// The number is not in the range.
    pub const fn new(number: u64) -> Self {
        assert!(LEAST <= number && number <= MOST);
        Self(number)
    }

    /// Value of the count.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Default for Count {
    fn default() -> Self {
        Self(0)
    }
}

impl<const LEAST: u64, const MOST: u64> FromStr for Count<LEAST, MOST> {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let number = number::count(text.trim(), MOST).map_err(ConfigError::new)?;
        match number {
            _ if number < LEAST => Err(format!("is at least {LEAST}, not {number}")),
            _ if number > MOST => Err(format!("is at most {MOST}, not {number}")),
            _ => Ok(Self(number)),
        }
        .map_err(ConfigError::new)
    }
}

impl<const LEAST: u64, const MOST: u64> fmt::Display for Count<LEAST, MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

unit!(Count<LEAST, MOST>, "a whole number", {
    "type": ["string", "integer"], "format": "count", "minimum": LEAST, "maximum": MOST,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        type Bits = Count<1, 8>;
        assert_eq!("8".parse(), Ok(Bits::new(8)));
        let problem = |text: &str| text.parse::<Bits>().unwrap_err().to_string();
        assert_eq!(problem("9"), "is at most 8, not 9");
        assert_eq!(problem("0"), "is at least 1, not 0");
        assert_eq!(problem("1e30"), "is at most 8, not 1e30");
        assert!(problem("x").contains("expected a whole number"));
        assert_eq!("10M".parse::<Count<1>>().unwrap().get(), 10_000_000);
    }
}
