//! Checks of the calibration: each chase measured on the machine and simulated.

use perforate_sim::{Machine, SimError};
use serde::Serialize;

use super::derive::{Expected, Round};
use super::machine_file::MachineFile;
use super::points::Point;
use super::quantity::Quantity;
use super::{forward, simulate};
use crate::benchmark::Paging;
use crate::validate::{Assumption, Spread};
use crate::{HostError, Reporter};

/// Result of one check of a calibration: a pointer chase, measured and simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Description of the pointer chase, as shown in tables.
    pub name: String,
    /// Measured time per access in nanoseconds, spread over the rounds of measurement.
    pub measured_ns: Option<Spread>,
    /// Time per access in nanoseconds, simulated with the written machine file.
    pub simulated_ns: f64,
}

impl Check {
    /// Simulated time per access divided by the measured median; `None` without measurements.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.simulated_ns / self.measured_ns?.median)
    }
}

/// Measured pointer chases of a calibration, with all that is needed to simulate them.
pub(super) struct Instrument<'a> {
    pub rounds: &'a [Round],
    pub expected: &'a Expected,
    pub assumption: Assumption,
    /// Minimum number of timed accesses of each simulated chase, as in
    /// [`Options::accesses`](super::Options::accesses).
    pub accesses: u64,
    pub reporter: &'a mut dyn Reporter,
}

impl Instrument<'_> {
    fn simulate(&mut self, machine: &Machine, point: Point) -> Result<[f64; 2], SimError> {
        let schemes = self.assumption.schemes;
        simulate::nanoseconds(machine, schemes, point, self.accesses, &mut forward(self.reporter))
    }

    /// Simulated time per access that translating this number of 4KB pages adds, in nanoseconds.
    fn simulate_walks(&mut self, machine: &Machine, pages: u64) -> Result<f64, SimError> {
        let untranslated = self.expected.untranslated(pages);
        let [with, _] = self.simulate(machine, Point::pages(Paging::Small, pages))?;
        let [_, without] = self.simulate(machine, untranslated)?;
        Ok(with - without)
    }

    fn values(&self, of: impl Fn(&Round) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().filter_map(of).collect()
    }

    fn spread(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.values(of))
    }

    /// Number of 4KB pages in the pointer chase that determines the page walker's cycles per page-table entry
    /// besides loading it.
    fn walked_pages(&self) -> u64 {
        4 * self.expected.l2_tlb_entries
    }

    /// Determines two values by simulation, because they cannot be read off a curve: the page walker's cycles
    /// per page-table entry besides loading it, and the latency of the memory controller.
    ///
    /// # Errors
    /// If a machine cannot be simulated.
    pub(super) fn adjust(
        &mut self,
        file: &mut MachineFile,
        name: &str,
    ) -> Result<Vec<Quantity>, HostError> {
        self.reporter.stage("simulating the chases", "instructions");
        let expected = *self.expected;
        let walks = self.values(|round| round.walk_cycles(&expected));
        let walk = Quantity::left("a walk, tables in near caches", "cycles", walks);
        let pages = self.walked_pages();
        let walk =
            self.fit_key(file, name, walk, "walker.read_overhead_cycles", &mut |own, machine| {
                Ok(own.simulate_walks(machine, pages)? * machine.core.frequency_ghz)
            })?;
        let loads = self.values(|round| round.memory_ns(&expected));
        let load = Quantity::left("memory: the same, by the controller", "ns", loads);
        let all = Point::lines(expected.bytes / 64);
        let load = self.fit_key(file, name, load, "dram.controller_ns", &mut |own, machine| {
            Ok(own.simulate(machine, all)?[1])
        })?;
        Ok(vec![walk, load])
    }

    /// Finds the value of the machine file's `key` with which the simulated time comes closest to
    /// the measured median. Simulated time must increase with the value.
    fn fit_key(
        &mut self,
        file: &mut MachineFile,
        name: &str,
        quantity: Quantity,
        key: &'static str,
        simulated: &mut dyn FnMut(&mut Self, &Machine) -> Result<f64, SimError>,
    ) -> Result<Quantity, HostError> {
        const FIRST_STEP: f64 = 10.0;
        const MOST: f64 = 1000.0;
        const TRIES: usize = 5;
        let (Some(before), Some(wanted)) = (file.number(key), quantity.measured) else {
            return Ok(quantity);
        };
        let wanted = wanted.median;
        let mut at = |value: f64, file: &mut MachineFile, own: &mut Self| {
            file.set(key, value, "")?;
            let machine = Machine::from_text(name, &file.text("", &[]))?;
            Ok::<f64, HostError>(simulated(own, &machine)?)
        };
        let mut value = before;
        let first = at(value, file, self)?;
        let (mut last, mut now) = ((value, first), first);
        for number in 0..TRIES {
            let slope = match number {
                0 => 1.0,
                _ => ((now - last.1) / (value - last.0)).max(0.05),
            };
            let step = ((wanted - now) / slope).clamp(-FIRST_STEP * 4.0, FIRST_STEP * 4.0);
            let next = (value + step).round().clamp(0.0, MOST);
            if next == value {
                break;
            }
            last = (value, now);
            value = next;
            now = at(value, file, self)?;
        }
        file.set(key, before, "")?;
        let remark = format!("simulated {now:.0} with {value}, {first:.0} with {before}");
        quantity.adjusted(file, key, value, remark)
    }
}

/// Simulates every measured pointer chase with the written machine file, as a check of the calibration.
///
/// # Errors
/// If the machine cannot be simulated.
pub(super) fn checks(
    instrument: &mut Instrument<'_>,
    machine: &Machine,
) -> Result<Vec<Check>, HostError> {
    const SIDE_BY_SIDE: usize = 12;
    let expected = *instrument.expected;
    let mut found = Vec::new();
    let lines = expected.bytes / 64;
    let all = Point::lines(lines);
    let megabytes = expected.bytes >> 20;
    let named = [
        (format!("load, {megabytes} MB in 2MB pages"), all, true),
        (format!("load, {megabytes} MB in 4KB pages"), Point { is_large: false, ..all }, false),
        (format!("{SIDE_BY_SIDE} loads at once, 2MB pages"), all.chains(SIDE_BY_SIDE), true),
    ];
    for (name, point, is_large) in named {
        let measured_ns = instrument.spread(|round| round.values.get(&point).copied());
        let simulated = instrument.simulate(machine, point)?;
        found.push(Check { name, measured_ns, simulated_ns: simulated[usize::from(is_large)] });
    }
    let most = expected.bytes / 4096;
    let least = instrument.walked_pages().min(most);
    let middle = ((least as f64 * most as f64).sqrt() as u64).next_power_of_two();
    for pages in [least, middle, most] {
        let measured_ns = instrument.spread(|round| round.walk_ns(&expected, pages));
        let simulated_ns = instrument.simulate_walks(machine, pages)?;
        let name = format!("walk, {} MB in 4KB pages", pages >> 8);
        found.push(Check { name, measured_ns, simulated_ns });
    }
    let point = Point::pages(Paging::Small, most).chains(SIDE_BY_SIDE);
    let measured_ns = instrument.spread(|round| round.values.get(&point).copied());
    let [simulated_ns, _] = instrument.simulate(machine, point)?;
    let name = format!("{SIDE_BY_SIDE} walks at once, {megabytes} MB");
    found.push(Check { name, measured_ns, simulated_ns });
    Ok(found)
}
