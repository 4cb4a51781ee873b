//! The policy "segment" (D §II.B).

use std::any::Any;

use perforate_config::ConfigError;
use perforate_os::mechanism::Backer;
use perforate_os::{BlockUse, Policy, SmallPages, described};
use perforate_types::HoleSet;

use super::SegmentOptions;
use super::kernel::Segments;

/// Conditions for a direct segment, from [`SegmentOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRule {
    /// Minimum size of an area that gets a segment, in bytes.
    pub min_bytes: u64,
    /// True if pages may be migrated at the first touch of an area to obtain contiguous memory.
    /// Creation in the background may always migrate pages.
    pub compacts: bool,
    /// Maximum number of escaped pages of a segment. Pages escape for faulty frames in the
    /// segment's memory and for permissions that differ from the segment's.
    pub faulty_pages: u64,
    /// BASE and LIMIT in bytes, if prescribed: the segment covers exactly this part of an area,
    /// whatever its size. If both are equal, there is no segment.
    pub bounds: Option<(u64, u64)>,
}

impl Default for SegmentRule {
    fn default() -> Self {
        SegmentOptions::DEFAULT.rule().expect("the default is sound")
    }
}

/// Policy with a direct segment for the first large area, and 4KB or 2MB pages for other memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPolicy {
    options: SegmentOptions,
    rule: SegmentRule,
}

impl SegmentPolicy {
    /// Creates a policy with these options.
    ///
    /// # Errors
    /// If options contradict each other.
    pub fn new(options: SegmentOptions) -> Result<Self, ConfigError> {
        Ok(Self { options, rule: options.rule()? })
    }
}

impl Policy for SegmentPolicy {
    fn name(&self) -> &'static str {
        "segment"
    }

    fn describe(&self) -> String {
        described(self.name(), &self.options)
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![&self.rule]
    }

    fn backers(&self) -> Vec<Box<dyn Backer>> {
        vec![Box::new(Segments::new(Some(self.rule), self.options.pages == SmallPages::Size2M))]
    }

    fn use_block(&self, holes: &HoleSet) -> BlockUse {
        match self.options.pages {
            SmallPages::Size2M if holes.is_empty() => BlockUse::Large,
            _ => BlockUse::Pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::read;

    use super::*;
    use crate::listed;

    #[test]
    fn whole_and_fragmented_blocks() {
        let policy = SegmentPolicy::new(read("pages=2m").unwrap()).unwrap();
        assert_eq!(policy.use_block(&HoleSet::EMPTY), BlockUse::Large);
        assert_eq!(policy.use_block(&(0..128).collect()), BlockUse::Pages);
        assert_eq!(policy.use_block(&HoleSet::FULL), BlockUse::Pages);
    }

    #[test]
    fn describe_lists_only_changed_options() {
        let segment = SegmentPolicy::new(read("escapes=16,pages=2m").unwrap()).unwrap();
        assert_eq!(segment.describe(), "segment:pages=2m");
    }

    #[test]
    fn all_options_are_listed_with_their_defaults() {
        assert_eq!(
            listed::<SegmentOptions>(),
            [
                "min=SIZE [64M]",
                "pages=4k|2m [4k]",
                "compact=yes|no [no]",
                "base=ADDRESS [none]",
                "limit=ADDRESS [none]",
                "escapes=N [16]",
            ]
        );
    }

    #[test]
    fn wrong_options_are_explained() {
        let segment = |text: &str| read(text).and_then(SegmentPolicy::new).map(|_| ());
        for (options, problem) in [
            ("base=0x2000,limit=0x1000", "limit 0x1000 is less than base 0x2000"),
            ("base=0x2000", "base needs limit"),
            ("limit=0x2000", "limit needs base"),
            ("base=7,limit=0x1000", "base: expected the address of a page such as"),
            ("min=64", "min: 64 has no unit: 64M or 64G?"),
            ("min=0M", "min: is more than 0"),
            ("pages=1g", "pages: expected 4k or 2m, not \"1g\""),
            ("escape=4", "there is no \"escape\"; did you mean escapes?"),
        ] {
            let error = segment(options).expect_err(problem).to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
