//! Hardware half: page tables, a range table, and a range TLB looked up in parallel with the
//! second-level TLB.

use perforate_mmu::{
    Capability, CapabilityKind, CapabilityMut, Dimension, DimensionLayer, Mark, Parked,
    PerCoreHardware, Reach, SidebandCounters, SidebandTlb, SidebandUse, TableMemory, WalkFault,
    WalkRequest, Walker, allow,
};
use perforate_types::{
    Action, Counters, FormatOperation, Frame, Purpose, Shootdown, SpaceId, Steps, Unit,
    VirtualPage, figures,
};

use super::table::{RangeEntry, RangeOperation, search};
use super::tlb::RangeTlb;
use crate::{Hardware, pages};

/// Builds ordinary page tables with a range table for each address space, and a range TLB.
pub(super) fn ranged(hardware: &Hardware<'_>) -> Box<dyn Dimension> {
    Box::new(Ranged::new(pages::radix(hardware), hardware.tlb.beside_entries))
}

/// Numbers of hits in and fills of the range TLB, and of searches of range tables.
pub(super) struct Uses {
    translations: u64,
    fills: u64,
    searches: u64,
}

figures! {
    pub(super) static RANGE_TLB: Uses, "Ranges" {
        /// First-level misses that hit in the range TLB.
        range_translations, Count, Listed: |it| it.translations;
        /// Entries filled into the range TLB.
        range_tlb_fills, Count, Listed: |it| it.fills;
        /// Searches of range tables, which run in the background after page walks.
        range_table_searches, Count, Listed: |it| it.searches;
    }
}

/// Page tables with a range table for each address space, and with the range TLB.
pub(super) struct Ranged {
    paging: Box<dyn Dimension>,
    /// Simulated memory with the range tables. The page tables in `paging` have another memory.
    memory: TableMemory,
    /// Root node of the range table of each address space. The operating system saves and restores
    /// this register at context switches.
    roots: Vec<Option<Frame>>,
    /// Range TLB of the running core.
    tlb: RangeTlb,
    parked: Parked<RangeTlb>,
    fills: u64,
    searches: u64,
}

impl Ranged {
    /// Adds to the page tables `paging` a range TLB with `entries` entries, and no range tables
    /// yet.
    pub(super) fn new(paging: Box<dyn Dimension>, entries: usize) -> Self {
        let (memory, tlb) = (TableMemory::new(), RangeTlb::new(entries));
        let (roots, parked) = (Vec::new(), Parked::default());
        Self { paging, memory, roots, tlb, parked, fills: 0, searches: 0 }
    }

    fn write(&mut self, operation: &RangeOperation) {
        match operation {
            RangeOperation::Root { space, root } => {
                let index = usize::from(space.0);
                if self.roots.len() <= index {
                    self.roots.resize(index + 1, None);
                }
                self.roots[index] = *root;
            }
            RangeOperation::Node { frame, words, .. } => {
                for (index, &word) in (0..).zip(words) {
                    self.memory.set_word(frame.address().add(8 * index), word);
                }
            }
            RangeOperation::Clear { frame, .. } => self.memory.clear_frame(*frame),
        }
    }
}

/// Returns the mapping of one 4KB page by a range. It is not marked dirty, so that the first store
/// sets the dirty bit in the page tables.
fn reach(range: &RangeEntry, page: VirtualPage) -> Reach {
    let frame = range.frame.add(page.number() - range.start);
    Reach::of_page(frame, allow::of_leaf(range.permissions, false))
}

impl DimensionLayer for Ranged {
    fn inside(&self) -> &dyn Dimension {
        self.paging.as_ref()
    }

    fn inside_mut(&mut self) -> &mut dyn Dimension {
        self.paging.as_mut()
    }

    fn apply_own(&mut self, operation: &dyn FormatOperation) -> bool {
        let own = operation.downcast_ref();
        own.map(|operation| self.write(operation)).is_some()
    }

    /// Walks the page tables, unless the range TLB hits at the start of a walk of a guest's or
    /// host's tables under virtualization. Natively, the TLB pipeline has looked up the range TLB
    /// before the walk.
    fn walk_around(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        let WalkRequest { space, page, write, .. } = request;
        let Some((slot, range)) = self.tlb.find(space, page) else {
            return self.paging.walk(request, walker);
        };
        self.tlb.touch(slot);
        let unit = walker.unit_beside();
        walker.note(Purpose::Page, Action::Hit { unit, slot });
        let mut reach = reach(&range, page);
        if write && range.permissions.write {
            self.paging.mark(space, page, Mark::Dirty);
            reach.allows |= allow::DIRTY;
        }
        Ok(reach)
    }

    fn own_capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        match wanted {
            CapabilityKind::SidebandTlb => Some(Capability::SidebandTlb(self)),
            CapabilityKind::PerCoreHardware => Some(Capability::PerCoreHardware(self)),
            _ => None,
        }
    }

    fn own_capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        match wanted {
            CapabilityKind::SidebandTlb => Some(CapabilityMut::SidebandTlb(self)),
            CapabilityKind::PerCoreHardware => Some(CapabilityMut::PerCoreHardware(self)),
            _ => None,
        }
    }
}

impl PerCoreHardware for Ranged {
    fn set_cores(&mut self, cores: usize) {
        self.parked.set_cores(&self.tlb, cores);
        self.paging.set_cores(cores);
    }

    fn run_on(&mut self, core: usize) {
        self.parked.run_on(&mut self.tlb, core);
        self.paging.run_on(core);
    }
}

impl SidebandTlb for Ranged {
    fn name(&self) -> &'static str {
        "range TLB"
    }

    fn used(&self) -> SidebandUse {
        SidebandUse { looked_up: true, filled: true, ..SidebandUse::default() }
    }

    fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let (_, range) = self.tlb.find(space, page)?;
        Some(reach(&range, page))
    }

    fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        purpose: Purpose,
        steps: &mut Steps,
    ) -> Option<Reach> {
        let unit = Unit::sideband_tlb(purpose);
        let Some((slot, range)) = self.tlb.find(space, page) else {
            steps.then(purpose, Action::Miss { unit });
            return None;
        };
        self.tlb.touch(slot);
        steps.then(purpose, Action::Hit { unit, slot });
        Some(reach(&range, page))
    }

    fn slots(&self) -> usize {
        self.tlb.slots()
    }

    /// Searches the range table and fills the range found into the range TLB. A guest's table that
    /// the host has not backed yet is skipped.
    fn fill(&mut self, request: WalkRequest, _: &Reach, walker: &mut Walker<'_>) {
        let WalkRequest { space, page, .. } = request;
        let Some(root) = self.roots.get(usize::from(space.0)).copied().flatten() else { return };
        self.searches += 1;
        let Ok(Some(range)) = search(&self.memory, root, page, walker) else { return };
        let unit = walker.unit_beside();
        if let Some(slot) = self.tlb.fill(space, range) {
            walker.note(Purpose::Page, Action::Fill { unit, slot });
            self.fills += 1;
        }
    }

    fn invalidate(&mut self, shootdown: Shootdown) {
        self.tlb.invalidate(shootdown);
    }

    fn flush(&mut self) {
        self.tlb.flush();
    }

    fn record(&self, counted: &SidebandCounters, out: &mut Counters) {
        let translations = counted.translations;
        let uses = Uses { translations, fills: self.fills, searches: self.searches };
        out.record(RANGE_TLB, &uses);
    }

    fn reset_counters(&mut self) {
        (self.fills, self.searches) = (0, 0);
    }
}
