//! Instructions and memory accesses as a trace delivers them.

use crate::{AccessKind, ProcessId, ProgramEvent, VirtualAddress};

/// An architectural register, numbered by the trace; 0 means none.
pub type Register = u8;

/// The stack pointer's number in traces of x86-64 programs.
pub const STACK_POINTER: Register = 5;
/// The number of the arithmetic flags.
pub const FLAGS: Register = 17;
/// The number of the instruction pointer: written by every branch, never a source.
pub const INSTRUCTION_POINTER: Register = 18;

/// How an instruction changes the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Branch {
    /// Not a branch.
    #[default]
    None,
    /// Conditional jump.
    Conditional,
    /// Unconditional direct jump.
    Jump,
    /// Jump through a register or memory.
    Indirect,
    /// Direct call.
    Call,
    /// Call through a register or memory.
    IndirectCall,
    /// Return.
    Return,
}

impl Branch {
    /// All kinds; a kind's index is its `as u8` value.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Conditional,
        Self::Jump,
        Self::Indirect,
        Self::Call,
        Self::IndirectCall,
        Self::Return,
    ];
}

/// What an instruction computes, as far as its latency goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Operation {
    /// Integer, logic, move, address computation.
    #[default]
    Integer,
    /// Integer multiplication.
    Multiply,
    /// Division or square root.
    Divide,
    /// Floating-point or vector arithmetic.
    Float,
    /// System call, fence or other serialising instruction.
    Serializing,
}

impl Operation {
    /// All kinds; a kind's index is its `as u8` value.
    pub const ALL: [Self; 5] =
        [Self::Integer, Self::Multiply, Self::Divide, Self::Float, Self::Serializing];
}

/// One executed instruction. Its memory accesses follow in [`Chunk::accesses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Instruction {
    /// Address of the instruction.
    pub ip: VirtualAddress,
    /// Registers read; 0 fills unused places.
    pub sources: [Register; 4],
    /// Which of the registers read make no address, a bit each, the first being the lowest: loads
    /// and stores of the instruction do not wait for them. Where nothing is known of that, none.
    pub data_sources: u8,
    /// Registers written; 0 fills unused places.
    pub destinations: [Register; 2],
    /// Number of memory accesses this instruction makes.
    pub accesses: u8,
    /// Length in bytes, 1–15; 0 where the trace does not say.
    pub length: u8,
    /// Kind of branch.
    pub branch: Branch,
    /// Whether the branch was taken (false for what is no branch).
    pub taken: bool,
    /// What it computes.
    pub operation: Operation,
}

/// One memory access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// First byte accessed.
    pub address: VirtualAddress,
    /// Bytes accessed, at least 1.
    pub size: u16,
    /// Read or write; never a fetch.
    pub kind: AccessKind,
}

/// A run of consecutive instructions, decoded: what flows from a trace to the simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk {
    /// Instructions in program order.
    pub instructions: Vec<Instruction>,
    /// Accesses of all instructions in order; each instruction owns the next `accesses` of them.
    pub accesses: Vec<MemoryAccess>,
    /// Events, each with the index of the instruction it comes before (`instructions.len()`
    /// for one after the last), in order.
    pub events: Vec<(u32, ProgramEvent)>,
}

impl Chunk {
    /// Empties the chunk, keeping its allocations.
    pub fn clear(&mut self) {
        self.instructions.clear();
        self.accesses.clear();
        self.events.clear();
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty() && self.events.is_empty()
    }

    /// The instruction before which the phase of this name begins, if it does.
    pub fn phase_start(&self, phase: &str) -> Option<usize> {
        let begins = |event: &ProgramEvent| match event {
            ProgramEvent::Phase { name, .. } => name == phase,
            _ => false,
        };
        let (at, _) = self.events.iter().find(|(_, event)| begins(event))?;
        Some(*at as usize)
    }

    /// Appends an instruction with its accesses.
    ///
    /// # Panics
    /// If there are more than 255 accesses.
    pub fn push(&mut self, instruction: Instruction, accesses: &[MemoryAccess]) {
        let count = u8::try_from(accesses.len()).expect("at most 255 accesses per instruction");
        self.instructions.push(Instruction { accesses: count, ..instruction });
        self.accesses.extend_from_slice(accesses);
    }

    /// The accesses in runs of one process each. `process` is who runs at the chunk's beginning,
    /// and at its end when all runs were taken.
    pub fn accesses_by_process<'a>(
        &'a self,
        process: &'a mut ProcessId,
    ) -> impl Iterator<Item = (ProcessId, &'a [MemoryAccess])> + 'a {
        let mut switches = self.events.iter().filter_map(|(at, event)| match event {
            ProgramEvent::Switch { process, .. } => Some((*at as usize, *process)),
            _ => None,
        });
        let (mut instruction, mut rest) = (0, self.accesses.as_slice());
        let mut is_over = false;
        std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            let own = *process;
            let Some((end, next)) = switches.next() else {
                is_over = true;
                return Some((own, rest));
            };
            let until = self.instructions.get(instruction..end).unwrap_or_default();
            let count: usize = until.iter().map(|found| usize::from(found.accesses)).sum();
            let (run, behind) = rest.split_at(count.min(rest.len()));
            (instruction, rest, *process) = (end, behind, next);
            Some((own, run))
        })
    }

    /// Appends an event that happens before the next instruction pushed.
    pub fn push_event(&mut self, event: ProgramEvent) {
        self.events.push((self.instructions.len() as u32, event));
    }
}
