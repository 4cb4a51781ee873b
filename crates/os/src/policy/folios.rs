//! Folios: blocks of 16KB to 1MB that a first touch maps by 4KB entries (Linux: multi-size THP).

use std::any::Any;
use std::fmt;
use std::ops::RangeInclusive;

use perforate_config::{ConfigError, Size, read};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Orders, Policy};
use crate::mechanism::Attributes;

/// Memory areas that may have folios of one size (Linux: `hugepages-<size>kB/enabled`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FolioUse {
    /// All areas without MADV_NOHUGEPAGE.
    Always,
    /// The areas that may have 2MB pages under the scheme (Linux: those of
    /// `transparent_hugepage/enabled`).
    Inherit,
    /// Areas with MADV_HUGEPAGE.
    Madvise,
    /// No area.
    Never,
}

/// Smallest order of a folio: 16KB. Linux has no anonymous folios of order 1.
const SMALLEST: u32 = 2;
/// Number of sizes: 16KB to 1MB.
const SIZES: usize = 7;

/// Sizes of folios that a kernel may map at first touches, and for each the areas that may have it. `None`
/// for a size that is not named. As text: `16K=madvise,64K`, where a size without a value is `always`.
///
/// A kernel has those of its policy ([`Policy::rules`]), which the option `mthp` overrides size by size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolioSizes([Option<FolioUse>; SIZES]);

impl FolioSizes {
    /// Orders of the sizes: a folio of order n has 2ⁿ pages of 4KB.
    pub const ORDERS: RangeInclusive<u32> = SMALLEST..=SMALLEST + SIZES as u32 - 1;

    /// A single size, for all areas.
    ///
    /// # Panics
    /// If no folio has this order.
    pub const fn always(order: u32) -> Self {
        let mut sizes = [None; SIZES];
        sizes[(order - SMALLEST) as usize] = Some(FolioUse::Always);
        Self(sizes)
    }

    /// True if no area may have folios.
    pub fn are_none(&self) -> bool {
        self.0.iter().flatten().all(|&usage| usage == FolioUse::Never)
    }

    /// Combines two lists: sizes that this one does not name have the usage that `other` gives them.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index].or(other.0[index])))
    }

    /// Orders of the folios that an area may have. `inherited` is true if the scheme allows it 2MB pages.
    pub(crate) fn allowed(&self, attributes: &Attributes, inherited: bool) -> Orders {
        let is_allowed = |usage| match usage {
            FolioUse::Always => true,
            FolioUse::Inherit => inherited,
            FolioUse::Madvise => attributes.is_advised(),
            FolioUse::Never => false,
        };
        let allowed = self.named().filter(|&(_, usage)| is_allowed(usage));
        allowed.fold(Orders::BASE, |orders, (order, _)| orders.with(order))
    }

    /// Order and use of each size that is named.
    fn named(&self) -> impl Iterator<Item = (u32, FolioUse)> {
        Self::ORDERS.zip(self.0).filter_map(|(order, usage)| Some((order, usage?)))
    }

    fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut sizes = Self::default();
        for word in text.split(',').map(str::trim) {
            let (size, usage) = word.split_once('=').unwrap_or((word, "always"));
            let bytes = read::<Size>(size)?.bytes();
            let known = Self::ORDERS.zip(&mut sizes.0).find(|(order, _)| 4096 << order == bytes);
            let Some((_, place)) = known else {
                let expected = "expected 16K, 32K, 64K, 128K, 256K, 512K or 1M";
                let scheme = "; the scheme decides on 2MB pages (thp, thp-madvise)";
                let more = if bytes == 2 << 20 { scheme } else { "" };
                return Err(ConfigError::new(format!("{expected}, not {size:?}{more}")));
            };
            *place = Some(read(usage).map_err(|error| error.under(size))?);
        }
        Ok(sizes)
    }
}

