//! Instructions and memory accesses, as decoded from a trace.

use crate::{AccessKind, ProcessId, ProgramEvent, VirtualAddress};

/// Architectural register, numbered by the trace; 0 means none.
pub type Register = u8;

/// Register number of the stack pointer in traces of x86-64 programs.
pub const STACK_POINTER: Register = 5;
/// Register number of the arithmetic flags in traces.
pub const FLAGS: Register = 17;
/// Register number of the instruction pointer in traces: every branch writes it, and it is never a
/// source.
pub const INSTRUCTION_POINTER: Register = 18;

/// Kind of control transfer of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Branch {
    /// No control transfer: the next instruction follows.
    #[default]
    None,
    /// Conditional direct jump (x86: Jcc).
    Conditional,
    /// Unconditional direct jump (x86: JMP).
    Jump,
    /// Jump through a register or memory.
    Indirect,
    /// Direct call of a function.
    Call,
    /// Call through a register or memory.
    IndirectCall,
    /// Return from a call.
    Return,
}

impl Branch {
    /// All kinds of control transfer. `kind as u8` is the index of a kind in this array.
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

/// Class of computation, which determines an instruction's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Operation {
    /// Integer, logic, move, address computation.
    #[default]
    Integer,
    /// Integer multiplication (IMUL, MUL).
    Multiply,
    /// Division or square root.
    Divide,
    /// Floating-point or vector arithmetic.
    Float,
    /// System call, fence or other serialising instruction.
    Serializing,
}

impl Operation {
    /// All classes of computation. `class as u8` is the index of a class in this array.
    pub const ALL: [Self; 5] =
        [Self::Integer, Self::Multiply, Self::Divide, Self::Float, Self::Serializing];
}

/// One executed instruction. Its memory accesses follow in [`Chunk::accesses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Instruction {
    /// Address of the instruction.
    pub ip: VirtualAddress,
    /// Registers that the instruction reads; unused elements are 0.
    pub sources: [Register; 4],
    /// Bit *i* is set if `sources[i]` is not used to compute an address, so the instruction's loads
    /// and stores need not wait for that register. 0 if the trace does not record this.
    pub data_sources: u8,
    /// Registers that the instruction writes; unused elements are 0.
    pub destinations: [Register; 2],
    /// Number of memory accesses of this instruction.
    pub accesses: u8,
    /// Length in bytes, 1–15; 0 if the trace does not record it.
    pub length: u8,
    /// Kind of control transfer that the instruction performs, if any.
    pub branch: Branch,
    /// True if the branch was taken; false for other instructions.
    pub taken: bool,
    /// Class of computation, which determines the instruction's latency.
    pub operation: Operation,
}

/// One memory access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// Address of the first byte accessed.
    pub address: VirtualAddress,
    /// Number of bytes accessed, at least 1.
    pub size: u16,
    /// Kind of the access: a read or a write, but never a fetch.
    pub kind: AccessKind,
}

/// Sums up the numbers of memory accesses of these instructions.
pub fn access_count(instructions: &[Instruction]) -> usize {
    instructions.iter().map(|instruction| usize::from(instruction.accesses)).sum()
}

/// An event or an instruction of a [`Chunk`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChunkItem<'a> {
    /// Event that precedes the next instruction.
    Event(&'a ProgramEvent),
    /// An instruction with its accesses.
    Instruction(&'a Instruction, &'a [MemoryAccess]),
}

/// Consecutive decoded instructions, the unit in which a trace feeds the simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk {
    /// Instructions in program order.
    pub instructions: Vec<Instruction>,
    /// Accesses of all instructions in program order: the first [`Instruction::accesses`] elements
    /// belong to the first instruction, the next ones to the second, and so on.
    pub accesses: Vec<MemoryAccess>,
    /// Events in order. The number is the index of the instruction that an event precedes
    /// (`instructions.len()` after the last instruction).
    pub events: Vec<(u32, ProgramEvent)>,
}

impl Chunk {
    /// Empties the chunk, keeping its allocations.
    pub fn clear(&mut self) {
        self.instructions.clear();
        self.accesses.clear();
        self.events.clear();
    }

