//! Division of the second-level TLB among page sizes.
//!
//! The second level has one shared array, `tlb.l2`, and up to two separate arrays. Each page size
//! uses some ways of `tlb.l2` or a separate array. Some processors, for example, look up two halves
//! in parallel: one for 4KB and 2MB pages, the other for 4KB and 1GB pages. They are modelled by a
//! shared array in which 2MB pages use the first half of the ways, and 1GB pages the second half.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::TlbGeometry;

/// Ways of `tlb.l2`. A machine file writes `"all"`, `"none"`, or the first and last way counted
/// from 1, such as `"1-8"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// All ways of `tlb.l2`.
    All,
    /// None of the ways of `tlb.l2`.
    None,
    /// The ways from `first` to `last`, inclusive.
    Range {
        /// Number of the first way, counted from 1.
        first: usize,
        /// Number of the last way, counted from 1.
        last: usize,
    },
}

impl Ways {
    /// Indices of these ways, from 0, in an array with `ways` ways.
    pub fn of(self, ways: usize) -> Range<usize> {
        match self {
            Self::All => 0..ways,
            Self::None => 0..0,
            Self::Range { first, last } => first - 1..last,
        }
    }

    /// True if an array with `ways` ways has these ways.
    pub(super) fn are_in(self, ways: usize) -> bool {
        match self {
            Self::All | Self::None => true,
            Self::Range { first, last } => first > 0 && first <= last && last <= ways,
        }
    }

    pub(super) fn are_all(&self) -> bool {
        *self == Self::All
    }
}

impl fmt::Display for Ways {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("all"),
            Self::None => formatter.write_str("none"),
            Self::Range { first, last } => write!(formatter, "{first}-{last}"),
        }
    }
}

/// Error for a text that does not describe ways. Contains the first 40 characters of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no ways; expected \"all\", \"none\", or the first and the last, such as \"1-8\""
)]
pub struct WaysError(String);

impl FromStr for Ways {
    type Err = WaysError;

    fn from_str(text: &str) -> Result<Self, WaysError> {
        let wrong = || WaysError(text.chars().take(40).collect());
        match text.trim() {
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            range => {
                let (first, last) = range.split_once('-').ok_or_else(wrong)?;
                let way = |text: &str| text.trim().parse().map_err(|_| wrong());
                Ok(Self::Range { first: way(first)?, last: way(last)? })
            }
        }
    }
}

impl Serialize for Ways {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ways {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Ways;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("ways such as \"1-8\", or \"all\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Ways, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Place of the second-level entries for one page size larger than 4KB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L2Part {
    /// Ways of `tlb.l2`, which may overlap those of 4KB pages.
    Ways(Ways),
    /// A separate array for this page size.
    Own(TlbGeometry),
}

impl L2Part {
    /// All ways of `tlb.l2`.
    pub const ALL: Self = Self::Ways(Ways::All);
    /// No entries: only the first level holds pages of this size.
    pub const NONE: Self = Self::Ways(Ways::None);

    pub(super) const fn all() -> Self {
        Self::ALL
    }

    pub(super) const fn none() -> Self {
        Self::NONE
    }

    /// True if the second level holds pages of this size.
    pub fn holds_pages(&self) -> bool {
        *self != Self::NONE
    }

    /// Number of entries that can hold pages of this size. `l2` is the geometry of the shared
    /// array.
    pub fn entries(&self, l2: TlbGeometry) -> usize {
        match self {
            Self::Ways(ways) => l2.sets() * ways.of(l2.ways).len(),
            Self::Own(geometry) => geometry.entries,
        }
    }

    /// Geometry of the separate array for this page size; `None` if the shared array is used.
    pub fn own(&self) -> Option<TlbGeometry> {
        match self {
            Self::Ways(_) => None,
            Self::Own(geometry) => Some(*geometry),
        }
    }

    /// Ways of the shared array for this page size; none if the size has a separate array.
    pub fn ways(&self) -> Ways {
        match self {
            Self::Ways(ways) => *ways,
            Self::Own(_) => Ways::None,
        }
    }
}

impl Serialize for L2Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Ways(ways) => ways.serialize(serializer),
            Self::Own(geometry) => geometry.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for L2Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Part;
        impl<'de> Visitor<'de> for Part {
            type Value = L2Part;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(
                    "ways of tlb.l2 such as \"1-8\", \"all\" or \"none\", or an array of its own \
                     such as { entries = 16, ways = 4 }",
                )
            }

            fn visit_bool<E: Error>(self, is_held: bool) -> Result<L2Part, E> {
                Ok(if is_held { L2Part::ALL } else { L2Part::NONE })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<L2Part, E> {
                text.parse().map(L2Part::Ways).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<L2Part, A::Error> {
                TlbGeometry::deserialize(MapAccessDeserializer::new(map)).map(L2Part::Own)
            }
        }
        deserializer.deserialize_any(Part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_as_they_are_written() {
        for text in ["all", "none", "1-8", "9-16"] {
            assert_eq!(text.parse::<Ways>().unwrap().to_string(), text);
        }
        for text in ["", "8", "a-b", "1-", "-8", "1..8"] {
            assert!(text.parse::<Ways>().unwrap_err().to_string().contains("such as \"1-8\""));
        }
        let range = |first, last| Ways::Range { first, last };
        let of_file = |text: &str| {
            let text: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
                serde::de::IntoDeserializer::into_deserializer(text);
            Ways::deserialize(text)
        };
        assert_eq!(of_file("1-8"), Ok(range(1, 8)));
        assert!(of_file("1-").unwrap_err().to_string().contains("such as \"1-8\""));
        assert_eq!((range(9, 16).of(16), Ways::All.of(4), Ways::None.of(4)), (8..16, 0..4, 0..0));
        assert!(range(9, 16).are_in(16) && !range(9, 16).are_in(12));
        assert!(!range(0, 3).are_in(4) && !range(3, 2).are_in(4));
    }
}
