//! Policies: the page size for a first touch, and the treatment of a large page when a part of it
//! changes.
//!
//! A new policy is an `impl Policy` in a separate file, or a script.

mod conventional;
mod folios;
mod laid_out;
mod orders;
mod promotion;

use std::any::Any;

use perforate_config::{Options, write_changed};
use perforate_types::{Counters, HoleSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanism::{Attributes, Backer, FreeIndex, HoledPages, PhysicalMemory};
use crate::{OsError, TableFormat};
pub use conventional::{BasePages, Huge1G, HugePageRule, Thp};
pub use folios::{FolioSizes, FolioUse, Mthp};
pub use laid_out::{LaidOut, PageLayout};
pub use orders::{OrderPurpose, OrderRequest, Orders, Victim};
pub use promotion::{Promotion, PromotionChoices, PromotionPrice, PromotionRule};

/// Time at which the frames for the holes of a new 2MB page are allocated (P §VI).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HoleAllocation {
    /// At the creation of the page.
    Eager,
    /// On the first touch of each hole.
    Lazy,
}

/// Page sizes of the memory that a mechanism's larger mappings do not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SmallPages {
    /// 4KB pages.
    #[serde(rename = "4k")]
    Size4K,
    /// 2MB pages where a whole block is free, otherwise 4KB pages.
    #[serde(rename = "2m")]
    Size2M,
}

/// Use of a 2MB block of frames for a 2MB region, decided at the first touch of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockUse {
    /// The block is freed, and the 2MB region gets 4KB pages.
    Pages,
    /// The block becomes an ordinary 2MB page. Requires a block without holes.
    Large,
    /// The block becomes a 2MB page with holes. The value says when frames for the holes are
    /// allocated.
    WithHoles(HoleAllocation),
}

/// A policy's decisions about perforated pages (2MB pages with holes).
pub trait HoleRule {
    /// Implementation of the kernel's operations on 2MB pages with holes.
    fn pages(&self) -> &'static dyn HoledPages;

    /// True if the kernel must at first only reserve a 2MB block, and map sub-pages as they are touched (P
    /// §VI).
    fn reserves(&self) -> bool;

    /// True if a 2MB page with these holes must be demoted to 4KB pages. The kernel calls this function after
    /// sub-pages were punched out of the page.
    fn demotes(&self, holes: &HoleSet) -> bool;

    /// True if khugepaged should patch a hole at this cost in frame copies. The copies are that of
    /// the hole's data, and the migration of other data out of its in-place frame.
    fn patches(&self, frames_copied: u64) -> bool;
}

/// A policy of page sizes. Each kernel has one object, chosen by configuration.
///
/// The trait has the decisions about 2MB blocks that every policy can make, because most mechanisms use 2MB
/// blocks as a fallback. Decisions that concern a single mechanism, such as direct segments, are values of
/// types that the mechanism defines (its *rules*). Policies that use the mechanism return them from
/// [`Policy::rules`].
pub trait Policy: Send {
    /// Name of the policy in configuration files and results.
    fn name(&self) -> &'static str;

    /// Name and the options that differ from the default, as results store them.
    fn describe(&self) -> String {
        self.name().into()
    }

    /// True if only memory areas that the program advised (MADV_HUGEPAGE) get pages larger than 4KB.
    fn needs_advice(&self) -> bool {
        false
    }

    /// True if the program's advice (madvise) allows mappings larger than 4KB in a memory area.
    fn wants_large(&self, attributes: &Attributes) -> bool {
        attributes.is_advised() || !self.needs_advice()
    }

    /// Page sizes (orders) that may back the requested page or 2MB region, a subset of `request.offered`. The
    /// kernel takes the largest for which free memory exists. Folios of 16KB to 1MB are no part of the
    /// question: which an area may have is a matter of [`FolioSizes`].
    fn orders_for(&self, request: &OrderRequest<'_>) -> Orders {
        if self.wants_large(&request.area.attributes) { request.offered } else { Orders::BASE }
    }

    /// True if reclaim may take the pages of a 2MB region now. If false, reclaim tries the following regions
    /// first, and takes this region only if the policy refuses all regions.
    fn reclaims(&self, _victim: &Victim<'_>) -> bool {
        true
    }

    /// The policy's decisions about 2MB pages with holes; `None` if it makes no such pages.
    fn hole_rule(&self) -> Option<&dyn HoleRule> {
        None
    }

    /// Rules (decisions that concern one mechanism) of the mechanisms that the policy uses besides 4KB and
    /// 2MB pages: [`HugePageRule`], [`PageLayout`], [`FolioSizes`], and types from outside this crate.
    fn rules(&self) -> Vec<&dyn Any> {
        Vec::new()
    }

    /// Backers (mechanisms that map memory on first touches) that the policy uses. The kernel tries them in
    /// this order, before 2MB pages.
    fn backers(&self) -> Vec<Box<dyn Backer>> {
        Vec::new()
    }

    /// Format of the page tables of a new process. `tables` is the format that the kernel was
    /// configured with. A forked process has the format of its parent.
    fn table_format(&self, tables: TableFormat, _memory: &PhysicalMemory) -> TableFormat {
        tables
    }

    /// Index of free memory that the policy's mechanism keeps besides the buddy allocator; `None` if it needs
    /// none. Memory ends at frame `end_frame`. If `is_fragmented` is true, the option `fragmentation` is set,
    /// and the mechanism chooses the frames for its holes.
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

