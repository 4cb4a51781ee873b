//! Kernel threads that run periodically, such as khugepaged: their period and settings.

use perforate_config::{Count, OptionTexts, Options, write};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};

/// A kernel thread with its settings `C`: `every=N` and the keys of `C`.
///
/// Linux wakes its kernel threads by the clock. Here a thread wakes after a number of instructions
/// of the program, so that runs without a clock have kernel threads too. A run simulates
/// milliseconds, and khugepaged of Linux sleeps ten seconds, so the default period is short.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Daemon<C> {
    /// Instructions of the program between two passes.
    pub every: Count<1>,
    /// Settings of the thread.
    #[serde(flatten)]
    pub knobs: C,
}

impl<C> Daemon<C> {
    /// Default number of the program's instructions between two passes. This project's choice.
    pub const PERIOD: u64 = 1_000_000;

    /// Phrase that describes the kernel thread `name` and its settings, for headings of the output.
    pub(super) fn phrase(&self, name: &str) -> String
    where
        C: Options,
    {
        format!("{name} every {} instructions ({})", self.every, write(&self.knobs))
    }
}

#[derive(Deserialize)]
struct Period {
    every: Option<Count<1>>,
}

impl<'de, C: DeserializeOwned> Deserialize<'de> for Daemon<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut given = OptionTexts::deserialize(deserializer)?;
        given.check_keys::<Period, C>().map_err(D::Error::custom)?;
        let Period { every } = given.take().map_err(D::Error::custom)?;
        let knobs = given.read().map_err(D::Error::custom)?;
        Ok(Self { every: every.unwrap_or(Count::new(Self::PERIOD)), knobs })
    }
}
