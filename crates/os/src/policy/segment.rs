//! The policy "segment".

use std::any::Any;

use perforate_types::HoleSet;

use super::option::{PolicyOption, option, parse_size};
use super::{BlockUse, Policy};

/// What a direct segment is made of, and when (D §II.B: a primary region).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRule {
    /// Least size of an area that gets one, in bytes. Our choice: what 4KB entries of a 512-entry
    /// second-level TLB reach is 2MB; 64MB are far beyond.
    pub min_bytes: u64,
    /// Whether the first touch of an area may move things to get contiguous memory. Making one
    /// later, in the background, always may.
    pub compacts: bool,
    /// Most pages that escape: faulty frames in the run (D §V: up to 16 cost almost nothing with a
    /// filter of 256 bits), and pages with permissions of their own.
    pub faulty_pages: u64,
    /// BASE and LIMIT in bytes, where they are prescribed: only this part of an area becomes a
    /// segment, whatever its size. None where they are equal.
    pub bounds: Option<(u64, u64)>,
}

impl Default for SegmentRule {
    fn default() -> Self {
        Self { min_bytes: 64 << 20, compacts: false, faulty_pages: 16, bounds: None }
    }
}

/// A direct segment for the first large area; pages of one size elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SegmentPolicy {
    rule: SegmentRule,
    large_pages: bool,
}

/// All options of the policy "segment".
pub const SEGMENT_OPTIONS: &[PolicyOption] = &[
    option("min", "SIZE", "64M", "least size of an area that becomes a segment"),
    option("pages", "4k|2m", "4k", "what backs memory outside the segment (2m: as thp)"),
    option("compact", "yes|no", "no", "move things for it at the first touch, not only later"),
    option("base", "ADDRESS", "none", "BASE of the segment; with limit, it is exactly there"),
    option("limit", "ADDRESS", "none", "LIMIT of the segment, the first byte after it"),
    option("escapes", "N", "16", "most pages that escape: faulty frames, guard pages"),
];

impl SegmentPolicy {
    pub(super) fn from_options(options: &[(&str, &str)]) -> Result<Self, String> {
        let mut policy = Self::default();
        let (mut base, mut limit) = (None, None);
        for &(key, value) in options {
            match key {
                "base" => base = parse_address(key, value)?,
                "limit" => limit = parse_address(key, value)?,
                "min" => {
                    let bytes = parse_size(value).filter(|&bytes| bytes > 0);
                    policy.rule.min_bytes = bytes
                        .ok_or_else(|| format!("min is a size such as 64M, not \"{value}\""))?;
                }
                "pages" => match value {
                    "4k" => policy.large_pages = false,
                    "2m" => policy.large_pages = true,
                    _ => return Err(format!("pages is 4k or 2m, not \"{value}\"")),
                },
                "compact" => match value {
                    "yes" => policy.rule.compacts = true,
                    "no" => policy.rule.compacts = false,
                    _ => return Err(format!("compact is yes or no, not \"{value}\"")),
                },
                "escapes" => match value.parse() {
                    Ok(pages) => policy.rule.faulty_pages = pages,
                    Err(_) => {
                        return Err(format!("escapes is a number of pages, not \"{value}\""));
                    }
                },
                _ => return Err(format!("it has no option \"{key}\"")),
            }
        }
        policy.rule.bounds = bounds(base, limit)?;
        Ok(policy)
    }
}

/// An address of a page; `none` for none.
fn parse_address(key: &str, text: &str) -> Result<Option<u64>, String> {
    if text == "none" {
        return Ok(None);
    }
    let address = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match address {
        Ok(address) if address % 4096 == 0 && address <= 1 << 47 => Ok(Some(address)),
        _ => Err(format!("{key} is an address of a page such as 0x7f0000200000, not \"{text}\"")),
    }
}

/// BASE and LIMIT belong together; where they are equal, there is no segment (D §III).
fn bounds(base: Option<u64>, limit: Option<u64>) -> Result<Option<(u64, u64)>, String> {
    match (base, limit) {
        (None, None) => Ok(None),
        (Some(base), Some(limit)) if limit < base => {
            Err(format!("limit {limit:#x} is less than base {base:#x}"))
        }
        (Some(base), Some(limit)) => Ok(Some((base, limit))),
        (Some(_), None) => Err("base needs limit, the first byte after the segment".into()),
        (None, Some(_)) => Err("limit needs base, the first byte of the segment".into()),
    }
}

impl Policy for SegmentPolicy {
    fn name(&self) -> &'static str {
        "segment"
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![&self.rule]
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        if self.large_pages && holes.is_empty() { BlockUse::Large } else { BlockUse::Pages }
    }
}
