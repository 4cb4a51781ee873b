//! Checks of accessed and dirty bits in page tables.

use perforate_mmu::{CachedEntry, Case, Mmu, TableMemory, allow};
use perforate_types::{AccessKind, Frame, PageSize, PageTableEntry, SpaceId, VirtualPage};

use crate::truth::guest_frame;
use crate::{Attempt, Reference, Side};

/// True if the dirty bit of the page of a TLB entry is set in the page tables. For a combined entry
/// (gVA→hPA), the tables of guest and host must both have it.
pub(crate) fn is_dirty_in_tables(entry: &CachedEntry, page: VirtualPage, mmu: &Mmu) -> bool {
    let found = match mmu.dimension().host() {
        Some(host) if entry.is_guest_physical => host.look_at(guest_frame(page)),
        _ => mmu.dimension().look_at(entry.space, page),
    };
    found.is_some_and(|found| found.allows & allow::DIRTY != 0)
}

impl Reference {
    /// True if the page-directory entry of a page with holes has its dirty bit set; if virtualized, in the
    /// page tables of both guest and host.
    pub(crate) fn is_leaf_dirty(&self, entry: &CachedEntry, mmu: &Mmu) -> bool {
        let own = mmu.dimension();
        let machine = own.host().map(|host| (host.space(), host.dimension()));
        if let Some((space, host)) = machine
            && entry.is_guest_physical
        {
            let leaf = self.leaf(Side::Host, (space, entry.first), host.memory());
            return leaf.is_some_and(|(leaf, _)| leaf.is_dirty());
        }
        let side = if self.setup.is_shadowed { Side::Shadow } else { Side::Own };
        let Some((leaf, frame)) = self.leaf(side, (entry.space, entry.first), own.memory()) else {
            return false;
        };
        let Some((space, host)) = machine.filter(|_| !self.setup.is_shadowed) else {
            return leaf.is_dirty();
        };
        let page = VirtualPage::new(frame.number());
        let below = self.leaf(Side::Host, (space, page), host.memory());
        let is_clean = below.is_some_and(|(below, _)| !below.is_dirty());
        leaf.is_dirty() && !is_clean
    }

    /// Returns the 2MB or 1GB leaf entry, in the tables of `side`, that translates a page, and the page's
    /// frame.
    fn leaf(
        &self,
        side: Side,
        (space, page): (SpaceId, VirtualPage),
        memory: &TableMemory,
    ) -> Option<(PageTableEntry, Frame)> {
        [(PageSize::Size2M, 2), (PageSize::Size1G, 3)].into_iter().find_map(|(size, level)| {
            let node = self.nodes.find(side, space, level, page)?;
            let entry =
                memory.entry(node.address().add((page.number() >> (9 * (level - 1)) & 511) * 8));
            let is_leaf = entry.is_present() && entry.is_large();
            is_leaf.then(|| (entry, entry.leaf_frame(size).add(page.index_in(size) as u64)))
        })
    }

    /// Checks that the hardware's translation set the accessed bits on the path to the page in the page
    /// tables, and for a store the dirty bit.
    pub(crate) fn check_marks(&mut self, attempt: &Attempt<'_>, mmu: &Mmu) {
        let Ok(found) = attempt.result else { return };
        let (_, space) = mmu.running();
        let page = attempt.address.page();
        let dimension = mmu.dimension();
        if attempt.kind == AccessKind::Write {
            let reach = dimension.look_at(space, page);
            let is_dirty = reach.is_some_and(|reach| reach.allows & allow::DIRTY != 0);
            assert!(is_dirty, "a store to {page:?} of {space:?} has left no dirty bit");
        }
        let is_by_unit = matches!(found.case, Case::Beside | Case::BesideFirstLevel);
        // The walk reads the page-table entries of a run's other pages without setting accessed
        // bits; `mmu::coalescing` gives the reason.
        let may_be_run = !found.walked && self.setup.config.tlb.l2_coalescing.is_some();
        if attempt.steps.is_empty() || is_by_unit || may_be_run {
            return;
        }
        let side = if self.setup.is_shadowed { Side::Shadow } else { Side::Own };
        let last = if dimension.cached_leaf_pages().is_some() { 3 } else { 1 };
        let has_unit = dimension.sideband_tlb().is_some();
        if !has_unit {
            self.check_way(side, (space, page), last, dimension.memory());
        }
        let Some(host) = dimension.host().filter(|_| !self.setup.is_shadowed && !has_unit) else {
            return;
        };
        if host.dimension().sideband_tlb().is_some() {
            return;
        }
        let Some(frame) = self.truths.own_frame(space, page) else { return };
        let last = if host.dimension().cached_leaf_pages().is_some() { 3 } else { 1 };
        let place = (host.space(), VirtualPage::new(frame.number()));
        self.check_way(Side::Host, place, last, host.dimension().memory());
    }

    /// Checks that all page-table entries on the path to a page have the accessed bit, from the root to level
    /// `last` or a leaf. Flat tables have a single level, so there is no path.
    fn check_way(
        &self,
        side: Side,
        (space, page): (SpaceId, VirtualPage),
        last: u8,
        memory: &TableMemory,
    ) {
        for level in (last..=5).rev() {
            let Some(node) = self.nodes.find(side, space, level, page) else {
                if level == 5 {
                    continue;
                }
                return;
            };
            let index = page.number() >> (9 * (level - 1)) & 511;
            let entry = memory.entry(node.address().add(index * 8));
            if level >= 4 && side == Side::Host && !entry.is_present() {
                return;
            }
            assert!(
                entry.is_present() && entry.is_accessed(),
                "{page:?} of {space:?} was translated without a mark in level {level}: {entry:?}"
            );
            if entry.is_large() {
                return;
            }
        }
    }
}
