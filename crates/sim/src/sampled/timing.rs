//! The option `timing`: full or sampled.

use std::borrow::Cow;
use std::str::FromStr;

use perforate_config::{ConfigError, Count};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Part of a run that is timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// The timing model simulates all measured instructions.
    #[default]
    Full,
    /// The timing model simulates only windows at random places (sampled timing).
    Sampled(TimedWindows),
}

/// Windows of sampled timing: one in each period, at a random place. Between windows, caches, TLBs and
/// branch predictors process every instruction in no time (functional warming).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimedWindows {
    /// Length of a window in counted instructions.
    pub window: u64,
    /// Length of a period in instructions.
    pub period: u64,
}

impl TimedWindows {
    /// Number of instructions timed but not counted before each window. It is several times the
    /// size of a reorder buffer, so that queues, MSHRs and page walkers reach their usual
    /// occupancy.
    pub const WARMUP: u64 = 2_000;
    /// Smallest number of windows for a confidence interval, because the mean of fewer windows may
    /// be far from normally distributed.
    pub const LEAST: usize = perforate_records::Sampled::LEAST_WINDOWS as usize;
}

impl Default for TimedWindows {
    /// Returns windows that cover one in fifty instructions.
    fn default() -> Self {
        Self { window: 10_000, period: 500_000 }
    }
}

impl FromStr for Timing {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let form = "expected full, sampled or sampled=WINDOW/PERIOD, such as sampled=10k/500k";
        let lengths = match text {
            "full" => return Ok(Self::Full),
            "sampled" => return Ok(Self::Sampled(TimedWindows::default())),
            _ => text.strip_prefix("sampled=").and_then(|lengths| lengths.split_once('/')),
        };
        let (window, period) = lengths.ok_or_else(|| ConfigError::new(form))?;
        let (window, period) = (window.parse::<Count>()?.get(), period.parse::<Count>()?.get());
        if window == 0 || period <= window {
            let problem =
                "a window has at least one instruction, and fewer than the period it stands for";
            return Err(ConfigError::new(problem));
        }
        Ok(Self::Sampled(TimedWindows { window, period }))
    }
}

impl<'de> Deserialize<'de> for Timing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Timing {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Full => serializer.serialize_str("full"),
            Self::Sampled(TimedWindows { window, period }) => {
                serializer.serialize_str(&format!("sampled={window}/{period}"))
            }
        }
    }
}

impl JsonSchema for Timing {
    fn schema_name() -> Cow<'static, str> {
        "Timing".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::read;

    use super::*;

    #[test]
    fn timing_is_full_or_of_windows() {
        let windows = |window, period| Timing::Sampled(TimedWindows { window, period });
        assert_eq!(read("full"), Ok(Timing::Full));
        assert_eq!(read("sampled"), Ok(windows(10_000, 500_000)));
        assert_eq!(read("sampled=1M/20M"), Ok(windows(1_000_000, 20_000_000)));
        for wrong in ["some", "sampled=1M", "sampled=0/1M", "sampled=1M/1M", "sampled=x/1M"] {
            assert!(read::<Timing>(wrong).is_err(), "{wrong}");
        }
    }
}
