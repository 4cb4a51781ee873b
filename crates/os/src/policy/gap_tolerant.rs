//! Gap-tolerant superpages wherever a slice can be had (G §3.8), 4KB pages elsewhere.

use std::ops::Range;

use perforate_types::{HoleSet, SLICE_BLOCKS, SUPERPAGE_BLOCKS};

use super::option::{option, parse_size};
use super::{BlockUse, Policy, PolicyOption};

/// What is asked of the slices that superpages are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperpageRule {
    /// Usable B-blocks that a slice must have. The mechanism works with 32; the text's "more than
    /// half" (G §3.8) is 33.
    pub least_blocks: u32,
    /// Frames that the slices must lie in; the whole memory where it is not said.
    pub within: Option<Range<u64>>,
}

impl Default for SuperpageRule {
    fn default() -> Self {
        Self { least_blocks: SUPERPAGE_BLOCKS, within: None }
    }
}

/// Gap-tolerant superpages, 4KB pages where there is no slice for one. Which mode they have is a
/// matter of the page tables ([`crate::TableFormat::gap_tolerance`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapTolerant {
    rule: SuperpageRule,
}

/// All options of the policy "gap-tolerant".
pub const GAP_TOLERANT_OPTIONS: &[PolicyOption] = &[
    option("least-blocks", "N", "32", "usable B-blocks a slice must have, 32 to 64 (G: 32 or 33)"),
    option("from", "SIZE", "0", "first byte of memory that slices may take"),
    option("to", "SIZE", "all", "first byte after the memory that slices may take"),
    option("pages", "4k", "4k", "what backs the rest of memory (2m cannot be had beside GT-PDEs)"),
];

impl GapTolerant {
    pub(super) fn from_options(options: &[(&str, &str)]) -> Result<Self, String> {
        let mut policy = Self::default();
        let (mut from, mut to) = (0, None);
        let frames = |key: &str, text: &str| {
            let bytes = parse_size(text).filter(|bytes| bytes.is_multiple_of(4096));
            let frames = bytes.map(|bytes| bytes / 4096);
            frames.ok_or_else(|| format!("{key} is a size such as 4G, not \"{text}\""))
        };
        for &(key, value) in options {
            match key {
                "least-blocks" => {
                    let blocks = value.parse().ok();
                    let possible = SUPERPAGE_BLOCKS..=SLICE_BLOCKS;
                    policy.rule.least_blocks = blocks
                        .filter(|blocks| possible.contains(blocks))
                        .ok_or_else(|| format!("least-blocks is 32 to 64, not \"{value}\""))?;
                }
                "from" if value == "0" => from = 0,
                "from" => from = frames(key, value)?,
                "to" if value == "all" => to = None,
                "to" => to = Some(frames(key, value)?),
                "pages" => match value {
                    "4k" => {}
                    "2m" => {
                        return Err("an address space has either 2MB-page PDEs or GT-PDEs, never \
                                    both (GTPTCR, G §3.7): pages is 4k"
                            .into());
                    }
                    _ => return Err(format!("pages is 4k, not \"{value}\"")),
                },
                _ => return Err(format!("it has no option \"{key}\"")),
            }
        }
        policy.rule.within = match to {
            Some(to) if to <= from => {
                return Err("to is more than from: no slice lies between them".into());
            }
            None if from == 0 => None,
            to => Some(from..to.unwrap_or(u64::MAX)),
        };
        Ok(policy)
    }
}

impl Policy for GapTolerant {
    fn name(&self) -> &'static str {
        "gap-tolerant"
    }

    fn superpages(&self) -> Option<&SuperpageRule> {
        Some(&self.rule)
    }

    fn use_block(&self, _: &HoleSet) -> BlockUse {
        BlockUse::Pages
    }
}
