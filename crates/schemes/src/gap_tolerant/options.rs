//! Options of the policy "gap-tolerant".

use perforate_config::{ConfigError, Count, Share, Size};
use perforate_os::SmallPages;
use perforate_types::{SLICE_BLOCKS, SUPERPAGE_BLOCKS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SuperpageRule;

const LEAST_BLOCKS: u64 = SUPERPAGE_BLOCKS as u64;
const MOST_BLOCKS: u64 = SLICE_BLOCKS as u64;

/// Conditions for the slices that superpages are made of (G §3.8).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SuperpageOptions {
    /// Smallest number of usable B-blocks, of 64, in a slice with retired or used pages that
    /// becomes a superpage. Without it 33, more than half (G §3.8); for paired entries 32 that both
    /// slices have (Algorithm 1).
    ///
    /// 33 also explain G's 93.3 % and 46.6 % of Fig. 7; the mechanism works with 32.
    pub least_blocks: Option<Count<LEAST_BLOCKS, MOST_BLOCKS>>,
    /// Size of B-blocks, as field BS of GTPTCR, instead of the scheme's: 3 for 32KB, 4 for 64KB, 5
    /// for 128KB.
    pub bs: Option<Count<3, 5>>,
    /// Two superpages in an entry, as field P of GTPTCR, instead of the scheme's choice.
    pub paired: Option<bool>,
    /// Each process has its own size of B-blocks (G §3.8): the largest with which superpages for
    /// enough of memory can be made when it starts.
    pub per_process: bool,
    /// With per-process: share of the superpages possible with B-blocks of 32KB that a larger size
    /// must reach.
    ///
    /// G has no rule for the choice; 90% is ours.
    pub enough: Share,
    /// Start of the memory in which slices may lie.
    pub from: Size,
    /// End of the memory in which slices may lie, if not all of it.
    pub to: Option<Size>,
    /// Pages of memory that is in no superpage (2m is not possible together with GT-PDEs).
    pub pages: SmallPages,
}

impl SuperpageOptions {
    /// Default options of the policy for gap-tolerant superpages.
    pub const DEFAULT: Self = Self {
        least_blocks: None,
        bs: None,
        paired: None,
        per_process: false,
        enough: Share::percent(90),
        from: Size(0),
        to: None,
        pages: SmallPages::Size4K,
    };

    /// Converts these options to the conditions that the kernel checks.
    ///
    /// # Errors
    /// If options contradict each other.
    pub(super) fn rule(&self) -> Result<SuperpageRule, ConfigError> {
        let wrong = |key: &str, problem: &str| Err(ConfigError::new(problem).under(key));
        if self.pages == SmallPages::Size2M {
            let reason = "an address space has either 2MB-page PDEs or GT-PDEs, never both (GTPTCR, \
                          G §3.7): expected 4k";
            return wrong("pages", reason);
        }
        if self.per_process && (self.bs.is_some() || self.paired == Some(true)) {
            let reason = "chooses single entries and the size of B-blocks for each process: leave bs \
                          and paired out";
            return wrong("per-process", reason);
        }
        for (key, size) in [("from", Some(self.from)), ("to", self.to)] {
            if size.is_some_and(|size| !size.bytes().is_multiple_of(4096)) {
                return wrong(key, "is a multiple of 4K");
            }
        }
        let (from, to) = (self.from.bytes() / 4096, self.to.map(|to| to.bytes() / 4096));
        let within = match to {
            Some(to) if to <= from => {
                return wrong("to", "is more than from: no slice lies between them");
            }
            None if from == 0 => None,
            to => Some(from..to.unwrap_or(u64::MAX)),
        };
        Ok(SuperpageRule {
            least_blocks: self.least_blocks.map(|least| least.get() as u32),
            within,
            block_order: self.bs.map(Count::get),
            paired: self.paired,
            enough: self.per_process.then_some(self.enough),
        })
    }
}

impl Default for SuperpageOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}
