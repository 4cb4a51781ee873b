//! Functions that case studies share: page contents, operations on a system, its counters, and a
//! closed form.

use perforate_config::{Count, Share};
use perforate_os::{ContentDistribution, KhugepagedConfig, KsmConfig, KsmPass, Work};
use perforate_sim::{Machine, Scheme, SimError, System};
use perforate_types::Counters;

use super::Measurement;

/// Size of a 4KB page in bytes.
pub const PAGE_BYTES: u64 = 4096;
/// Number of 4KB pages in a 2MB region.
pub const REGION_PAGES: u64 = 512;

/// Heap size in bytes of each of the two programs of P §III.A, which together have 5.16 GB.
pub const HEAP_BYTES: u64 = 2580 << 20;

/// Default contents of the two programs' pages, except for the number of distinct contents. The contents are
/// our choice, because neither paper describes them.
pub const CONTENTS: ContentDistribution = ContentDistribution {
    zero: Share::percent(2),
    duplicate: Share::percent(16),
    distinct: 0,
    regions: Share::percent(40),
    run: 16,
    seed: 0,
};

/// Runs khugepaged with these settings until a complete scan of the address spaces changes nothing.
pub fn promote(system: &mut System, knobs: KhugepagedConfig) -> Result<(), SimError> {
    let knobs = KhugepagedConfig { pages_to_scan: Count::new(u64::MAX), ..knobs };
    system.change(|kernel| {
        kernel.set_khugepaged(knobs);
        Ok(())
    })?;
    loop {
        let patched = system.kernel().work().subpages_patched;
        let pass = system.change(|kernel| Ok(kernel.khugepaged_pass()))?;
        let promoted = pass.regions_collapsed + pass.regions_perforated;
        if promoted == 0 && system.kernel().work().subpages_patched == patched {
            return Ok(());
        }
    }
}

/// Returns the configuration of a KSM scanner without a limit on pages per scan.
pub fn unlimited_ksm() -> KsmConfig {
    KsmConfig { pages_to_scan: Count::new(u64::MAX), ..KsmConfig::default() }
}

/// Runs `scan` until a full scan, after the first, merges no pages.
pub fn merge(mut scan: impl FnMut() -> Result<KsmPass, SimError>) -> Result<(), SimError> {
    scan()?;
    while scan()?.pages_merged > 0 {}
    Ok(())
}

/// Returns the registered scheme of this name.
///
/// # Errors
/// An unknown scheme.
pub fn scheme(name: &str) -> Result<&'static Scheme, String> {
    Scheme::find(name).map_err(|error| error.to_string())
}

/// Returns a measurement that consists of these figures, given as (name, value).
pub fn named<const N: usize>(figures: [(&str, f64); N]) -> Measurement {
    figures.map(|(name, value)| (name.into(), value)).into()
}

/// Returns the cycles of the operating system's work since counters were reset.
pub fn system_cycles(machine: &Machine, system: &System) -> u64 {
    cycles(machine, &system.work())
}

/// Returns the cycles that some work of the operating system takes with the costs in the machine file.
pub fn cycles(machine: &Machine, work: &Work) -> u64 {
    machine.operating_system.cycles(work, machine.core.frequency_ghz).total()
}

/// Returns all counters of a simulated system, by name.
pub fn counters(system: &System) -> Counters {
    let mut counters = Counters::default();
    system.record(1, &mut counters);
    counters
}

/// Returns the value of the counter of this name, which must exist.
pub fn counter(counters: &Counters, name: &str) -> f64 {
    counters.get(name).unwrap_or_else(|| panic!("{name} is a counter"))
}

/// Returns the expected number of distinct places that `throws` (k) uniformly random choices out of `places`
/// (n) hit: n·(1 − (1 − 1/n)^k).
pub fn places_hit(places: f64, throws: f64) -> f64 {
    -places * ((-1.0 / places).ln_1p() * throws).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two random choices out of two places hit one place with probability ½, otherwise both.
    #[test]
    fn places_by_hand() {
        assert!((places_hit(2.0, 2.0) - 1.5).abs() < 1e-12);
        assert!((places_hit(1.0, 7.0) - 1.0).abs() < 1e-12);
    }
}