    /// True if the chunk has neither instructions nor events.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty() && self.events.is_empty()
    }

    /// Index of the first instruction of the phase called `phase`; `None` if the phase does not
    /// begin in this chunk.
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

    /// Splits the chunk's accesses, in program order, at context switches. Each item is a process
    /// and its accesses until the next switch. The caller sets `process` to the process that runs
    /// at the start of the chunk; the iterator updates it at each switch.
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
            let (run, behind) = rest.split_at(access_count(until).min(rest.len()));
            (instruction, rest, *process) = (end, behind, next);
            Some((own, run))
        })
    }

    /// Iterates over instructions and events in program order.
    pub fn in_order(&self) -> impl Iterator<Item = ChunkItem<'_>> {
        let mut events = self.events.iter().peekable();
        let mut instructions = self.instructions.iter();
        let (mut number, mut rest) = (0, self.accesses.as_slice());
        std::iter::from_fn(move || {
            if let Some((_, event)) = events.next_if(|(before, _)| *before <= number) {
                return Some(ChunkItem::Event(event));
            }
            let Some(instruction) = instructions.next() else {
                return events.next().map(|(_, event)| ChunkItem::Event(event));
            };
            let (own, later) = rest.split_at(usize::from(instruction.accesses).min(rest.len()));
            (number, rest) = (number + 1, later);
            Some(ChunkItem::Instruction(instruction, own))
        })
    }

    /// Appends the content of another chunk.
    pub fn append(&mut self, next: &Self) {
        let start = self.instructions.len() as u32;
        let events = next.events.iter();
        self.events.extend(events.map(|(before, event)| (start + before, event.clone())));
        self.instructions.extend_from_slice(&next.instructions);
        self.accesses.extend_from_slice(&next.accesses);
    }

    /// Appends an event that precedes the next instruction pushed.
    pub fn push_event(&mut self, event: ProgramEvent) {
        self.events.push((self.instructions.len() as u32, event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadId;

    fn access(address: u64) -> MemoryAccess {
        MemoryAccess { address: VirtualAddress::new(address), size: 8, kind: AccessKind::Read }
    }

    fn switch(process: u16) -> ProgramEvent {
        ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(0) }
    }

    fn phase(name: &str) -> ProgramEvent {
        ProgramEvent::Phase { name: name.into(), figures: Vec::new() }
    }

    /// Instructions with 2, 0, 1 and 1 accesses, numbered in order; events before the first, before
    /// the third (two), and after the last.
    fn chunk() -> Chunk {
        let mut chunk = Chunk::default();
        let mut next = 0;
        chunk.push_event(phase("setup"));
        for (number, count) in [2, 0, 1, 1].into_iter().enumerate() {
            if number == 2 {
                chunk.push_event(switch(5));
                chunk.push_event(phase("loop"));
            }
            let own: Vec<_> = (next..next + count).map(access).collect();
            next += count;
            let ip = VirtualAddress::new(0x1000 + number as u64);
            chunk.push(Instruction { ip, ..Instruction::default() }, &own);
        }
        chunk.push_event(switch(6));
        chunk
    }

    /// Events by their names, instructions by number and the addresses of their accesses.
    fn items(chunk: &Chunk) -> Vec<String> {
        let items = chunk.in_order().map(|item| match item {
            ChunkItem::Event(ProgramEvent::Switch { process, .. }) => {
                format!("switch {}", process.0)
            }
            ChunkItem::Event(ProgramEvent::Phase { name, .. }) => format!("phase {name}"),
            ChunkItem::Event(event) => panic!("{event:?}"),
            ChunkItem::Instruction(instruction, accesses) => {
                let accesses: Vec<_> = accesses.iter().map(|it| it.address.value()).collect();
                format!("{} {accesses:?}", instruction.ip.value() - 0x1000)
            }
        });
        items.collect()
    }

    #[test]
    fn events_precede_their_instruction_and_accesses_belong_to_it() {
        let own = [
            "phase setup",
            "0 [0, 1]",
            "1 []",
            "switch 5",
            "phase loop",
            "2 [2]",
            "3 [3]",
            "switch 6",
        ];
        let mut chunk = chunk();
        assert_eq!(items(&chunk), own);
        assert_eq!(access_count(&chunk.instructions), 4);
        let again = chunk.clone();
        chunk.append(&again);
        assert_eq!(items(&chunk), [own, own].concat());
    }

    #[test]
    fn a_phase_starts_at_its_instruction() {
        let chunk = chunk();
        let starts = ["setup", "loop", "end"].map(|phase| chunk.phase_start(phase));
        assert_eq!(starts, [Some(0), Some(2), None]);
    }

    #[test]
    fn accesses_are_split_at_switches() {
        let chunk = chunk();
        let mut process = ProcessId(4);
        let parts: Vec<(u16, usize)> = chunk
            .accesses_by_process(&mut process)
            .map(|(process, accesses)| (process.0, accesses.len()))
            .take(9)
            .collect();
        assert_eq!(parts, [(4, 2), (5, 2), (6, 0)]);
        assert_eq!(process, ProcessId(6));
    }

    #[test]
    fn a_cleared_chunk_is_empty() {
        let mut chunk = chunk();
        assert!(!chunk.is_empty());
        chunk.clear();
        assert!(chunk.is_empty());
        assert_eq!(chunk, Chunk::default());
        chunk.push_event(phase("only"));
        assert!(!chunk.is_empty());
    }
}
