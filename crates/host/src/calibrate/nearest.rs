//! Nearest known machine: the bundled machine whose values are closest to those measured.

use perforate_sim::Machine;
use serde::Serialize;

use super::machine_file::MachineFile;
use super::quantity::Quantity;
use crate::HostError;

/// Relative difference below which two values count as equal, whatever their spread.
const EQUAL_WITHIN: f64 = 0.1;
/// Largest contribution of one value to a machine's distance, as a ratio of values: a value that is four
/// times another says no more than that the machines differ there.
const MOST_RATIO: f64 = 4.0;
/// Keys that describe the kernel. They are left out, since bundled machines share their values.
const OF_THE_KERNEL: &str = "operating_system.";

/// Bundled machine of a real processor that is closest to a calibrated one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NearestMachine {
    /// Name of the bundled machine.
    pub nearest: String,
    /// Number of compared values: measured ones that both machine files have.
    pub values: usize,
    /// Factor by which two values differ on average (geometric mean of the ratios, each at most 4).
    pub mean_ratio: f64,
    /// Values that differ by more than their spread and by more than a tenth, the largest ratio first.
    pub differences: Vec<Difference>,
}

/// Value of a calibrated machine that differs from that of a known machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Name of the quantity in tables.
    pub name: &'static str,
    /// Key of the value in machine files.
    pub key: &'static str,
    /// Value that was measured.
    pub measured: f64,
    /// Value in the known machine's file.
    pub known: f64,
}

impl Difference {
    /// Ratio of the larger value to the smaller one.
    fn ratio(&self) -> f64 {
        (self.measured / self.known).max(self.known / self.measured)
    }
}

/// Finds the bundled machine of a real processor whose hardware values are closest to the measured
/// `quantities`. Returns `None` if nothing was measured.
pub(super) fn nearest(quantities: &[Quantity]) -> Result<Option<NearestMachine>, HostError> {
    let real = Machine::bundled().into_iter().filter(|machine| !machine.processors.is_empty());
    let mut closest: Option<NearestMachine> = None;
    for machine in real {
        let file = MachineFile::load(&machine.name)?;
        let Some(found) = compare(machine.name, quantities, |key| file.number(key)) else {
            continue;
        };
        if closest.as_ref().is_none_or(|closest| found.mean_ratio < closest.mean_ratio) {
            closest = Some(found);
        }
    }
    Ok(closest)
}

/// Compares measured quantities with the values of the machine `name`. Returns `None` if there is no value
/// to compare.
fn compare(
    name: String,
    quantities: &[Quantity],
    known: impl Fn(&str) -> Option<f64>,
) -> Option<NearestMachine> {
    let mut differences = Vec::new();
    let mut ratios = Vec::new();
    for quantity in quantities {
        let (Some(spread), Some(key), Some(value)) =
            (quantity.measured, quantity.key, quantity.value)
        else {
            continue;
        };
        let Some(known) = known(key).filter(|known| *known > 0.0 && value > 0.0) else { continue };
        if key.starts_with(OF_THE_KERNEL) {
            continue;
        }
        let difference = Difference { name: quantity.name, key, measured: value, known };
        ratios.push(difference.ratio().min(MOST_RATIO).ln());
        let is_in_spread = (spread.min..=spread.max).contains(&known);
        if !is_in_spread && difference.ratio() > 1.0 + EQUAL_WITHIN {
            differences.push(difference);
        }
    }
    differences.sort_by(|one, other| other.ratio().total_cmp(&one.ratio()));
    let values = ratios.len();
    let mean_ratio = (ratios.iter().sum::<f64>() / values as f64).exp();
    (values > 0).then_some(NearestMachine { nearest: name, values, mean_ratio, differences })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::Spread;

    fn measured(key: &'static str, median: f64) -> Quantity {
        let spread = Spread { min: 0.9 * median, median, max: 1.1 * median };
        let quantity = Quantity::of(key, "", &[Some(median)]);
        Quantity { key: Some(key), measured: Some(spread), value: Some(median), ..quantity }
    }

    /// Values of a bundled machine, under the keys that a calibration measures.
    fn values_of(machine: &str) -> Vec<Quantity> {
        let file = MachineFile::load(machine).unwrap();
        [
            "tlb.l2.entries",
            "tlb.l1_data_4k.entries",
            "cache.l1d.size_bytes",
            "cache.l2.size_bytes",
            "cache.l2.latency_cycles",
            "core.frequency_ghz",
            "walker.count",
        ]
        .into_iter()
        .filter_map(|key| Some(measured(key, file.number(key)?)))
        .collect()
    }

    #[test]
    fn a_machine_is_nearest_to_its_own_values() {
        for machine in ["zen4-genoa", "skylake-sp-4114", "haswell-ex", "neoverse-v2"] {
            let found = nearest(&values_of(machine)).unwrap().unwrap();
            assert_eq!((found.nearest.as_str(), found.mean_ratio), (machine, 1.0));
            assert!(found.values >= 5 && found.differences.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn values_outside_their_spread_are_named_and_the_largest_ratio_comes_first() {
        let quantities = [
            measured("tlb.l2.entries", 1000.0),
            measured("cache.l2.size_bytes", 300.0),
            measured("tlb.l1_data_4k.entries", 64.0),
            measured("operating_system.fault_4k_ns", 1.0),
            Quantity { measured: None, ..measured("walker.count", 1.0) },
        ];
        let known = |key: &str| match key {
            "tlb.l2.entries" => Some(1500.0),
            "cache.l2.size_bytes" => Some(1500.0),
            "tlb.l1_data_4k.entries" => Some(69.0),
            _ => Some(100.0),
        };
        let found = compare("known".into(), &quantities, known).unwrap();
        let names: Vec<_> = found.differences.iter().map(|one| one.key).collect();
        assert_eq!(names, ["cache.l2.size_bytes", "tlb.l2.entries"]);
        assert_eq!(found.values, 3, "neither the kernel's costs nor what was not measured");
        let product: f64 = MOST_RATIO * 1.5 * (69.0 / 64.0);
        assert!((found.mean_ratio - product.powf(1.0 / 3.0)).abs() < 1e-12, "{found:?}");
        assert_eq!(compare("known".into(), &[], known), None);
    }
}
