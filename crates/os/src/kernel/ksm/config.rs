//! Parameters of same-page merging.

use perforate_config::Count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Knobs of the scanner; the defaults are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KsmConfig {
    /// Pages scanned by one pass (Linux: before each sleep).
    pub pages_to_scan: Count<1>,
    /// Pages that may map one merged frame; the next ones get another. At least 2: fewer share
    /// nothing. A fork makes more of them, as it takes no notice of merging.
    pub max_page_sharing: Count<2>,
}

impl Default for KsmConfig {
    fn default() -> Self {
        Self { pages_to_scan: Count::new(100), max_page_sharing: Count::new(256) }
    }
}
