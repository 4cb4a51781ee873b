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

#[cfg(test)]
mod tests {
    use perforate_config::read;

    use super::*;
    use crate::{KhugepagedConfig, KsmConfig, SelfBalloonConfig};

    #[test]
    fn a_thread_runs_every_million_instructions_unless_told_otherwise() {
        let ksm = |text: &str| read::<Daemon<KsmConfig>>(text);
        let default = Daemon { every: Count::new(1_000_000), knobs: KsmConfig::default() };
        assert_eq!(ksm("default"), Ok(default));
        assert_eq!(ksm("every=1"), Ok(Daemon { every: Count::new(1), ..default }));
        let knobs = KsmConfig { pages_to_scan: Count::new(7), ..KsmConfig::default() };
        assert_eq!(ksm("pages-to-scan=7"), Ok(Daemon { knobs, ..default }));
        assert_eq!(ksm("every=20,pages-to-scan=7").unwrap().every.get(), 20);
        for (text, reason) in [
            ("every=0", "every: is at least 1, not 0"),
            ("every=5,every=6", "every is given twice"),
            ("evry=5", "there is no \"evry\"; did you mean every?"),
            ("pages-to-scan=0", "pages-to-scan: is at least 1, not 0"),
        ] {
            assert_eq!(ksm(text).unwrap_err().to_string(), reason);
        }
        let balloon: Daemon<SelfBalloonConfig> = read("default").unwrap();
        assert_eq!((balloon.every.get(), balloon.knobs.blocks.get()), (1_000_000, 16));
        let khugepaged: Daemon<KhugepagedConfig> = read("default").unwrap();
        assert_eq!((khugepaged.every.get(), khugepaged.knobs), (1_000_000, Default::default()));
        assert_eq!(read::<SelfBalloonConfig>("blocks=1").unwrap().blocks.get(), 1);
        assert!(read::<SelfBalloonConfig>("blocks=0").is_err());
    }
}
