//! The recorder of a traced program.

use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use perforate_types::{
    AccessKind, Branch, Chunk, Instruction, MemoryAccess, Operation, ProgramEvent, Register,
    VirtualAddress,
};

use super::code::Code;
use super::value::{Operands, Value, Written};
use crate::source::CHUNK_INSTRUCTIONS;
use crate::synthetic::INSTRUCTION_BYTES;

/// Registers of the chains that [`Tracer::compute`] makes.
const CHAINS: [Register; 4] = [1, 2, 3, 4];
/// The first of the registers that all other instructions write, one after the other.
const FIRST_REGISTER: u32 = 8;
/// As many as there are numbers of one byte.
const REGISTERS: u32 = 256;

const PLAIN: Instruction = Instruction {
    ip: VirtualAddress::new(0),
    sources: [0; 4],
    destinations: [0; 2],
    accesses: 0,
    length: INSTRUCTION_BYTES,
    branch: Branch::None,
    taken: false,
    operation: Operation::Integer,
};

/// Notes the instructions of a program, in the order in which it calls.
pub(crate) struct Tracer {
    chunk: Chunk,
    code: Code,
    /// What [`Self::compute`] did last.
    work: Vec<Instruction>,
    /// The register that was written last.
    last: Written,
    outbox: Outbox,
}

/// Where a program leaves chunks for whoever reads them.
pub(super) type Outbox = Arc<Mutex<Chunk>>;

