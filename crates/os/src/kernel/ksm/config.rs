//! The knobs of same-page merging.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::OsError;
use crate::content::parse_count;

/// Knobs of the scanner; the defaults are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KsmConfig {
    /// Pages scanned by one pass (Linux: before each sleep).
    pub pages_to_scan: u64,
    /// Pages that may map one merged frame; the next ones get another. At least 2. A fork makes
    /// more of them, as it takes no notice of merging.
    pub max_page_sharing: u64,
}

impl Default for KsmConfig {
    fn default() -> Self {
        Self { pages_to_scan: 100, max_page_sharing: 256 }
    }
}

impl fmt::Display for KsmConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages_to_scan, max_page_sharing } = self;
        write!(f, "pages-to-scan={pages_to_scan},max-page-sharing={max_page_sharing}")
    }
}

impl FromStr for KsmConfig {
    type Err = OsError;

    /// Reads `pages-to-scan=100,max-page-sharing=256`; what is left out is the default.
    fn from_str(text: &str) -> Result<Self, OsError> {
        parse(text).map_err(|reason| OsError::InvalidKsm { text: text.to_string(), reason })
    }
}

fn parse(text: &str) -> Result<KsmConfig, String> {
    let (mut pages_to_scan, mut max_page_sharing) = (None, None);
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!("\"{word}\" is not key=value"));
        };
        let knob = match key {
            "pages-to-scan" => &mut pages_to_scan,
            "max-page-sharing" => &mut max_page_sharing,
            _ => return Err(format!("unknown key \"{key}\"")),
        };
        if knob.replace(parse_count(key, value)?).is_some() {
            return Err(format!("{key} is given twice"));
        }
    }
    let default = KsmConfig::default();
    let config = KsmConfig {
        pages_to_scan: pages_to_scan.unwrap_or(default.pages_to_scan),
        max_page_sharing: max_page_sharing.unwrap_or(default.max_page_sharing),
    };
    config.check().map(|()| config)
}

impl KsmConfig {
    pub(super) fn check(self) -> Result<(), String> {
        if self.pages_to_scan == 0 {
            return Err("pages-to-scan is at least 1".into());
        }
        if self.max_page_sharing < 2 {
            let given = self.max_page_sharing;
            return Err(format!(
                "max-page-sharing is at least 2, not {given}: fewer share nothing"
            ));
        }
        Ok(())
    }
}
