//! Registry of the names in results: the counters of all crates, and the schemes.

use perforate_records::Vocabulary;
use perforate_types::{Counter, registered};

use crate::compare::{ADVICES, TOUCHED};
use crate::{energy, operating_system, scheme, simulation, system};

/// Returns every counter that a result may contain, in the order of reports.
pub fn counters() -> Vec<Counter> {
    let all = [
        operating_system::counters(),
        perforate_mmu::counters(),
        perforate_timing::counters(),
        simulation::counters(),
        memory(),
        operating_system::work_counters(),
        system::counters(),
        energy::counters(),
        mechanisms(),
    ];
    all.concat()
}

/// Returns the counters of mechanisms, each followed by the host's counter of the same kind.
fn mechanisms() -> Vec<Counter> {
    let with_host = |counter: Counter| {
        let host = system::host_counter(&counter);
        std::iter::once(counter).chain(host)
    };
    scheme::counters().into_iter().flat_map(with_host).collect()
}

/// Returns the counters of the operating system, each followed by the host's counter. The counters
/// of touched memory and of madvise calls follow that of mapped memory.
fn memory() -> Vec<Counter> {
    let mut found = Vec::new();
    for counter in perforate_os::counters() {
        let is_mapped = counter.id == "mapped_bytes";
        let host = system::host_counter(&counter);
        found.push(counter);
        found.extend(host);
        if is_mapped {
            found.extend(registered(TOUCHED));
            found.extend(registered(ADVICES));
        }
    }
    found
}

/// Returns the descriptions of counters and schemes, which reports need to show results.
pub fn vocabulary() -> Vocabulary {
    let schemes = scheme::all().chain(scheme::hosts_only());
    Vocabulary::new(counters(), schemes.map(scheme::Scheme::facts).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Related counters follow each other, and every counter is registered once.
    #[test]
    fn counters_are_in_the_order_of_reports() {
        let names: Vec<String> = counters().into_iter().map(|counter| counter.id.into()).collect();
        let place = |name: &str| names.iter().position(|known| known == name).unwrap();
        let mapped = place("mapped_bytes");
        assert_eq!(
            names[mapped + 1..mapped + 5],
            ["host_mapped_bytes", "touched_bytes", "huge_page_advices", "huge_page_refusals"]
        );
        for (own, host) in [
            ("page_table_bytes", "host_page_table_bytes"),
            ("segment_pages", "host_segment_pages"),
            ("perforated_pages", "host_perforated_pages"),
        ] {
            assert_eq!(place(host), place(own) + 1, "{own}");
        }
        let sections = [
            "operating_system_cycles",
            "l1_tlb_misses",
            "shootdowns_waited_for",
            "mapped_bytes",
            "work_processors_interrupted",
            "accesses_refused",
            "translation_energy_dynamic_nj",
        ];
        assert!(sections.map(place).is_sorted(), "{:?}", sections.map(place));
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