impl Tracer {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self { chunk: Chunk::default(), code: Code::new(), work: Vec::new(), last: 0, outbox }
    }

    /// Leaves the addresses of all instructions out, so that none is fetched.
    pub(crate) fn leave_code_out(&mut self) {
        self.code.leave_out();
    }

    /// Integer arithmetic, logic, a move, a conditional move, a bit scan.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn integer<T>(&mut self, operands: impl Operands, result: T) -> Value<T> {
        self.operation(Operation::Integer, operands, result)
    }

    /// Integer multiplication.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn multiply<T>(&mut self, operands: impl Operands, result: T) -> Value<T> {
        self.operation(Operation::Multiply, operands, result)
    }

    /// Division.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn divide<T>(&mut self, operands: impl Operands, result: T) -> Value<T> {
        self.operation(Operation::Divide, operands, result)
    }

    /// Floating-point arithmetic.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn float<T>(&mut self, operands: impl Operands, result: T) -> Value<T> {
        self.operation(Operation::Float, operands, result)
    }

    #[inline(always)]
    #[track_caller]
    fn operation<T>(
        &mut self,
        operation: Operation,
        operands: impl Operands,
        result: T,
    ) -> Value<T> {
        let (ip, sources) = (self.address(1), self.registers(operands));
        let destinations = [self.new_register(), 0];
        self.push(Instruction { ip, sources, destinations, operation, ..PLAIN });
        Value::new(result, self.last)
    }

    /// A comparison and a conditional branch on it; returns `taken`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn branch(&mut self, taken: bool, compared: impl Operands) -> bool {
        let (ip, sources) = (self.address(2), self.registers(compared));
        let flags = self.new_register();
        self.push(Instruction { ip, sources, destinations: [flags, 0], ..PLAIN });
        let ip = VirtualAddress::new(self.code.after(ip.value()));
        let (sources, branch) = ([flags, 0, 0, 0], Branch::Conditional);
        self.push(Instruction { ip, sources, branch, taken, ..PLAIN });
        taken
    }

    /// An unconditional jump, such as at the end of a loop that is left in its middle.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn jump(&mut self) {
        let ip = self.address(1);
        self.push(Instruction { ip, branch: Branch::Jump, taken: true, ..PLAIN });
    }

    /// So many integer instructions that have nothing to do with the rest, in one to four chains
    /// in which each waits for the one before.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn compute(&mut self, count: u32, chains: usize) {
        let first = self.address(count);
        if self.work.first().is_none_or(|work| work.ip != first)
            || self.work.len() != count as usize
        {
            self.work = self.make_work(first, count, chains);
        }
        self.chunk.instructions.extend_from_slice(&self.work);
    }

    #[cold]
    fn make_work(&self, first: VirtualAddress, count: u32, chains: usize) -> Vec<Instruction> {
        let addresses = std::iter::successors(Some(first.value()), |&ip| Some(self.code.after(ip)));
        let registers = CHAINS[..chains].iter().cycle();
        let instructions = addresses.zip(registers).map(|(ip, &register)| {
            let (sources, destinations) = ([register, 0, 0, 0], [register, 0]);
            Instruction { ip: VirtualAddress::new(ip), sources, destinations, ..PLAIN }
        });
        instructions.take(count as usize).collect()
    }

    /// A load of `bytes`; `address` is what the address was made of.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn load<T>(
        &mut self,
        start: u64,
        bytes: u64,
        address: impl Operands,
        contents: T,
    ) -> Value<T> {
        let (ip, sources) = (self.address(1), self.registers(address));
        let destinations = [self.new_register(), 0];
        self.access(AccessKind::Read, start, bytes);
        self.push(Instruction { ip, sources, destinations, accesses: 1, ..PLAIN });
        Value::new(contents, self.last)
    }

    /// A store of `bytes`; `operands` are the value and what the address was made of.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn store(&mut self, start: u64, bytes: u64, operands: impl Operands) {
        let (ip, sources) = (self.address(1), self.registers(operands));
        self.access(AccessKind::Write, start, bytes);
        self.push(Instruction { ip, sources, accesses: 1, ..PLAIN });
    }

    #[inline(always)]
    fn access(&mut self, kind: AccessKind, start: u64, bytes: u64) {
        let address = VirtualAddress::new(start);
        self.chunk.accesses.push(MemoryAccess { address, size: bytes as u16, kind });
    }

    #[inline(always)]
    fn push(&mut self, instruction: Instruction) {
        self.chunk.instructions.push(instruction);
    }

    /// Where the calling line's instructions lie.
    #[inline(always)]
    #[track_caller]
    fn address(&mut self, count: u32) -> VirtualAddress {
        VirtualAddress::new(self.code.address(Location::caller(), count))
    }

    /// Registers are written in turn. What was made so long ago that its register was written anew
    /// is older than the instructions a processor works on, and nobody waits for it.
    #[inline(always)]
    fn registers(&self, operands: impl Operands) -> [Register; 4] {
        let [first, second] = operands.written().map(|written| {
            let is_held = self.last.wrapping_sub(written) < REGISTERS;
            if is_held { written as Register } else { 0 }
        });
        [first, second, 0, 0]
    }

    #[inline(always)]
    fn new_register(&mut self) -> Register {
        let next = self.last.wrapping_add(1);
        let skips_unused = next % REGISTERS < FIRST_REGISTER;
        self.last = if skips_unused { next | FIRST_REGISTER } else { next };
        self.last as Register
    }

    /// The program asks something of the operating system.
    pub(crate) fn event(&mut self, event: ProgramEvent) {
        self.chunk.push_event(event);
    }

    /// The program begins a part of its work, after which `figures` are true of it. A phase is the
    /// beginning of a chunk.
    pub(crate) async fn begin_phase(&mut self, name: &str, figures: &[(&str, u64)]) {
        self.finish().await;
        let figures = figures.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        self.event(ProgramEvent::Phase { name: name.to_owned(), figures });
    }

    /// A place where the program may be stopped: hands over what is a whole chunk.
    #[inline]
    pub(crate) async fn pause(&mut self) {
        while self.chunk.instructions.len().max(self.chunk.events.len()) >= CHUNK_INSTRUCTIONS {
            self.hand_over(CHUNK_INSTRUCTIONS).await;
        }
    }

    /// Hands over everything.
    pub(super) async fn finish(&mut self) {
        while !self.chunk.is_empty() {
            self.hand_over(CHUNK_INSTRUCTIONS).await;
        }
    }

    /// Hands over so many instructions, and waits until more are wanted.
    async fn hand_over(&mut self, instructions: usize) {
        self.leave(instructions);
        Stopped(false).await;
    }

    /// Leaves so many instructions in the outbox, and takes the empty chunk that was there.
    fn leave(&mut self, instructions: usize) {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.clear();
        std::mem::swap(&mut *outbox, &mut self.chunk);
        split(&mut outbox, instructions, &mut self.chunk);
    }
}

/// Moves what comes after so many instructions into an empty chunk; events after the last
/// instruction stay.
pub(super) fn split(chunk: &mut Chunk, instructions: usize, rest: &mut Chunk) {
    if chunk.instructions.len() <= instructions {
        return;
    }
    rest.instructions.extend(chunk.instructions.drain(instructions..));
    let accesses: usize = rest.instructions.iter().map(|one| usize::from(one.accesses)).sum();
    rest.accesses.extend(chunk.accesses.drain(chunk.accesses.len() - accesses..));
    let first = chunk.events.partition_point(|(before, _)| (*before as usize) < instructions);
    let events = chunk.events.drain(first..);
    rest.events.extend(events.map(|(before, event)| (before - instructions as u32, event)));
}

/// Stops the program once.
struct Stopped(bool);

impl Future for Stopped {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}
