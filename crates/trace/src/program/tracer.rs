//! The recorder of a traced program.

use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use perforate_types::{
    AccessKind, Branch, Chunk, Instruction, MemoryAccess, Operation, ProgramEvent, Register,
    VirtualAddress,
};

use super::code::Code;
use super::value::{Operands, Value};
use crate::source::CHUNK_INSTRUCTIONS;
use crate::synthetic::INSTRUCTION_BYTES;

/// Written by comparisons, read by conditional branches.
const FLAGS: Register = 1;
/// Registers of the chains that [`Tracer::compute`] makes.
const CHAINS: [Register; 4] = [2, 3, 4, 5];

const PLAIN: Instruction = Instruction {
    ip: VirtualAddress::new(0),
    sources: [0; 4],
    data_sources: 0,
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
    outbox: Outbox,
}

/// Where a program leaves chunks for whoever reads them.
pub(super) type Outbox = Arc<Mutex<Chunk>>;

impl Tracer {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self { chunk: Chunk::default(), code: Code::new(), work: Vec::new(), outbox }
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
        let (ip, register) = self.line(1);
        let (sources, destinations) = (operands.registers(), [register, 0]);
        self.push(Instruction { ip, sources, destinations, operation, ..PLAIN });
        Value::new(result, register)
    }

    /// A comparison and a conditional branch on it; returns `taken`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn branch(&mut self, taken: bool, compared: impl Operands) -> bool {
        let (ip, _) = self.line(2);
        let (sources, destinations) = (compared.registers(), [FLAGS, 0]);
        self.push(Instruction { ip, sources, destinations, ..PLAIN });
        let ip = VirtualAddress::new(self.code.after(ip.value()));
        let (sources, branch) = ([FLAGS, 0, 0, 0], Branch::Conditional);
        self.push(Instruction { ip, sources, branch, taken, ..PLAIN });
        taken
    }

    /// An unconditional jump, such as at the end of a loop that is left in its middle.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn jump(&mut self) {
        let (ip, _) = self.line(1);
        self.push(Instruction { ip, branch: Branch::Jump, taken: true, ..PLAIN });
    }

    /// A small loop begins here: its code lies on as few lines of the cache as it can, as compilers
    /// align such loops.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn align(&mut self) {
        self.code.align(Location::caller());
    }

    /// So many integer instructions that have nothing to do with the rest, in one to four chains
    /// in which each waits for the one before.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn compute(&mut self, count: u32, chains: usize) {
        let (first, _) = self.line(count);
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
        let (ip, register) = self.line(1);
        let (sources, destinations) = (address.registers(), [register, 0]);
        self.access(AccessKind::Read, start, bytes);
        self.push(Instruction { ip, sources, destinations, accesses: 1, ..PLAIN });
        Value::new(contents, register)
    }

    /// A store of `bytes`; `address` is what the address was made of.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn store(
        &mut self,
        start: u64,
        bytes: u64,
        address: impl Operands,
        value: impl Operands,
    ) {
        let (ip, _) = self.line(1);
        let ([a, b, _, _], [c, d, _, _]) = (address.registers(), value.registers());
        self.access(AccessKind::Write, start, bytes);
        let (sources, data_sources) = ([a, b, c, d], 0b1100);
        self.push(Instruction { ip, sources, data_sources, accesses: 1, ..PLAIN });
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

    /// Where the calling line's instructions lie, and the register that it writes.
    #[inline(always)]
    #[track_caller]
    fn line(&mut self, count: u32) -> (VirtualAddress, Register) {
        let site = self.code.site(Location::caller(), count);
        (VirtualAddress::new(site.address), site.register)
    }

    /// The tracer for a function that is called from several lines: it has its own instructions and
    /// registers for each of them, as if it were inlined there. Else what one call returned is lost
    /// when the next one writes the same register.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn inlined(&mut self) -> Inlined<'_> {
        self.unrolled(0)
    }

    /// For the body of a loop: as many copies of it as there are numbers, each with its own
    /// instructions and registers.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn unrolled(&mut self, number: usize) -> Inlined<'_> {
        let outer = self.code.enter(Location::caller(), number);
        Inlined { tracer: self, outer }
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

/// A copy of the program's code, until it ends.
pub(crate) struct Inlined<'a> {
    tracer: &'a mut Tracer,
    outer: usize,
}

impl Deref for Inlined<'_> {
    type Target = Tracer;

    #[inline(always)]
    fn deref(&self) -> &Tracer {
        self.tracer
    }
}

impl DerefMut for Inlined<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Tracer {
        self.tracer
    }
}

impl Drop for Inlined<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.tracer.code.leave_to(self.outer);
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
