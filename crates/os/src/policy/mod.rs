//! Policies: which page size backs a first touch, and what becomes of a large page of which a
//! part changes.
//!
//! A new policy is one file with an `impl Policy` and one line in [`POLICIES`].

mod base_pages;
mod gap_tolerant;
mod huge_1g;
mod option;
mod perforated;
mod promotion;
mod segment;
mod thp;

use std::any::Any;

use perforate_types::HoleSet;

use crate::OsError;
pub use base_pages::BasePages;
pub use gap_tolerant::{GAP_TOLERANT_OPTIONS, GapTolerant, SuperpageRule};
pub use huge_1g::{Huge1G, HugePageRule};
pub use option::PolicyOption;
pub use perforated::{PERFORATION_OPTIONS, Perforated};
pub use promotion::{Promotion, PromotionChoices, PromotionPrice, PromotionRule};
pub use segment::{SEGMENT_OPTIONS, SegmentPolicy, SegmentRule};
pub use thp::Thp;

/// When the frames of a new perforated page's holes are allocated (P §VI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoleAllocation {
    /// With the page.
    Eager,
    /// On the first touch of each hole.
    Lazy,
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
    /// The name it is registered under.
    fn name(&self) -> &'static str;

    /// Whether only areas that the program advised (MADV_HUGEPAGE) get large pages.
    fn needs_advice(&self) -> bool {
        false
    }

    /// The rules of the mechanisms that it uses besides 4KB and 2MB pages: [`HugePageRule`],
    /// [`Perforated`], [`SegmentRule`], [`SuperpageRule`].
    fn rules(&self) -> Vec<&dyn Any> {
        Vec::new()
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

/// A registered policy.
pub struct PolicyEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Makes the policy from its options, `key=value` pairs.
    make: Make,
}

type Make = fn(&[(&str, &str)]) -> Result<Box<dyn Policy>, String>;

/// All policies.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "base-pages",
        summary: "4KB pages only",
        make: |options| no_options(options, BasePages),
    },
    PolicyEntry {
        name: "thp",
        summary: "transparent large pages, always: 2MB where a whole block can be had, else 4KB",
        make: |options| no_options(options, Thp::new("thp")),
    },
    PolicyEntry {
        name: "thp-madvise",
        summary: "as thp, but only where the program asked for large pages (MADV_HUGEPAGE)",
        make: |options| no_options(options, Thp { needs_advice: true, ..Thp::new("thp-madvise") }),
    },
    PolicyEntry {
        name: "huge-1g",
        summary: "1GB where contiguous memory can be had, else as thp",
        make: |options| no_options(options, Huge1G),
    },
    PolicyEntry {
        name: "perforated",
        summary: "2MB with holes where a block is fragmented (see its options)",
        make: |options| Ok(Box::new(Perforated::from_options(options)?)),
    },
    PolicyEntry {
        name: "gap-tolerant",
        summary: "gap-tolerant superpages where a slice can be had (see its options), else 4KB",
        make: |options| Ok(Box::new(GapTolerant::from_options(options)?)),
    },
    PolicyEntry {
        name: "segment",
        summary: "a direct segment for the first large area (see its options), pages elsewhere",
        make: |options| Ok(Box::new(SegmentPolicy::from_options(options)?)),
    },
    PolicyEntry {
        name: "ideal",
        summary: "thp, to be run on memory without fragmentation",
        make: |options| no_options(options, Thp::new("ideal")),
    },
];

/// Makes the policy named in `text`: `name` or `name:key=value,…`, for example
/// `perforated:max-hole-share=25%,max-filter-bits=4,holes=lazy`.
///
/// # Errors
/// If there is no such policy or option, or its value makes no sense.
pub fn parse_policy(text: &str) -> Result<Box<dyn Policy>, OsError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let Some(entry) = POLICIES.iter().find(|entry| entry.name == name) else {
        let known: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
        let (name, known) = (name.to_string(), known.join(", "));
        return Err(OsError::UnknownPolicy { name, known });
    };
    let invalid = |reason| OsError::InvalidPolicy { text: text.to_string(), reason };
    (entry.make)(&split_options(rest).map_err(invalid)?).map_err(invalid)
}

/// Keys and values of `key=value,…`.
fn split_options(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let options = text.split(',').filter(|option| !option.is_empty());
    options
        .map(|option| option.split_once('=').ok_or_else(|| format!("\"{option}\" has no value")))
        .collect()
}

