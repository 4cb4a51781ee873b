//! Sizes in options, in bytes.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::number::Unreadable;
use super::{number, unit};
use crate::ConfigError;

/// Largest size in whole terabytes, for errors.
const LARGEST: Size = Size(u64::MAX >> 40 << 40);

/// Units of sizes with their exponents of two, largest first.
const UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];

/// Number from which a size without a unit is taken for bytes in suggestions.
const LEAST_IN_BYTES: u64 = 1 << 20;

/// A size in bytes: `16G`, `64MiB`, `4KB`, `512B`. Units are powers of 1024. A number without a unit is
/// refused as ambiguous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Size(pub u64);

impl Size {
    const EXPECTED: &'static str = "a size such as 64M or 4G";

    /// Number of bytes of the size.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

unit!(Size, Self::EXPECTED, { "type": ["string", "number"], "format": "size" });

impl FromStr for Size {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Self::parse(text, |text| format!("is at most {LARGEST}, not {text}"))
    }
}

impl Size {
    /// Parses a size. `too_large` makes the error for a size that 64 bits do not hold, from its text.
    pub(super) fn parse(text: &str, too_large: fn(&str) -> String) -> Result<Self, ConfigError> {
        let text = text.trim();
        let wrong = || ConfigError::new(format!("expected {}, not {text:?}", Self::EXPECTED));
        let (digits, unit) = number::split_unit(text);
        let shift = match unit.to_ascii_uppercase().as_str() {
            "" if digits == "0" => 0,
            "" if number::scaled(digits, 1) != Err(Unreadable::NotWhole) => {
                return Err(ConfigError::new(without_unit(digits)));
            }
            "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            "P" | "PB" | "PIB" => 50,
            _ => return Err(wrong()),
        };
        number::scaled(digits, 1 << shift).map(Self).map_err(|problem| match problem {
            Unreadable::NotWhole => wrong(),
            Unreadable::TooLarge => ConfigError::new(too_large(text)),
        })
    }
}

/// Error for a size without a unit, which suggests probable units. A large number is taken for
/// bytes.
fn without_unit(digits: &str) -> String {
    match number::scaled(digits, 1) {
        Ok(bytes) if bytes >= LEAST_IN_BYTES => match Size(bytes).to_string() {
            size if size.ends_with('B') => format!("{digits} has no unit: {size}?"),
            size => format!("{digits} has no unit: {size}, which is as many bytes?"),
        },
        _ => format!("{digits} has no unit: {digits}M or {digits}G?"),
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |&&(_, shift): &&(&str, u32)| self.0.is_multiple_of(1 << shift);
        match UNITS.iter().find(exact) {
            _ if self.0 == 0 => f.write_str("0"),
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes, printed) in [
            ("4G", 4 << 30, "4G"),
            ("4GiB", 4 << 30, "4G"),
            ("512mb", 512 << 20, "512M"),
            ("1.5G", 1536 << 20, "1536M"),
            ("1T", 1 << 40, "1T"),
            ("1P", 1 << 50, "1024T"),
            ("100B", 100, "100B"),
            ("0", 0, "0"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, printed), "{text}");
            assert_eq!(printed.parse(), Ok(size));
        }
        for large in ["99999999999999999999G", "99999999T", "16777216T", "16384P"] {
            let error = large.parse::<Size>().unwrap_err().to_string();
            assert_eq!(error, format!("is at most 16777215T, not {large}"));
        }
        for wrong in ["", "G", "4X", "-1G", "1.0001K"] {
            let error = wrong.parse::<Size>().unwrap_err().to_string();
            assert!(error.contains("expected a size such as 64M or 4G"), "{error}");
        }
        let error = "64".parse::<Size>().unwrap_err();
        assert_eq!(error.to_string(), "64 has no unit: 64M or 64G?");
        let error = "17179869184".parse::<Size>().unwrap_err().to_string();
        assert_eq!(error, "17179869184 has no unit: 16G, which is as many bytes?");
        let error = "3_000_001".parse::<Size>().unwrap_err().to_string();
        assert_eq!(error, "3_000_001 has no unit: 3000001B?");
    }
}
