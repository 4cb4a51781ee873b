//! Policies: which page size backs a first touch, and what becomes of a large page of which a
//! part changes.
//!
//! A new policy is one file with an `impl Policy`, and one with its options if it has any.

mod base_pages;
mod huge_1g;
mod perforated;
mod perforation_options;
mod promotion;
mod thp;

use std::any::Any;

use perforate_config::{Options, write_changed};
use perforate_types::HoleSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanism::{Backer, FreeIndex};
use crate::{OsError, TableFormat};
pub use base_pages::BasePages;
pub use huge_1g::{Huge1G, HugePageRule};
pub use perforated::Perforated;
pub use perforation_options::{BlockCreation, PerforationOptions};
pub use promotion::{Promotion, PromotionChoices, PromotionPrice, PromotionRule};
pub use thp::Thp;

/// When the frames of a new perforated page's holes are allocated (P §VI).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HoleAllocation {
    /// With the page.
    Eager,
    /// On the first touch of each hole.
    Lazy,
}

/// Backing of memory beside larger mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SmallPages {
    /// 4KB pages.
    #[serde(rename = "4k")]
    Size4K,
    /// 2MB pages where a whole block can be had, else 4KB pages.
    #[serde(rename = "2m")]
    Size2M,
}

/// Use of a 2MB block for a region on its first touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockUse {
    /// Not at all: the block goes back, the region gets 4KB pages.
    Pages,
    /// As an ordinary 2MB page; only without holes.
    Large,
    /// As a perforated page.
    Perforated(HoleAllocation),
}

/// Chooses page sizes. One object per kernel, chosen by configuration.
///
/// The trait has what any policy can say of 2MB blocks, as most mechanisms fall back on them. What
/// only one mechanism asks for stands in a rule of that mechanism, which the policies that use it
/// hand out.
pub trait Policy: Send {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Its name and the options that are not the default, as results keep them.
    fn describe(&self) -> String {
        self.name().into()
    }

    /// Whether only areas that the program advised (MADV_HUGEPAGE) get large pages.
    fn needs_advice(&self) -> bool {
        false
    }

    /// The rules of the mechanisms that it uses besides 4KB and 2MB pages: [`HugePageRule`],
    /// [`Perforated`], and what rules mechanisms outside this crate have.
    fn rules(&self) -> Vec<&dyn Any> {
        Vec::new()
    }

    /// The mechanisms of its own that map memory, asked before 2MB pages are thought of.
    fn backers(&self) -> Vec<Box<dyn Backer>> {
        Vec::new()
    }

    /// What its mechanism keeps about free memory of `end_frame` frames. With injected fragmentation
    /// it is the mechanism that says where to draw it.
    ///
    /// # Errors
    /// If the policy does not fit the page tables or the memory.
    fn free_index(
        &self,
        _tables: TableFormat,
        _end_frame: u64,
        _is_fragmented: bool,
    ) -> Result<Option<Box<dyn FreeIndex>>, OsError> {
        Ok(None)
    }

    /// How a 2MB block whose frames `holes` are occupied by others is to back a region that is
    /// eligible for large pages. [`BlockUse::Perforated`] needs page tables with shadow
    /// directories.
    fn use_block(&self, holes: &HoleSet) -> BlockUse;

    /// The ways of background promotion that the kernel is to look for; none: it does not scan.
    /// Ways that punch need page tables with shadow directories.
    fn promotions(&self) -> &'static [Promotion] {
        match self.use_block(&HoleSet::EMPTY) {
            BlockUse::Large => &[Promotion::Collapse],
            BlockUse::Pages | BlockUse::Perforated(_) => &[],
        }
    }

    /// The choice of background promotion for a region of 4KB pages: one of those that there are, or
    /// none.
    fn promote(&self, choices: &PromotionChoices) -> Option<Promotion> {
        choices.cheapest(self.promotions(), 0.0)
    }
}

impl dyn Policy + '_ {
    /// Its rule for one mechanism; `None` where it does not use that.
    pub fn rule<R: Any>(&self) -> Option<&R> {
        self.rules().into_iter().find_map(<dyn Any>::downcast_ref)
    }

    /// Whether whole blocks are ordinary 2MB pages.
    pub fn maps_large(&self) -> bool {
        self.use_block(&HoleSet::EMPTY) == BlockUse::Large
    }
}