fn no_options(
    options: &[(&str, &str)],
    policy: impl Policy + 'static,
) -> Result<Box<dyn Policy>, String> {
    match options.first() {
        None => Ok(Box::new(policy)),
        Some((key, _)) => Err(format!("it has no option \"{key}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(count: usize) -> HoleSet {
        (0..count).collect()
    }

    #[test]
    fn every_registered_policy_can_be_made_by_its_name() {
        for entry in POLICIES {
            assert_eq!(parse_policy(entry.name).unwrap().name(), entry.name);
            assert!(!entry.summary.is_empty());
        }
    }

    #[test]
    fn whole_and_fragmented_blocks() {
        let perforated = BlockUse::Perforated(HoleAllocation::Eager);
        for (name, whole, fragmented) in [
            ("base-pages", BlockUse::Pages, BlockUse::Pages),
            ("thp", BlockUse::Large, BlockUse::Pages),
            ("thp-madvise", BlockUse::Large, BlockUse::Pages),
            ("huge-1g", BlockUse::Large, BlockUse::Pages),
            ("ideal", BlockUse::Large, BlockUse::Pages),
            ("perforated", BlockUse::Large, perforated),
        ] {
            let policy = parse_policy(name).unwrap();
            assert_eq!(policy.use_block(&HoleSet::EMPTY), whole, "{name}");
            assert_eq!(policy.use_block(&first(128)), fragmented, "{name}");
            assert_eq!(
                policy.use_block(&HoleSet::FULL),
                BlockUse::Pages,
                "{name}: nothing in place"
            );
        }
    }

    #[test]
    fn thresholds_of_section_iii_c() {
        let text = "perforated:max-hole-share=25%,max-filter-bits=4,holes=lazy";
        let policy = parse_policy(text).unwrap();
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
    fn listed_options_exist_and_take_their_defaults() {
        for option in PERFORATION_OPTIONS {
            parse_policy(&format!("perforated:{}={}", option.name, option.default)).unwrap();
        }
        for option in GAP_TOLERANT_OPTIONS {
            parse_policy(&format!("gap-tolerant:{}={}", option.name, option.default)).unwrap();
        }
        for option in SEGMENT_OPTIONS {
            parse_policy(&format!("segment:{}={}", option.name, option.default)).unwrap();
        }
    }

    #[test]
    fn wrong_policies_are_explained() {
        for (text, reason) in [
            (
                "huge",
                "there are base-pages, thp, thp-madvise, huge-1g, perforated, gap-tolerant, \
                 segment, ideal",
            ),
            ("gap-tolerant:pages=2m", "either 2MB-page PDEs or GT-PDEs, never both"),
            ("gap-tolerant:bs=6", "GT=1, P=0, BS=6 is no mode of G Table 3"),
            ("gap-tolerant:bs=big", "bs is 3, 4 or 5, not \"big\""),
            ("gap-tolerant:paired=maybe", "paired is yes or no, not \"maybe\""),
            ("gap-tolerant:least-blocks=31", "least-blocks is 32 to 64, not \"31\""),
            ("gap-tolerant:from=1G,to=1G", "to is more than from: no slice lies between them"),
            ("gap-tolerant:to=soon", "to is a size such as 4G, not \"soon\""),
            ("segment:base=0x2000,limit=0x1000", "limit 0x1000 is less than base 0x2000"),
            ("segment:base=0x2000", "base needs limit"),
            ("segment:base=7,limit=0x1000", "base is an address of a page such as 0x7f0000200000"),
            ("thp:size=4", "it has no option \"size\""),
            ("perforated:holes", "\"holes\" has no value"),
            ("perforated:holes=soon", "holes is eager or lazy, not \"soon\""),
            ("perforated:max-filter-bits=9", "max-filter-bits is 0 to 8, not \"9\""),
            ("perforated:max-hole-share=101%", "101% is not between 0% and 100%"),
            ("perforated:create=later", "create is whole or reserve, not \"later\""),
            (
                "perforated:max-hole-share=25%,demote-above=20%",
                "demote-above=20% is less than max-hole-share=25%",
            ),
            ("perforated:promote=always", "promote is collapse, punch, cheapest or never, not"),
            ("perforated:hole-cost=-1", "hole-cost is a number of frame copies from 0 on, not"),
            ("perforated:hole-cost=inf", "hole-cost is a number of frame copies from 0 on, not"),
            ("segment:min=64", "min is a size such as 64M, not \"64\""),
            ("segment:min=0M", "min is a size such as 64M, not \"0M\""),
            ("segment:pages=1g", "pages is 4k or 2m, not \"1g\""),
            ("segment:compact=later", "compact is yes or no, not \"later\""),
            ("segment:escapes=many", "escapes is a number of pages, not \"many\""),
            ("segment:width=5", "it has no option \"width\""),
            ("perforated:colour=red", "it has no option \"colour\""),
        ] {
            let error = parse_policy(text).err().expect(text).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