impl fmt::Display for FolioSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.named().map(|(order, usage)| {
            let size = Size(4096 << order);
            match usage {
                FolioUse::Always => size.to_string(),
                _ => format!("{size}={}", perforate_config::write(&usage)),
            }
        });
        f.write_str(&words.collect::<Vec<_>>().join(","))
    }
}

impl Serialize for FolioSizes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FolioSizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Policy `mthp-…`: maps folios of one size where a block is free and unmapped, otherwise 4KB pages. No 2MB
/// pages.
pub struct Mthp {
    /// Name of the policy in configuration and results.
    pub name: &'static str,
    /// Sizes of the folios.
    pub sizes: FolioSizes,
}

impl Policy for Mthp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![&self.sizes]
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{Backing, Permissions};

    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for text in ["64K", "16K=madvise,64K", "32K=inherit,1M=never"] {
            assert_eq!(read::<FolioSizes>(text).unwrap().to_string(), text);
        }
        assert_eq!(read::<FolioSizes>("64K").unwrap(), FolioSizes::always(4));
        assert_eq!(read::<FolioSizes>("1M=always").unwrap(), FolioSizes::always(8));
        assert!(read::<FolioSizes>("64K=never").unwrap().are_none());
        for (text, reason) in [
            ("8K", "expected 16K, 32K, 64K, 128K, 256K, 512K or 1M, not \"8K\""),
            ("2M=always", "not \"2M\"; the scheme decides on 2MB pages"),
            ("64K=often", "64K: "),
            ("often", "expected"),
        ] {
            let error = read::<FolioSizes>(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert_eq!(error.contains("the scheme"), text.starts_with("2M"), "{error}");
        }
    }

    #[test]
    fn an_option_overrides_the_sizes_that_it_names() {
        let option: FolioSizes = read("64K=never,16K=inherit").unwrap();
        let both = option.or(FolioSizes::always(4).or(FolioSizes::always(8)));
        assert_eq!(both.to_string(), "16K=inherit,64K=never,1M");
        let plain = Attributes::private(Permissions::READ_WRITE, Backing::Anonymous);
        assert_eq!(both.allowed(&plain, false).iter().collect::<Vec<_>>(), [0, 8]);
        assert_eq!(both.allowed(&plain, true).iter().collect::<Vec<_>>(), [0, 2, 8]);
    }

    #[test]
    fn every_size_and_every_use() {
        use crate::mechanism::LargePageAdvice;
        let sizes = ["16K", "32K", "64K", "128K", "256K", "512K", "1M"];
        assert!(FolioSizes::ORDERS.eq(2..=8) && sizes.len() == SIZES);
        for (order, size) in FolioSizes::ORDERS.zip(sizes) {
            assert_eq!(read::<FolioSizes>(size), Ok(FolioSizes::always(order)));
            assert_eq!(FolioSizes::always(order).to_string(), size);
        }
        let plain = Attributes::private(Permissions::READ_WRITE, Backing::Anonymous);
        let advised = Attributes { large_pages: LargePageAdvice::Wanted, ..plain };
        for (usage, unadvised, with_advice, inherited) in [
            ("always", true, true, true),
            ("inherit", false, false, true),
            ("madvise", false, true, false),
            ("never", false, false, false),
        ] {
            let sizes: FolioSizes = read(&format!("32K={usage}")).unwrap();
            let allowed = [(plain, false), (advised, false), (plain, true)]
                .map(|(attributes, inherited)| sizes.allowed(&attributes, inherited).contains(3));
            assert_eq!(allowed, [unadvised, with_advice, inherited], "{usage}");
            assert_eq!(sizes.are_none(), usage == "never");
        }
        assert!(FolioSizes::default().are_none());
        for wrong in ["4K", "8K", "48K", "2M", "1M=", "16K=Always", ""] {
            assert!(read::<FolioSizes>(wrong).is_err(), "{wrong}");
        }
        let last: FolioSizes = read("64K=never, 64K").unwrap();
        assert_eq!(last, FolioSizes::always(4), "the last one counts");
    }
}
