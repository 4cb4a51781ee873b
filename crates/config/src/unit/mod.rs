//! Types of values with a unit.

mod address;
mod bounded_size;
mod count;
pub(crate) mod number;
mod share;
mod size;

pub use address::Address;
pub use bounded_size::BoundedSize;
pub use count::Count;
pub use share::Share;
pub use size::Size;

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};

use crate::ConfigError;

/// Deserialises a value with a unit from its text, or from a number in a file.
pub(crate) fn deserialize<'de, D, T>(deserializer: D, expected: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = ConfigError>,
{
    deserializer.deserialize_any(UnitVisitor { expected, unit: std::marker::PhantomData })
}

struct UnitVisitor<T> {
    expected: &'static str,
    unit: std::marker::PhantomData<T>,
}

impl<T: FromStr<Err = ConfigError>> Visitor<'_> for UnitVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Implements the traits of serde and schemars for a type with a unit, which must implement
/// `FromStr`.
macro_rules! unit {
    ($name:ident $(<$($limit:ident),+>)?, $expected:expr, $schema:tt) => {
        impl<'de $($(, const $limit: u64)+)?> serde::Deserialize<'de> for $name $(<$($limit),+>)? {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::unit::deserialize(deserializer, $expected)
            }
        }

        impl $(<$(const $limit: u64),+>)? schemars::JsonSchema for $name $(<$($limit),+>)? {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
use unit;
