//! Parameters of background promotion.

use perforate_config::Count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Linux's maximum for the three limits: one page less than a region has.
const MOST_PAGES: u64 = 511;

/// Knobs of the scanner, with Linux's names and defaults
/// (`/sys/kernel/mm/transparent_hugepage/khugepaged`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KhugepagedConfig {
    /// Pages scanned by one pass (Linux: before each sleep), rounded up to whole regions of 512.
    pub pages_to_scan: Count<1>,
    /// Pages of a region that may be absent; they become zero pages, that is, bloat.
    pub max_ptes_none: Count<0, MOST_PAGES>,
    /// Pages of a region that may be swapped out; they are read back.
    pub max_ptes_swap: Count<0, MOST_PAGES>,
    /// Pages of a region whose frame others may map as well; they are copied.
    pub max_ptes_shared: Count<0, MOST_PAGES>,
    /// Compact a block for a region if necessary (Linux: `khugepaged/defrag`); page faults have an
    /// option of their own ([`crate::Defrag`]).
    pub defrag: bool,
}

impl Default for KhugepagedConfig {
    fn default() -> Self {
        Self {
            pages_to_scan: Count::new(4096),
            max_ptes_none: Count::new(511),
            max_ptes_swap: Count::new(64),
            max_ptes_shared: Count::new(256),
            defrag: true,
        }
    }
}
