//! References that can change a TLB in some configuration (Puzak's trace stripping, for several page sizes).
//!
//! An access to the most recently used entry of its set in the first-level TLB hits, and changes no order of
//! use. An entry is that for certain if the last access that may have gone to the set, with any of the page
//! sizes that configurations give to the memory, was to the same block. If this holds for every page size that
//! the page may have, no configuration needs the access.

use crate::PageOrder;
use crate::collect::References;
use crate::tlbs::{STOP_INTERVAL, Tlbs};

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

/// Returns the references that can change TLBs like `tlbs`, with all marks. Ends early, with fewer references, if
/// the simulation is to stop.
pub(crate) fn filtered(
    references: &References,
    tlbs: &Tlbs<'_>,
    possible: &PossibleOrders,
) -> References {
    let mut last: Vec<Last> = vec![None; tlbs.first_level_sets()];
    let mut kept = References::default();
    let mut marks = references.marks.iter().peekable();
    for (at, &reference) in references.list.iter().enumerate() {
        if at.is_multiple_of(STOP_INTERVAL) && tlbs.is_stopped() {
            break;
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use perforate_mmu::{MmuConfig, TlbGeometry};
    use perforate_types::ProcessId;

    use super::*;
    use crate::collect::{Mark, Reference};
    use crate::page_id::PageIds;
    use crate::tlbs::PageSizes;

    /// Three regions, of which the first two may have 2MB pages, with marks between the references: each
    /// configuration has the same walks with all references and with those that are kept.
    #[test]
    fn what_is_kept_has_the_same_walks_in_every_configuration() {
        let geometry = |entries, ways| TlbGeometry { entries, ways };
        let mut tlb = MmuConfig::plain(geometry(8, 2), geometry(32, 4)).tlb;
        tlb.l1_data_2m = Some(geometry(2, 1));
        let mut ids = PageIds::new();
        let mut random = 7_u64;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 20) % below
        };
        let mut references = References::default();
        for _ in 0..60_000 {
            // Runs of a few pages, so that the most recently used entries are often used again.
            let page = (next(3) * 512) + next(2) * next(60) + next(3);
            let id = ids.id(ProcessId(0), page).unwrap();
            references.list.push(Reference::new(id, next(10) == 0));
            if next(3_000) == 0 {
                let start = id.0 & !7;
                references.marks.push((references.list.len(), Mark::Forget(start..start + 8)));
            }
        }
        references.marks.push((references.list.len() / 2, Mark::StartMeasuring));
        references.marks.sort_by_key(|(at, _)| *at);
        let gigabytes: Vec<u64> = ids.gigabytes().collect();
        let never = AtomicBool::new(false);
        let tlbs = || Tlbs::new(&tlb, &gigabytes, &never);
        let mut possible = PossibleOrders::base(ids.len());
        possible.add(&(0..1024), PageOrder::LARGE);
        let kept = filtered(&references, &tlbs(), &possible);
        assert!(kept.list.len() < references.list.len() * 9 / 10, "{}", kept.list.len());
        for large in [0..0, 0..512, 512..1024, 0..1024] {
            let mut sizes = PageSizes::base(&ids);
            sizes.enlarge(&large, PageOrder::LARGE);
            let all = tlbs().run(&references, &sizes, |_| {});
            assert_eq!(tlbs().run(&kept, &sizes, |_| {}), all, "{large:?}");
            assert!(all.walks > 0 || large.len() == 1024, "{all:?}");
        }
    }
}
