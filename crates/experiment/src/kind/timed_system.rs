//! A simulated program that is written down access by access, with a clock that runs when wanted.
//!
//! Each access is an instruction with [`OTHERS`] integer instructions before it. Code, branches and
//! their mispredictions are left out.

use perforate_sim::{Machine, MemoryState, Scheme, SimError, System, SystemOptions};
use perforate_timing::Core;
use perforate_types::{AccessKind, Counters, Instruction, Register, VirtualAddress};

/// Other instructions before each access but those of a copy: as many as our synthetic workloads
/// have, for want of a source.
pub const OTHERS: u64 = 3;

const COUNTER: Register = 1;
const POINTER: Register = 2;
const DATA: Register = 3;

const OTHER: Instruction = instruction([COUNTER, 0], COUNTER, 0);
const FOLLOW: Instruction = instruction([POINTER, 0], POINTER, 1);
const READ: Instruction = instruction([POINTER, 0], DATA, 1);
const WRITE: Instruction = instruction([DATA, 0], 0, 1);

const fn instruction(
    [first, second]: [Register; 2],
    destination: Register,
    accesses: u8,
) -> Instruction {
    Instruction {
        ip: VirtualAddress::new(0),
        sources: [first, second, 0, 0],
        destinations: [destination, 0],
        accesses,
        length: 4,
        branch: perforate_types::Branch::None,
        taken: false,
        operation: perforate_types::Operation::Integer,
    }
}

/// What an access waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads a pointer, at the address of the pointer that was read last.
    Follow,
    /// Reads data behind the pointer that was read last.
    Read,
    /// Writes the data that were read last.
    Write,
}

impl Role {
    fn instruction(self) -> &'static Instruction {
        match self {
            Self::Follow => &FOLLOW,
            Self::Read => &READ,
            Self::Write => &WRITE,
        }
    }

    fn kind(self) -> AccessKind {
        if self == Self::Write { AccessKind::Write } else { AccessKind::Read }
    }
}

/// Instructions and cycles while the clock ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    pub instructions: u64,
    pub cycles: u64,
}

/// An operating system with its hardware, and a core while the clock runs.
pub struct TimedSystem {
    pub system: System,
    machine: Machine,
    core: Option<Core>,
    instructions: u64,
}

impl TimedSystem {
    /// An empty memory; no clock runs. Without `timed` none ever can, and translations are faster.
    ///
    /// # Errors
    /// An impossible machine, or memory too small for the kernel's own tables.
    pub fn new(
        machine: &Machine,
        scheme: &'static Scheme,
        memory: &MemoryState,
        seed: u64,
        (timed, check): (bool, bool),
    ) -> Result<Self, SimError> {
        let options = SystemOptions { check, implicit_maps: false, counts_only: !timed };
        let system = System::new(machine, scheme, memory, seed, options)?;
        Ok(Self { system, machine: machine.clone(), core: None, instructions: 0 })
    }

    /// A core with empty caches runs from here on.
    ///
    /// # Errors
    /// An impossible machine.
    pub fn start_clock(&mut self) -> Result<(), SimError> {
        let slots = self.system.mmu().slots();
        self.core = Some(Core::new(&self.machine.timing(), slots)?);
        self.instructions = 0;
        Ok(())
    }

    /// Counts and, if a clock runs, time begin here.
    pub fn start_measuring(&mut self) {
        self.system.start_measuring();
        self.instructions = 0;
        if let Some(core) = &mut self.core {
            core.start_measuring();
        }
    }

    /// Stops the clock and says what it counted since measuring began, if one ran.
    pub fn stop_clock(&mut self) -> Option<Time> {
        let core = self.core.take()?;
        Some(Time { instructions: self.instructions, cycles: core.cycles() })
    }

    /// Whether a clock runs.
    pub fn is_timed(&self) -> bool {
        self.core.is_some()
    }

    /// Accesses `size` bytes, which must lie in mapped memory and in one page.
    ///
    /// # Errors
    /// Out of memory, or a disagreement with the oracle.
    #[inline]
    pub fn access(&mut self, role: Role, address: u64, size: u16) -> Result<(), SimError> {
        let found = self.system.translate(role.kind(), VirtualAddress::new(address))?;
        let found = found.expect("programs stay inside their memory");
        if let Some(core) = &mut self.core {
            let (instruction, steps) = (role.instruction(), self.system.steps());
            core.begin(instruction);
            match role {
                Role::Write => core.store(found.physical, size, found.slot, steps),
                _ => core.load(found.physical, size, found.slot, steps),
            }
            core.finish(instruction);
            self.instructions += 1;
        }
        Ok(())
    }

    /// Instructions that access nothing, each waiting for the last.
    pub fn compute(&mut self, count: u64) {
        let Some(core) = &mut self.core else { return };
        for _ in 0..count {
            core.begin(&OTHER);
            core.finish(&OTHER);
        }
        self.instructions += count;
    }

    /// What the operating system did since measuring began takes so many cycles.
    pub fn system_cycles(&self) -> u64 {
        let costs = &self.machine.operating_system;
        costs.cycles(&self.system.work(), self.machine.core.frequency_ghz).total()
    }

    /// All counters.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.system.record(1, &mut counters);
        counters
    }
}

/// The figure of this name.
pub fn counter(counters: &Counters, name: &str) -> f64 {
    counters.get(name).unwrap_or_else(|| panic!("{name} is a counter"))
}

#[cfg(test)]
mod tests {
    use super::super::case_study::map_populated;
    use super::*;

    const START: u64 = 0x7f00_0000_0000;
    const PAGES: u64 = 8192;

    fn time_of(role: Role) -> Time {
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let memory = MemoryState::of(256 << 20);
        let scheme = Scheme::find("4k").unwrap();
        let mut program = TimedSystem::new(&machine, scheme, &memory, 1, (true, true)).unwrap();
        program.system.event(&map_populated(START, PAGES * 4096, false)).unwrap();
        program.start_clock().unwrap();
        program.start_measuring();
        for access in 0..2000 {
            program.compute(OTHERS);
            let page = access * 2_654_435_761 % PAGES;
            program.access(role, START + page * 4096, 8).unwrap();
        }
        program.stop_clock().unwrap()
    }

    /// Pointers wait for each other, data do not: several misses are under way at a time.
    #[test]
    fn pointers_are_followed_one_after_the_other() {
        let (follow, read) = (time_of(Role::Follow), time_of(Role::Read));
        assert_eq!((follow.instructions, read.instructions), (8000, 8000));
        // A walk and a line from memory each: 50 ns at least, at 2GHz.
        assert!(follow.cycles > 2000 * 100, "{follow:?}");
        assert!(read.cycles < follow.cycles * 3 / 4, "{read:?} {follow:?}");
    }

    #[test]
    fn without_a_clock_there_is_no_time() {
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let memory = MemoryState::of(64 << 20);
        let scheme = Scheme::find("thp").unwrap();
        let mut program = TimedSystem::new(&machine, scheme, &memory, 1, (false, true)).unwrap();
        program.system.event(&map_populated(START, 2 << 20, false)).unwrap();
        program.compute(OTHERS);
        program.access(Role::Write, START, 8).unwrap();
        assert!(!program.is_timed());
        assert_eq!(program.stop_clock(), None);
        assert_eq!(counter(&program.counters(), "mapped_bytes"), f64::from(2 << 20));
    }
}
