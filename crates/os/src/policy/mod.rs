//! Policies: which page size backs a first touch, and what becomes of a large page of which a
//! part changes.
//!
//! A new policy is one file with an `impl Policy`, and one with its options if it has any.

mod base_pages;
mod huge_1g;
mod laid_out;
mod orders;
mod promotion;
mod thp;

use std::any::Any;

use perforate_config::{Options, write_changed};
use perforate_types::{Counters, HoleSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanism::{Attributes, Backer, FreeIndex, HoledPages, PhysicalMemory};
use crate::{OsError, TableFormat};
pub use base_pages::BasePages;
pub use huge_1g::{Huge1G, HugePageRule};
pub use laid_out::{LaidOut, PageLayout};
pub use orders::{OrderPurpose, OrderRequest, Orders, Victim};
pub use promotion::{Promotion, PromotionChoices, PromotionPrice, PromotionRule};
pub use thp::Thp;

/// When the frames of the holes of a new 2MB page are allocated (P §VI).
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
    /// As a 2MB page around the holes.
    WithHoles(HoleAllocation),
}

/// A policy's choices about 2MB pages with holes.
pub trait HoleRule {
    /// How they are made and kept.
    fn pages(&self) -> &'static dyn HoledPages;

    /// Whether a block is only reserved at first, and its sub-pages mapped as they are touched
    /// (P §VI).
    fn reserves(&self) -> bool;

    /// Whether a page with these holes is to become 4KB pages. Asked when sub-pages were punched out
    /// of it.
    fn demotes(&self, holes: &HoleSet) -> bool;

    /// Whether khugepaged is to patch a hole at the price of this many frame copies: the hole's own
    /// data, and what has to move out of their place.
    fn patches(&self, frames_copied: u64) -> bool;
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

    /// Whether an area may have more than 4KB mapped as one, as far as its advice goes.
    fn wants_large(&self, attributes: &Attributes) -> bool {
        attributes.is_advised() || !self.needs_advice()
    }

    /// The orders that memory is to have, out of those that are offered: the largest of which there is
    /// memory is taken.
    fn orders_for(&self, request: &OrderRequest<'_>) -> Orders {
        if self.wants_large(&request.area.attributes) { request.offered } else { Orders::BASE }
    }

    /// Whether reclaim takes a region when its turn comes; else the next ones are asked for, and it is
    /// taken if all are spared.
    fn reclaims(&self, _victim: &Victim<'_>) -> bool {
        true
    }

    /// How it has 2MB pages with holes, if it does.
    fn hole_rule(&self) -> Option<&dyn HoleRule> {
        None
    }

    /// The rules of the mechanisms that it uses besides 4KB and 2MB pages: [`HugePageRule`],
    /// [`PageLayout`], and what rules mechanisms outside this crate have.
    fn rules(&self) -> Vec<&dyn Any> {
        Vec::new()
    }

    /// The mechanisms of its own that map memory, asked before 2MB pages are thought of.
    fn backers(&self) -> Vec<Box<dyn Backer>> {
        Vec::new()
    }

    /// The format of a new process's page tables, where `tables` is what the kernel was made with. A
    /// forked one has its parent's.
    fn table_format(&self, tables: TableFormat, _memory: &PhysicalMemory) -> TableFormat {
        tables
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
    /// eligible for large pages. [`BlockUse::WithHoles`] needs page tables with shadow
    /// directories.
    fn use_block(&self, holes: &HoleSet) -> BlockUse;

    /// The ways of background promotion that the kernel is to look for; none: it does not scan.
    /// Ways that punch need page tables with shadow directories.
    fn promotions(&self) -> &'static [Promotion] {
        match self.use_block(&HoleSet::EMPTY) {
            BlockUse::Large => &[Promotion::Collapse],
            BlockUse::Pages | BlockUse::WithHoles(_) => &[],
        }
    }

    /// The choice of background promotion for a region of 4KB pages: one of those that there are, or
    /// none.
    fn promote(&self, choices: &PromotionChoices) -> Option<Promotion> {
        choices.cheapest(self.promotions(), 0.0)
    }

    /// Why its answers are none since it was asked: what asked it is to stop. Answers are given all the
    /// same, so that the kernel ends what it is at.
    fn failure(&self) -> Option<OsError> {
        None
    }

    /// Writes its own figures.
    fn counters(&self, _out: &mut Counters) {}
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
}
