//! References that can change a TLB in some configuration (Puzak's trace stripping, for several page sizes).
//!
//! An access to the most recently used entry of its set in the first-level TLB hits, and changes no order of
//! use. An entry is that for certain if the last access that may have gone to the set, with any of the page
//! sizes that configurations give to the memory, was to the same block. If this holds for every page size that
//! the page may have, no configuration needs the access.

use crate::PageOrder;
use crate::collect::References;
use crate::tlbs::Tlbs;

/// Page sizes that configurations give to memory.
pub(crate) struct PossibleOrders {
    /// Bit set of orders by 2MB region.
    by_region: Vec<u32>,
}

impl PossibleOrders {
    /// 4KB pages everywhere, in memory with this many ids.
    pub(crate) fn base(ids: usize) -> Self {
        Self { by_region: vec![1; ids >> 9] }
    }

    /// Adds an order for all regions of a range of ids.
    pub(crate) fn add(&mut self, ids: &std::ops::Range<u32>, order: PageOrder) {
        if !ids.is_empty() {
            let regions = (ids.start >> 9) as usize..=((ids.end - 1) >> 9) as usize;
            self.by_region[regions].iter_mut().for_each(|orders| *orders |= 1 << order.0);
        }
    }
}

/// Last block that may have been used in a set, with its order.
type Last = Option<(u64, u8)>;

/// Returns the references that can change TLBs like `tlbs`, with all marks.
pub(crate) fn filtered(
    references: &References,
    tlbs: &Tlbs<'_>,
    possible: &PossibleOrders,
) -> References {
    let mut last: Vec<Last> = vec![None; tlbs.first_level_sets()];
    let mut kept = References::default();
    let mut marks = references.marks.iter().peekable();
    for (at, &reference) in references.list.iter().enumerate() {
        while let Some((_, mark)) = marks.next_if(|(before, _)| *before <= at) {
            kept.marks.push((kept.list.len(), mark.clone()));
            last.fill(None);
        }
        let mut orders = possible.by_region[(reference.id().0 >> 9) as usize];
        let mut changes = false;
        while orders != 0 {
            let order = PageOrder(orders.trailing_zeros() as u8);
            orders &= orders - 1;
            let (set, block) = tlbs.first_level_set(reference, order);
            changes |= last[set] != Some(block);
            last[set] = Some(block);
        }
        if changes {
            kept.list.push(reference);
        }
    }
    kept.marks.extend(marks.map(|(_, mark)| (kept.list.len(), mark.clone())));
    kept
}
