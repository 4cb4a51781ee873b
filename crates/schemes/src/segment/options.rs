//! Options of the policy "segment".

use perforate_config::{Address, ConfigError, Count, Size};
use perforate_os::SmallPages;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SegmentRule;

/// Conditions for a direct segment (D §II.B: a primary region).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SegmentOptions {
    /// Smallest size of a memory area that becomes a direct segment.
    ///
    /// Our choice: what 4KB entries of a 512-entry second-level TLB reach is 2MB; 64MB are far
    /// beyond.
    pub min: Size,
    /// Pages outside the segment (2m: 2MB pages as with thp).
    pub pages: SmallPages,
    /// Compact memory for the segment already at the area's first touch, not only later.
    pub compact: bool,
    /// Register BASE of the segment. With limit, the segment covers exactly this range.
    pub base: Option<Address>,
    /// Register LIMIT of the segment: address of the first byte after it.
    ///
    /// Where it is equal to BASE, there is no segment (D §III).
    pub limit: Option<Address>,
    /// Largest number of pages that escape from the segment, such as faulty frames and guard pages.
    ///
    /// D §V: up to 16 cost almost nothing with a filter of 256 bits.
    pub escapes: Count,
}

impl SegmentOptions {
    /// Default options of the policy for direct segments.
    pub const DEFAULT: Self = Self {
        min: Size(64 << 20),
        pages: SmallPages::Size4K,
        compact: false,
        base: None,
        limit: None,
        escapes: Count::new(16),
    };

    /// Converts these options to the conditions that the kernel checks.
    ///
    /// # Errors
    /// If options contradict each other.
    pub(super) fn rule(&self) -> Result<SegmentRule, ConfigError> {
        let Self { min, compact, escapes, .. } = *self;
        if min.bytes() == 0 {
            return Err(ConfigError::new("is more than 0").under("min"));
        }
        let bounds = self.bounds()?;
        let (min_bytes, faulty_pages) = (min.bytes(), escapes.get());
        Ok(SegmentRule { min_bytes, compacts: compact, faulty_pages, bounds })
    }

    fn bounds(&self) -> Result<Option<(u64, u64)>, ConfigError> {
        for (key, address) in [("base", self.base), ("limit", self.limit)] {
            let is_page =
                |address: &Address| address.0.is_multiple_of(4096) && address.0 <= 1 << 47;
            if let Some(address) = address.filter(|address| !is_page(address)) {
                let expected = "expected the address of a page such as 0x7f0000200000";
                return Err(ConfigError::new(format!("{expected}, not {address}")).under(key));
            }
        }
        match (self.base, self.limit) {
            (None, None) => Ok(None),
            (Some(base), Some(limit)) if limit < base => {
                Err(ConfigError::new(format!("limit {limit} is less than base {base}")))
            }
            (Some(base), Some(limit)) => Ok(Some((base.0, limit.0))),
            (Some(_), None) => {
                Err(ConfigError::new("base needs limit, the first byte after the segment"))
            }
            (None, Some(_)) => {
                Err(ConfigError::new("limit needs base, the first byte of the segment"))
            }
        }
    }
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_pages_of_the_address_space_in_order() {
        let bounds = |base: Option<u64>, limit: Option<u64>| {
            let [base, limit] = [base, limit].map(|address| address.map(Address));
            SegmentOptions { base, limit, ..SegmentOptions::DEFAULT }.bounds()
        };
        const END: u64 = 1 << 47;
        assert_eq!(bounds(None, None), Ok(None));
        for (base, limit) in [(0, END), (4096, 8192), (4096, 4096), (END, END)] {
            assert_eq!(bounds(Some(base), Some(limit)), Ok(Some((base, limit))));
        }
        for (base, limit, expected) in [
            (Some(8192), Some(4096), "is less than base"),
            (Some(4095), Some(8192), "base"),
            (Some(4096), Some(8191), "limit"),
            (Some(0), Some(END + 4096), "limit"),
            (Some(0), None, "base needs limit"),
            (None, Some(4096), "limit needs base"),
        ] {
            let error = bounds(base, limit).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let none = SegmentOptions { min: Size(0), ..SegmentOptions::DEFAULT };
        assert!(none.rule().unwrap_err().to_string().contains("is more than 0"));
    }
}
