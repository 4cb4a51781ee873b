//! Quantities of a calibration that are costs of the kernel.

use super::super::quantity::{Before, Kind, Quantity};
use super::KernelRound;

const PAGE_BYTES: f64 = 4096.0;

/// Keys of machine files that are not measured but follow a measured key: the key, the measured
/// key, and the factor between them.
pub(in super::super) const FOLLOWING: [(&str, &str, f64); 4] = [
    ("operating_system.zero_1g_ns", "operating_system.zero_2m_ns", 512.0),
    ("operating_system.fault_1g_ns", "operating_system.fault_2m_ns", 1.0),
    ("operating_system.split_ns", "operating_system.fault_4k_ns", 1.0),
    ("operating_system.migrate_frame_ns", "operating_system.fault_4k_ns", 1.0),
];

/// Definition of a quantity: name, unit, key of the machine file (if any), and function that
/// returns the value that a round measured.
type Line = (&'static str, &'static str, Option<&'static str>, fn(&KernelRound) -> Option<f64>);

const LINES: [Line; 18] = [
    ("page fault, 4KB", "ns", None, |round| Some(round.fault_4k_ns)),
    ("4KB fault: clearing", "ns", Some("operating_system.zero_4k_ns"), |round| {
        Some(round.zero_4k_ns())
    }),
    ("4KB fault: the rest", "ns", Some("operating_system.fault_4k_ns"), |round| {
        Some(round.rest_4k_ns())
    }),
    ("page fault, 2MB", "ns", None, |round| round.fault_2m_ns),
    ("2MB fault: clearing", "ns", Some("operating_system.zero_2m_ns"), KernelRound::zero_2m_ns),
    ("2MB fault: the rest", "ns", Some("operating_system.fault_2m_ns"), KernelRound::rest_2m_ns),
    ("copying 4KB", "ns", Some("operating_system.copy_4k_ns"), |round| Some(round.copy_4k_ns)),
    ("fork, without its pages", "ns", Some("operating_system.fork_ns"), |round| {
        Some(round.fork.call_ns())
    }),
    ("fork, each page", "ns", None, |round| Some(round.fork.page_ns())),
    ("fork: mapping a page", "ns", Some("operating_system.map_ns"), |round| Some(round.map_ns())),
    ("mprotect, each page", "ns", Some("operating_system.protect_ns"), |round| {
        Some(round.protect_ns())
    }),
    ("munmap, each page", "ns", Some("operating_system.unmap_ns"), |round| {
        Some(round.unmap.page_ns())
    }),
    ("madvise(DONTNEED), each page", "ns", None, |round| Some(round.advise.page_ns())),
    ("mprotect, without its pages", "ns", None, |round| Some(round.protect.call_ns())),
    ("munmap, without its pages", "ns", None, |round| Some(round.unmap.call_ns())),
    ("madvise, without its pages", "ns", None, |round| Some(round.advise.call_ns())),
    ("calls: the middle one of these", "ns", Some("operating_system.call_ns"), |round| {
        Some(round.call_ns())
    }),
    ("memory: copying, in order", "GB/s", None, |round| Some(PAGE_BYTES / round.copy_4k_ns)),
];

/// Measured costs of the kernel; `before` returns the values of the base machine file.
pub(in super::super) fn quantities(rounds: &[KernelRound], before: &Before<'_>) -> Vec<Quantity> {
    let of = |&(name, unit, key, value): &Line| {
        let values: Vec<_> = rounds.iter().map(value).collect();
        let quantity = Quantity::of(name, unit, &values);
        match key.and_then(|key| Some((key, before(key)?))) {
            Some((key, value)) => quantity.goes_to(key, value, Kind::Measured),
            None => quantity,
        }
    };
    let mut found: Vec<Quantity> = LINES.iter().map(of).collect();
    let clearing: Vec<_> =
        rounds.iter().map(|round| Some(PAGE_BYTES / round.clear_4k_ns)).collect();
    found.push(Quantity::of("memory: clearing, in order", "GB/s", &clearing));
    found
}

#[cfg(test)]
mod tests {
    use super::super::derive::tests::round;
    use super::*;

    fn value(quantities: &[Quantity], key: &str) -> Option<f64> {
        quantities.iter().find(|quantity| quantity.key == Some(key))?.value
    }

    #[test]
    fn planted_measurements_become_the_machine_files_costs() {
        let found = quantities(&[round(), round(), round()], &|_| Some(1.0));
        for (key, expected) in [
            ("zero_4k_ns", 500.0),
            ("fault_4k_ns", 1_070.0),
            ("zero_2m_ns", 100_000.0),
            ("fault_2m_ns", 19_970.0),
            ("copy_4k_ns", 600.0),
            ("fork_ns", 50_000.0),
            ("map_ns", 30.0),
            ("protect_ns", 10.0),
            ("unmap_ns", 60.0),
            ("call_ns", 400.0),
        ] {
            let found = value(&found, &format!("operating_system.{key}")).unwrap();
            assert!((found - expected).abs() < 1e-6, "{key}: {found}, expected {expected}");
        }
        let bandwidth = found.iter().find(|one| one.name == "memory: clearing, in order").unwrap();
        assert!((bandwidth.measured.unwrap().median - 8.192).abs() < 1e-9, "bytes a nanosecond");
    }

    #[test]
    fn costs_of_2mb_faults_stay_without_2mb_pages() {
        let small = KernelRound { fault_2m_ns: None, ..round() };
        let found = quantities(&[small.clone(), small], &|_| Some(7.0));
        assert_eq!(value(&found, "operating_system.fault_2m_ns"), Some(7.0));
        let kept = found.iter().find(|one| one.key == Some("operating_system.zero_2m_ns")).unwrap();
        assert!(kept.measured.is_none() && kept.remark.is_some(), "{kept:?}");
        assert_eq!(value(&found, "operating_system.zero_4k_ns"), Some(500.0));
    }
}
