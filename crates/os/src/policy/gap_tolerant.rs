//! Gap-tolerant superpages wherever a slice can be had (G §3.8), 4KB pages elsewhere.

use std::any::Any;
use std::ops::Range;

use perforate_types::{ControlError, GapTolerance, HoleSet, SLICE_BLOCKS, SUPERPAGE_BLOCKS};

use super::option::{option, parse_size};
use super::{BlockUse, Policy, PolicyOption};
use crate::OsError;

/// What is asked of the slices that superpages are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperpageRule {
    /// Usable B-blocks that a slice must have. The mechanism works with 32; the text's "more than
    /// half" (G §3.8) is 33.
    pub least_blocks: u32,
    /// Frames that the slices must lie in; the whole memory where it is not said.
    pub within: Option<Range<u64>>,
    /// Field BS of GTPTCR, where another mode is wanted than the page tables have.
    pub block_order: Option<u64>,
    /// Field P, likewise.
    pub paired: Option<bool>,
}

impl SuperpageRule {
    /// The mode that is wanted where `mode` is that of the scheme.
    ///
    /// # Errors
    /// Fields that G Table 3 does not have together.
    pub fn mode(&self, mode: GapTolerance) -> Result<GapTolerance, ControlError> {
        let order = self.block_order.unwrap_or(mode.block_order().into());
        GapTolerance::new(order, self.paired.unwrap_or(mode.is_paired()))
    }
}

impl SuperpageRule {
    /// Checks that there are slices where they are wanted in a memory of `end` frames.
    ///
    /// # Errors
    /// [`OsError::SliceOutsideMemory`].
    pub fn check(&self, mode: GapTolerance, end: u64) -> Result<(), OsError> {
        let Some(frames) = &self.within else { return Ok(()) };
        let to = if frames.end == u64::MAX { end } else { frames.end };
        let size = mode.slice_frames();
        let has_slice = frames.start.div_ceil(size) < to.min(end) / size;
        if to <= end && has_slice {
            return Ok(());
        }
        Err(OsError::SliceOutsideMemory {
            start_bytes: frames.start << 12,
            end_bytes: to.max(frames.start) << 12,
            memory_bytes: end << 12,
            slice_bytes: size << 12,
        })
    }
}

impl Default for SuperpageRule {
    fn default() -> Self {
        Self { least_blocks: SUPERPAGE_BLOCKS, within: None, block_order: None, paired: None }
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
    option("bs", "3|4|5", "scheme's", "field BS of GTPTCR: B-blocks of 32KB, 64KB or 128KB"),
    option("paired", "yes|no", "scheme's", "field P of GTPTCR: two superpages in an entry"),
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
                "bs" if value == "scheme's" => policy.rule.block_order = None,
                "bs" => {
                    let order =
                        value.parse().map_err(|_| format!("bs is 3, 4 or 5, not \"{value}\""))?;
                    GapTolerance::new(order, false).map_err(|error| error.to_string())?;
                    policy.rule.block_order = Some(order);
                }
                "paired" => {
                    policy.rule.paired = match value {
                        "yes" => Some(true),
                        "no" => Some(false),
                        "scheme's" => None,
                        _ => return Err(format!("paired is yes or no, not \"{value}\"")),
                    };
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

    fn rules(&self) -> Vec<&dyn Any> {
        vec![&self.rule]
    }

    fn use_block(&self, _: &HoleSet) -> BlockUse {
        BlockUse::Pages
    }
}
