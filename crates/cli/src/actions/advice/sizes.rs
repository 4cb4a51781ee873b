//! Page sizes for all memory besides 4KB and 2MB: multi-size THP, and 1GB pages.

use perforate_advice::{Area, PageOrder, orders_with_entries};
use perforate_mmu::TlbConfig;

/// Order of 64KB pages, the first size that distributions switch on: Arm's contiguous bit and RISC-V's Svnapot
/// have entries for it.
const ORDER_64K: PageOrder = PageOrder(4);
/// Least order of multi-size THP.
const LEAST_ORDER: u8 = 2;

/// Page sizes that are timed for all memory besides 4KB and 2MB, the smallest first: 64KB, what the machine's
/// TLB holds in one entry, and 1GB if there are entries for it and memory that holds such a page.
pub fn other_sizes(tlb: &TlbConfig, areas: &[Area]) -> Vec<PageOrder> {
    let coalesced = tlb.l2_coalescing.map(|it| PageOrder(it.pages.ilog2() as u8));
    let has_room = areas.iter().any(|area| {
        let first = area.bytes.start.next_multiple_of(PageOrder::HUGE.bytes());
        area.kind.takes_advice() && area.bytes.end.saturating_sub(first) >= PageOrder::HUGE.bytes()
    });
    let huge = has_room && orders_with_entries(tlb).contains(&PageOrder::HUGE);
    let mut sizes = vec![ORDER_64K];
    sizes.extend(coalesced.filter(|order| order.0 >= LEAST_ORDER));
    sizes.extend(huge.then_some(PageOrder::HUGE));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Scheme that has pages of this size where memory allows, otherwise smaller ones.
pub fn scheme(order: PageOrder) -> String {
    match order {
        PageOrder::HUGE => "1g".into(),
        order => format!("mthp-{}k", order.bytes() >> 10),
    }
}

/// Name of a run with pages of this size for all memory.
pub fn name(order: PageOrder) -> String {
    match order {
        PageOrder::HUGE => "1GB pages".into(),
        order => format!("{}KB pages", order.bytes() >> 10),
    }
}

#[cfg(test)]
mod tests {
    use perforate_advice::AreaKind;
    use perforate_sim::Machine;
    use perforate_types::ProcessId;

    use super::*;

    fn names(machine: &str, megabytes: u64) -> Vec<String> {
        let machine = Machine::load(machine).unwrap();
        let start = 0x7f00_0000_0000;
        let area = Area {
            process: ProcessId(0),
            name: String::new(),
            kind: AreaKind::Anonymous,
            bytes: start..start + megabytes * (1 << 20),
            lifetime: 0..1,
        };
        other_sizes(&machine.tlb, &[area]).into_iter().map(name).collect()
    }

    #[test]
    fn sizes_are_those_of_the_machine_and_its_memory() {
        assert_eq!(names("ice-lake-sp", 900), ["64KB pages"]);
        assert_eq!(names("ice-lake-sp", 2048), ["64KB pages", "1GB pages"]);
        assert_eq!(names("zen4-genoa", 500), ["16KB pages", "64KB pages"]);
        assert_eq!(names("neoverse-n1", 500), ["64KB pages"]);
    }

    #[test]
    fn every_size_has_a_scheme() {
        // A TLB entry holds at most 32 pages of 4KB.
        for order in (LEAST_ORDER..=5).map(PageOrder).chain([PageOrder::HUGE]) {
            perforate_sim::Composition::list(&scheme(order)).unwrap();
        }
    }

    /// Linux has no folios of two pages.
    #[test]
    fn pairs_of_pages_are_no_size() {
        let mut tlb = Machine::load("zen4-genoa").unwrap().tlb;
        for (pages, orders) in [(2, &[4][..]), (4, &[2, 4]), (8, &[3, 4]), (16, &[4])] {
            tlb.l2_coalescing.as_mut().unwrap().pages = pages;
            let found: Vec<u8> = other_sizes(&tlb, &[]).iter().map(|order| order.0).collect();
            assert_eq!(found, orders, "{pages} pages in an entry");
        }
    }
}
