//! Faulty frames as options name them.

use std::borrow::Cow;

use perforate_config::{ConfigError, read};
use perforate_os::FaultMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Faulty frames: drawn, or listed in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultyFrames {
    /// A share of memory.
    Drawn(FaultMap),
    /// A file with one number of a frame a line.
    Listed(String),
}

impl FaultyFrames {
    /// Which frames these are.
    ///
    /// # Errors
    /// A file that cannot be read, or something else in it than numbers.
    pub(super) fn read(&self) -> Result<FaultMap, ConfigError> {
        let file = match self {
            Self::Drawn(map) => return Ok(map.clone()),
            Self::Listed(file) => file,
        };
        let wrong =
            |problem: String| ConfigError::new(format!("{file}: {problem}")).under("faulty");
        let lines = perforate_config::read_text(file).map_err(|error| {
            let forms = "expected uniform=1%, clustered=1% or a file with one frame number a line";
            wrong(format!("{error}; {forms}"))
        })?;
        FaultMap::from_lines(&lines).map_err(|error| wrong(error.to_string()))
    }
}

impl<'de> Deserialize<'de> for FaultyFrames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.contains('=') {
            return read(&text).map(Self::Drawn).map_err(D::Error::custom);
        }
        Ok(Self::Listed(text))
    }
}

impl JsonSchema for FaultyFrames {
    fn schema_name() -> Cow<'static, str> {
        "FaultyFrames".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}
