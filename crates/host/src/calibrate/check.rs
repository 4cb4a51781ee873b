//! The measured chases beside the same ones simulated.

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

/// A chase measured and simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What it is.
    pub name: String,
    /// Nanoseconds of an access.
    pub measured_ns: Option<Spread>,
    /// Simulated with the machine file that was written.
    pub simulated_ns: f64,
}

impl Check {
    /// Simulated time by the measured median.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.simulated_ns / self.measured_ns?.median)
    }
}

/// Measures by simulation what was measured here.
pub(super) struct Instrument<'a> {
    pub rounds: &'a [Round],
    pub expected: &'a Expected,
    pub assumption: Assumption,
    pub reporter: &'a mut dyn Reporter,
}

impl Instrument<'_> {
    fn simulate(&mut self, machine: &Machine, point: Point) -> Result<[f64; 2], SimError> {
        let schemes = self.assumption.schemes;
        simulate::nanoseconds(machine, schemes, point, &mut forward(self.reporter))
    }

    fn spread(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.rounds.iter().filter_map(of).collect::<Vec<_>>())
    }

    /// Number of pages of the walks by which the walker's work is found.
    fn walked_pages(&self) -> u64 {
        4 * self.expected.l2_tlb_entries
    }

    /// The two values that cannot be read off a curve: what the simulated chase lacks.
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
        let load = |file: &MachineFile| Machine::from_text(name, &file.text("", &[]));
        let memory = self.spread(|round| round.memory_ns(&expected));
        let mut found = Vec::new();
        if let (Some(before), Some(memory)) = (file.number("dram.controller_ns"), memory) {
            let all = Point::lines(expected.bytes / 64);
            let [_, simulated] = self.simulate(&load(file)?, all)?;
            let value = (before + memory.median - simulated).max(0.0);
            let remark = format!("a load took {simulated:.1} ns with {before} ns");
            let quantity = Quantity::left("memory: the same by the controller", "ns", memory);
            found.push(quantity.adjusted(file, "dram.controller_ns", value, remark));
        }
        let walk = self.spread(|round| round.walk_cycles(&expected));
        if let (Some(before), Some(walk)) = (file.number("walker.read_overhead_cycles"), walk) {
            let pages = Point::pages(Paging::Small, self.walked_pages());
            let mut cycles = |overhead: f64, file: &mut MachineFile| -> Result<f64, HostError> {
                file.set("walker.read_overhead_cycles", overhead, "");
                let machine = load(file)?;
                let [small, large] = self.simulate(&machine, pages)?;
                Ok((small - large) * machine.core.frequency_ghz)
            };
            const TRIED: f64 = 10.0;
            let (least, more) = (cycles(0.0, file)?, cycles(TRIED, file)?);
            let value = ((walk.median - least) / (more - least).max(1.0) * TRIED).round();
            let value = value.clamp(0.0, 100.0);
            let remark = format!("simulated {least:.0} cycles with none, {more:.0} with {TRIED}");
            file.set("walker.read_overhead_cycles", before, "");
            let quantity = Quantity::left("a walk, tables in near caches", "cycles", walk);
            found.push(quantity.adjusted(file, "walker.read_overhead_cycles", value, remark));
        }
        Ok(found)
    }
}

/// All checks with the machine that was written.
///
/// # Errors
/// If it cannot be simulated.
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
        let [small, large] = instrument.simulate(machine, Point::pages(Paging::Small, pages))?;
        let name = format!("walk, {} MB in 4KB pages", pages >> 8);
        found.push(Check { name, measured_ns, simulated_ns: small - large });
    }
    let point = Point::pages(Paging::Small, most).chains(SIDE_BY_SIDE);
    let measured_ns = instrument.spread(|round| round.values.get(&point).copied());
    let [simulated_ns, _] = instrument.simulate(machine, point)?;
    let name = format!("{SIDE_BY_SIDE} walks at once, {megabytes} MB");
    found.push(Check { name, measured_ns, simulated_ns });
    Ok(found)
}