/// A policy's name and the options that are not the default.
pub fn described<T: Options + Default>(name: &str, options: &T) -> String {
    let changed = write_changed(options, &T::default());
    if changed.is_empty() { name.into() } else { format!("{name}:{changed}") }
}

#[cfg(test)]
mod tests {
    use perforate_config::{keys, read};

    use super::*;

    fn first(count: usize) -> HoleSet {
        (0..count).collect()
    }

    fn perforated(options: &str) -> Perforated {
        Perforated::new(read(options).expect(options)).expect(options)
    }

    #[test]
    fn whole_and_fragmented_blocks() {
        let fragmented = BlockUse::Perforated(HoleAllocation::Eager);
        let policies: [(Box<dyn Policy>, BlockUse, BlockUse); 4] = [
            (Box::new(BasePages), BlockUse::Pages, BlockUse::Pages),
            (Box::new(Thp::new("thp")), BlockUse::Large, BlockUse::Pages),
            (Box::new(Huge1G), BlockUse::Large, BlockUse::Pages),
            (Box::new(perforated("default")), BlockUse::Large, fragmented),
        ];
        for (policy, whole, fragmented) in policies {
            let name = policy.name();
            assert_eq!(policy.use_block(&HoleSet::EMPTY), whole, "{name}");
            assert_eq!(policy.use_block(&first(128)), fragmented, "{name}");
            let nothing_in_place = policy.use_block(&HoleSet::FULL);
            assert_eq!(nothing_in_place, BlockUse::Pages, "{name}");
        }
    }

    #[test]
    fn thresholds_of_section_iii_c() {
        let policy = perforated("max-hole-share=25%,max-filter-bits=4,holes=lazy");
        let lazy = BlockUse::Perforated(HoleAllocation::Lazy);
        // Less than 25 % of 512 frames: at most 127; those of one run lie in two regions.
        assert_eq!(policy.use_block(&first(127)), lazy);
        assert_eq!(policy.use_block(&first(128)), BlockUse::Pages);
        // One hole in each of four 256KB regions is allowed, in five not.
        assert_eq!(policy.use_block(&(0..4).map(|region| region * 64).collect()), lazy);
        let five = (0..5).map(|region| region * 64).collect();
        assert_eq!(policy.use_block(&five), BlockUse::Pages);
    }

    #[test]
    fn policies_are_described_by_what_is_not_the_default() {
        assert_eq!(perforated("default").describe(), "perforated");
        let selective = Perforated::new(PerforationOptions::SELECTIVE).unwrap();
        assert_eq!(selective.describe(), "perforated:max-hole-share=25%,max-filter-bits=4");
    }

    #[test]
    fn all_options_are_listed_with_their_defaults() {
        let line = |key: perforate_config::Key| {
            assert!(!key.help.is_empty(), "{}", key.name);
            format!("{}={} [{}]", key.name, key.form, key.default)
        };
        let perforation = keys::<PerforationOptions>().into_iter().map(line);
        assert_eq!(
            perforation.collect::<Vec<_>>(),
            [
                "max-hole-share=S% [100%]",
                "max-filter-bits=0-8 [8]",
                "holes=eager|lazy [eager]",
                "create=whole|reserve [whole]",
                "demote-above=S% [100%]",
                "promote=cheapest|collapse|punch|never [cheapest]",
                "hole-cost=N [2]",
            ]
        );
    }

    #[test]
    fn wrong_options_are_explained() {
        let perforated = |text: &str| read(text).and_then(Perforated::new).map(|_| ());
        for (outcome, problem) in [
            (perforated("holes"), "holes: expected eager or lazy, not \"holes\""),
            (perforated("holes=soon"), "holes: expected eager or lazy, not \"soon\""),
            (perforated("max-filter-bits=9"), "max-filter-bits: is at most 8, not 9"),
            (perforated("create=later"), "create: expected whole or reserve, not \"later\""),
            (
                perforated("max-hole-share=25%,demote-above=20%"),
                "demote-above=20% is less than max-hole-share=25%",
            ),
            (perforated("promote=always"), "promote: expected cheapest, collapse, punch or never"),
            (
                perforated("hole-cost=-1"),
                "hole-cost: is a number of frame copies from 0 on, not -1",
            ),
            (perforated("holes=lazy,holes=eager"), "holes is given twice"),
        ] {
            let error = outcome.expect_err(problem).to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
