//! Addresses in options.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::unit;
use crate::ConfigError;

/// An address as options give it: `0x7f0000200000`, or decimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Address(pub u64);

impl Address {
    const EXPECTED: &'static str = "an address such as 0x7f0000200000";
}

unit!(Address, Self::EXPECTED, { "type": ["string", "number"], "format": "address" });

impl FromStr for Address {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let text = text.trim();
        let address = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let wrong = |_| ConfigError::new(format!("expected {}, not {text:?}", Self::EXPECTED));
        address.map(Self).map_err(wrong)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!("0x20".parse(), Ok(Address(32)));
        assert_eq!("32".parse(), Ok(Address(32)));
        assert_eq!(Address(32).to_string(), "0x20");
        for wrong in ["", "0x", "0xg", "-1", "near"] {
            let error = wrong.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("expected an address such as 0x7f0000200000"), "{error}");
        }
    }
}
