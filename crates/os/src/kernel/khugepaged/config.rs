//! The knobs of background promotion.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::OsError;
use crate::content::parse_count;

/// The most that Linux takes for the three limits: one page less than a region has.
const MOST_PAGES: u64 = 511;

/// Knobs of the scanner, with Linux's names and defaults
/// (`/sys/kernel/mm/transparent_hugepage/khugepaged`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KhugepagedConfig {
    /// Pages scanned by one pass (Linux: before each sleep), rounded up to whole regions of 512.
    pub pages_to_scan: u64,
    /// Pages of a region that may be absent; they become zero pages, that is, bloat.
    pub max_ptes_none: u64,
    /// Pages of a region that may be swapped out; they are read back.
    pub max_ptes_swap: u64,
    /// Pages of a region whose frame others may map as well; they are copied.
    pub max_ptes_shared: u64,
    /// Whether a block may be compacted for a region (Linux: `khugepaged/defrag`). Apart from
    /// what page faults do ([`crate::Defrag`]).
    pub defrag: bool,
}

impl Default for KhugepagedConfig {
    fn default() -> Self {
        Self {
            pages_to_scan: 4096,
            max_ptes_none: 511,
            max_ptes_swap: 64,
            max_ptes_shared: 256,
            defrag: true,
        }
    }
}

impl FromStr for KhugepagedConfig {
    type Err = OsError;

    /// Reads `pages-to-scan=4096,max-ptes-none=511,max-ptes-swap=64,max-ptes-shared=256,defrag=1`;
    /// what is left out is the default.
    fn from_str(text: &str) -> Result<Self, OsError> {
        parse(text).map_err(|reason| OsError::InvalidKhugepaged { text: text.to_string(), reason })
    }
}

impl fmt::Display for KhugepagedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pages-to-scan={},max-ptes-none={}", self.pages_to_scan, self.max_ptes_none)?;
        write!(f, ",max-ptes-swap={}", self.max_ptes_swap)?;
        write!(f, ",max-ptes-shared={},defrag={}", self.max_ptes_shared, u64::from(self.defrag))
    }
}

fn parse(text: &str) -> Result<KhugepagedConfig, String> {
    let mut config = KhugepagedConfig::default();
    let mut given = Vec::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!("\"{word}\" is not key=value"));
        };
        let knob = match key {
            "pages-to-scan" => &mut config.pages_to_scan,
            "max-ptes-none" => &mut config.max_ptes_none,
            "max-ptes-swap" => &mut config.max_ptes_swap,
            "max-ptes-shared" => &mut config.max_ptes_shared,
            "defrag" => match value {
                "0" | "1" => {
                    config.defrag = value == "1";
                    &mut 0
                }
                _ => return Err(format!("defrag is 0 or 1, not \"{value}\"")),
            },
            _ => return Err(format!("unknown key \"{key}\"")),
        };
        *knob = parse_count(key, value)?;
        if given.contains(&key) {
            return Err(format!("{key} is given twice"));
        }
        given.push(key);
    }
    config.check().map(|()| config)
}

impl KhugepagedConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.pages_to_scan == 0 {
            return Err("pages-to-scan is at least 1".into());
        }
        for (key, pages) in [
            ("max-ptes-none", self.max_ptes_none),
            ("max-ptes-swap", self.max_ptes_swap),
            ("max-ptes-shared", self.max_ptes_shared),
        ] {
            if pages > MOST_PAGES {
                return Err(format!("{key} is at most {MOST_PAGES}, not {pages}"));
            }
        }
        Ok(())
    }
}
