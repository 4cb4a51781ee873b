//! Simulation of a program that announces its phases. The caller runs one phase at a time.

use std::collections::BTreeMap;

use perforate_trace::Source;
use perforate_types::{Chunk, ProgramEvent};
use perforate_workloads::WorkloadSpec;

use crate::simulation::RunOptions;
use crate::system::SystemOptions;
use crate::workload::in_pools;
use crate::{Composition, Machine, MemoryState, SimError, Simulation, host_memory};

/// Beginning of a phase, as the program announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Name that the program gives to the phase.
    pub name: String,
    /// Numbers that the program reports at this point, by name.
    pub figures: BTreeMap<String, u64>,
}

/// A simulation with its program. Between phases, the caller can attach a timing model and read
/// counters.
pub struct PhasedRun {
    /// Simulation of the program, in its state at the beginning of the current phase.
    pub simulation: Simulation,
    source: Box<dyn Source>,
    /// Next chunk of instructions to run, which begins with the phase; empty before the first
    /// phase.
    chunk: Chunk,
}

impl PhasedRun {
    /// Creates a run on an empty memory, without a timing model. If `timed` is false, none can be
    /// attached later, and translation is faster. If `check` is true, the oracle checks every
    /// translation.
    ///
    /// # Errors
    /// The machine cannot exist, or the memory is too small for the kernel's tables or the
    /// workload's data.
    pub fn new(
        (machine, memory): (&Machine, &MemoryState),
        composition: impl Into<Composition>,
        workload: &WorkloadSpec,
        seed: u64,
        (timed, check): (bool, bool),
    ) -> Result<Self, SimError> {
        host_memory::check_workload(workload)?;
        let system = SystemOptions { check, implicit_maps: false, counts_only: !timed };
        let options = RunOptions { functional: true, system, warmup: u64::MAX };
        let simulation = Simulation::new(machine, composition, memory, seed, options)?;
        let source = in_pools(workload.source(seed, None), memory)?;
        Ok(Self { simulation, source, chunk: Chunk::default() })
    }

    /// Runs to the beginning of the next phase; returns `None` at the end of the program.
    ///
    /// # Errors
    /// The simulated memory is exhausted, or a translation differs from the oracle's.
    pub fn next_phase(&mut self) -> Result<Option<Phase>, SimError> {
        loop {
            self.simulation.run(&self.chunk)?;
            if !self.source.next_chunk(&mut self.chunk)? {
                return Ok(None);
            }
            if let Some((0, ProgramEvent::Phase { name, figures })) = self.chunk.events.first() {
                let figures = figures.iter().cloned().collect();
                return Ok(Some(Phase { name: name.clone(), figures }));
            }
        }
    }

    /// Runs to the beginning of the phase `name`.
    ///
    /// # Errors
    /// As [`Self::next_phase`].
    ///
    /// # Panics
    /// If the program ends before that phase.
    pub fn run_until(&mut self, name: &str) -> Result<Phase, SimError> {
        loop {
            let phase = self.next_phase()?;
            let phase = phase.unwrap_or_else(|| panic!("the program has no phase {name:?}"));
            if phase.name == name {
                return Ok(phase);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scheme;

    /// A program that announces its phases is stopped before each, with the numbers that it reports.
    #[test]
    fn a_run_stops_at_each_phase() {
        let (machine, memory) =
            (Machine::load(Machine::DEFAULT).unwrap(), MemoryState::of(256 << 20));
        let workload = WorkloadSpec::parse("fork:heap=2M").unwrap();
        let scheme = Scheme::find("4k").unwrap();
        let run =
            || PhasedRun::new((&machine, &memory), scheme, &workload, 1, (false, true)).unwrap();
        let (mut all, mut names, mut done) = (run(), Vec::new(), Vec::new());
        while let Some(phase) = all.next_phase().unwrap() {
            names.push(phase);
            done.push(all.simulation.instructions());
        }
        assert!(names.iter().any(|phase| phase.name == "fork"), "{names:?}");
        assert!(done.is_sorted() && all.simulation.instructions() > done[0], "{done:?}");
        assert_eq!(all.simulation.cycles(), None);
        let place = names.iter().position(|phase| phase.name == "fork").unwrap();
        let mut one = run();
        assert_eq!(one.run_until("fork").unwrap(), names[place]);
        assert_eq!(one.simulation.instructions(), done[place]);
        assert!(one.simulation.system().oracle().is_some());
        // The fork comes after the phase has begun.
        assert_eq!(one.simulation.system().kernel().work().forks, 0);
        while one.next_phase().unwrap().is_some() {}
        assert!(one.simulation.system().kernel().work().forks > 0);
    }
}