    /// Decides how to use a 2MB block for a region that is eligible for large pages. The frames in `holes`
    /// are in use by others. [`BlockUse::WithHoles`] needs page tables that support holes.
    fn use_block(&self, _holes: &HoleSet) -> BlockUse {
        BlockUse::Pages
    }

    /// Kinds of background promotion that khugepaged looks for. If empty, it does not scan. A
    /// promotion to a 2MB page with holes needs page tables that map each hole by a 4KB entry of its own.
    fn promotions(&self) -> &'static [Promotion] {
        match self.use_block(&HoleSet::EMPTY) {
            BlockUse::Large => &[Promotion::Collapse],
            BlockUse::Pages | BlockUse::WithHoles(_) => &[],
        }
    }

    /// Selects one of the possible promotions for a region of 4KB pages; `None` leaves the region
    /// unchanged.
    fn promote(&self, choices: &PromotionChoices) -> Option<Promotion> {
        choices.cheapest(self.promotions(), 0.0)
    }

    /// Error that made the policy unusable, with which the kernel ends the current operation. The policy
    /// must still return decisions, so that the kernel can complete the operation.
    fn failure(&self) -> Option<OsError> {
        None
    }

    /// Writes the counters of the policy to `out`.
    fn counters(&self, _out: &mut Counters) {}
}

impl dyn Policy + '_ {
    /// The policy's rule (decisions about one mechanism) of type `R`; `None` without that mechanism.
    pub fn rule<R: Any>(&self) -> Option<&R> {
        self.rules().into_iter().find_map(<dyn Any>::downcast_ref)
    }

    /// True if the policy maps a block without holes as an ordinary 2MB page.
    pub fn maps_large(&self) -> bool {
        self.use_block(&HoleSet::EMPTY) == BlockUse::Large
    }
}

/// Formats a policy's name and those options that differ from the default.
pub fn described<T: Options + Default>(name: &str, options: &T) -> String {
    let changed = write_changed(options, &T::default());
    if changed.is_empty() { name.into() } else { format!("{name}:{changed}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_and_fragmented_blocks() {
        let policies: [(Box<dyn Policy>, BlockUse); 3] = [
            (Box::new(BasePages), BlockUse::Pages),
            (Box::new(Thp::new("thp")), BlockUse::Large),
            (Box::new(Huge1G), BlockUse::Large),
        ];
        for (policy, whole) in policies {
            let name = policy.name();
            assert_eq!(policy.use_block(&HoleSet::EMPTY), whole, "{name}");
            assert_eq!(policy.use_block(&(0..128).collect()), BlockUse::Pages, "{name}");
            assert_eq!(policy.use_block(&HoleSet::FULL), BlockUse::Pages, "{name}");
        }
    }

    #[test]
    fn policies_say_what_they_want_and_promote() {
        use perforate_types::{Backing, PageSize, Permissions};

        use crate::mechanism::LargePageAdvice;
        let madvise = || Thp { needs_advice: true, ..Thp::new("thp-madvise") };
        let layout = PageLayout::new([(0..2 << 20, PageSize::Size2M)]);
        let laid_out = |name: &str| LaidOut { layout: layout.clone(), name: name.into() };
        let mthp = || Mthp { name: "mthp", sizes: FolioSizes::always(4) };
        let policies: [(Box<dyn Policy>, _, _, _, _); 7] = [
            (Box::new(BasePages), "base-pages", true, false, [false; 3]),
            (Box::new(Thp::new("thp")), "thp", true, true, [false; 3]),
            (Box::new(madvise()), "thp-madvise", false, true, [false; 3]),
            (Box::new(Huge1G), "huge-1g", true, true, [true, false, false]),
            (Box::new(laid_out("")), "layout", true, false, [false, true, false]),
            (Box::new(laid_out("mine")), "layout:mine", true, false, [false, true, false]),
            (Box::new(mthp()), "mthp", true, false, [false, false, true]),
        ];
        for (policy, name, wants_unadvised, maps_large, rules) in policies {
            assert_eq!(policy.describe(), name);
            let plain = Attributes::private(Permissions::READ_WRITE, Backing::Anonymous);
            let advised = Attributes { large_pages: LargePageAdvice::Wanted, ..plain };
            let wants = [plain, advised].map(|attributes| policy.wants_large(&attributes));
            assert_eq!(wants, [wants_unadvised, true], "{name}");
            assert_eq!(policy.needs_advice(), !wants_unadvised, "{name}");
            assert_eq!(policy.maps_large(), maps_large, "{name}");
            let promotions: &[Promotion] = if maps_large { &[Promotion::Collapse] } else { &[] };
            assert_eq!(policy.promotions(), promotions, "{name}");
            let has = [
                policy.rule::<HugePageRule>().is_some(),
                policy.rule::<PageLayout>().is_some(),
                policy.rule::<FolioSizes>().is_some(),
            ];
            assert_eq!(has, rules, "{name}");
            let victim = Victim { area: None, number: 0, pages: 1, is_large: false, holes: 0 };
            assert!(policy.reclaims(&victim) && policy.failure().is_none());
            assert!(policy.hole_rule().is_none() && policy.backers().is_empty());
        }
    }
}
