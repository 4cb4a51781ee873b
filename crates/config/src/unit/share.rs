//! Shares from 0 to 100 %, as options give them: `25%`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::unit;
use crate::ConfigError;

/// A share of a whole, as options give it: `25%` or `0.25`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
pub struct Share(f64);

impl Share {
    /// A share of 0 %.
    pub const NONE: Self = Self(0.0);
    /// A share of 100 %.
    pub const WHOLE: Self = Self(1.0);

    const EXPECTED: &'static str = "a share from 0% to 100%";

    /// Creates a share from a number of percent, at most 100.
    pub const fn percent(hundredths: u32) -> Self {
        assert!(hundredths <= 100);
        Self(hundredths as f64 / 100.0)
    }

    /// Creates a share from a number from 0 to 1.
    pub(crate) const fn from_number(share: f64) -> Self {
        Self(share)
    }

    /// Value of the share, from 0 to 1.
    pub const fn value(self) -> f64 {
        self.0
    }
}

unit!(Share, Self::EXPECTED, { "type": ["string", "number"], "format": "share" });

impl FromStr for Share {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (number, whole) = match text.trim().strip_suffix('%') {
            Some(number) => (number, 100.0),
            None => (text, 1.0),
        };
        match number.trim().parse::<f64>() {
            Ok(number) if (0.0..=whole).contains(&number) => Ok(Self(number / whole)),
            _ => Err(ConfigError::new(format!("expected {}, not {text:?}", Self::EXPECTED))),
        }
    }
}

impl fmt::Display for Share {
    /// Writes the share in percent, rounded so that it prints as it was written: 100 × 0.29 is not
    /// exactly 29.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", (self.0 * 1e11).round() / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        for (text, value) in [("25%", 0.25), ("0.25", 0.25), ("100%", 1.0), ("0", 0.0), ("1", 1.0)]
        {
            let share: Share = text.parse().unwrap();
            assert_eq!(share.value(), value, "{text}");
            assert_eq!(share.to_string().parse(), Ok(share));
        }
        assert_eq!("29%".parse::<Share>().unwrap().to_string(), "29%");
        assert_eq!("12.5%".parse::<Share>().unwrap().to_string(), "12.5%");
        assert_eq!(Share::percent(25), "25%".parse().unwrap());
        for wrong in ["", "%", "half", "25", "101%", "-1%", "NaN", "inf%"] {
            let error = wrong.parse::<Share>().unwrap_err().to_string();
            assert_eq!(error, format!("expected a share from 0% to 100%, not {wrong:?}"));
        }
    }
}
