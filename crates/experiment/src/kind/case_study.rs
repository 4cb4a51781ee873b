//! Common parts of case studies: contents, what they do to a system and read from it, and a closed
//! form.

use perforate_config::{Count, Share};
use perforate_os::{ContentDistribution, KhugepagedConfig, Work};
use perforate_sim::{Machine, SimError, System};
use perforate_types::Counters;

/// Bytes of a page, and pages of a 2MB region.
pub const PAGE_BYTES: u64 = 4096;
pub const REGION_PAGES: u64 = 512;

/// Memory of each program of P §III.A: two have 5.16 GB.
pub const HEAP_BYTES: u64 = 2580 << 20;

/// Default contents of the pages of two programs, but for the size of the pool: our choice, as
/// neither paper says what pages held.
pub const CONTENTS: ContentDistribution = ContentDistribution {
    zero: Share::percent(2),
    duplicate: Share::percent(16),
    distinct: 0,
    regions: Share::percent(40),
    run: 16,
    seed: 0,
};

/// Lets khugepaged scan everything until a scan changes nothing.
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

/// What the operating system did since counts began takes so many cycles.
pub fn system_cycles(machine: &Machine, system: &System) -> u64 {
    cycles(machine, &system.work())
}

/// Cycles of the operating system's work.
pub fn cycles(machine: &Machine, work: &Work) -> u64 {
    machine.operating_system.cycles(work, machine.core.frequency_ghz).total()
}

/// All counters of a system.
pub fn counters(system: &System) -> Counters {
    let mut counters = Counters::default();
    system.record(1, &mut counters);
    counters
}

/// The figure of this name.
pub fn counter(counters: &Counters, name: &str) -> f64 {
    counters.get(name).unwrap_or_else(|| panic!("{name} is a counter"))
}

/// How many of `places` different places `throws` even throws hit on average:
/// n·(1 − (1 − 1/n)^k).
pub fn places_hit(places: f64, throws: f64) -> f64 {
    -places * ((-1.0 / places).ln_1p() * throws).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two throws on two places: one place half of the time, else both.
    #[test]
    fn places_by_hand() {
        assert!((places_hit(2.0, 2.0) - 1.5).abs() < 1e-12);
        assert!((places_hit(1.0, 7.0) - 1.0).abs() < 1e-12);
    }
}
