//! Sizes in bytes within a range.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::{Size, unit};
use crate::ConfigError;

/// A [`Size`] from `LEAST` to `MOST` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BoundedSize<const LEAST: u64, const MOST: u64>(u64);

impl<const LEAST: u64, const MOST: u64> BoundedSize<LEAST, MOST> {
    /// Creates a size from a number of bytes in the range.
    ///
    /// # Panics
    /// The number is not in the range.
    pub const fn new(bytes: u64) -> Self {
        assert!(LEAST <= bytes && bytes <= MOST);
        Self(bytes)
    }

    /// Number of bytes of the size.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl<const LEAST: u64, const MOST: u64> FromStr for BoundedSize<LEAST, MOST> {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let out_of_range = |size: &str| format!("is {} to {}, not {size}", Size(LEAST), Size(MOST));
        let size = Size::parse(text, out_of_range)?;
        if (LEAST..=MOST).contains(&size.bytes()) {
            return Ok(Self(size.bytes()));
        }
        Err(ConfigError::new(out_of_range(&size.to_string())))
    }
}

impl<const LEAST: u64, const MOST: u64> fmt::Display for BoundedSize<LEAST, MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Size(self.0).fmt(f)
    }
}

unit!(BoundedSize<LEAST, MOST>, "a size such as 64M or 4G", {
    "type": ["string", "number"], "format": "size", "minimum": LEAST, "maximum": MOST,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        type Item = BoundedSize<8, 4096>;
        assert_eq!("4K".parse(), Ok(Item::new(4096)));
        assert_eq!(Item::new(64).to_string(), "64B");
        let problem = |text: &str| text.parse::<Item>().unwrap_err().to_string();
        assert_eq!(problem("5K"), "is 8B to 4K, not 5K");
        assert_eq!(problem("0"), "is 8B to 4K, not 0");
        assert_eq!(problem("99999999T"), "is 8B to 4K, not 99999999T");
        assert_eq!(problem("64"), "64 has no unit: 64M or 64G?");
    }
}
