//! Overrides of some options of a struct, such as `key=value,key=value`.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde::{Serialize, Serializer};

use crate::{ConfigError, OptionTexts, Options, read, words, write};

/// Overrides of some options of `T`. Displayed as `key=value,…`, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes<T> {
    /// Keys of the overridden options, in the order given.
    keys: Vec<String>,
    /// Values of the overridden options; defaults for all other options.
    values: T,
}

impl<T: Options> Changes<T> {
    /// Returns the options of `base` with the overrides applied.
    ///
    /// # Errors
    /// The result is not a valid `T`.
    pub fn over(&self, base: &T) -> Result<T, ConfigError> {
        let given = write::entries(&self.values);
        let merged = write::entries(base).into_iter().zip(given).map(|(base, given)| {
            let is_given = self.keys.iter().any(|key| words::same(key, &base.0));
            if is_given { given } else { base }
        });
        merged.collect::<OptionTexts>().read()
    }
}

impl<T> Changes<T> {
    /// Values of the overridden options, with defaults for all other options.
    pub fn values(&self) -> &T {
        &self.values
    }
}

impl<T: Options> fmt::Display for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = write::entries(&self.values);
        let texts = self.keys.iter().filter_map(|key| {
            let (_, text) = entries.iter().find(|(known, _)| words::same(known, key))?;
            Some(format!("{}={text}", words::kebab(key)))
        });
        f.write_str(&texts.collect::<Vec<_>>().join(","))
    }
}

impl<T: DeserializeOwned> std::str::FromStr for Changes<T> {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        read(text)
    }
}

impl<T: Options> Serialize for Changes<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Changes<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = OptionTexts::deserialize(deserializer)?;
        let keys = given.entries().iter().map(|(key, _)| (*key).to_owned()).collect();
        let values = given.read().map_err(D::Error::custom)?;
        Ok(Self { keys, values })
    }
}

impl<T: JsonSchema> JsonSchema for Changes<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
