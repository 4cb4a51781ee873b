//! Recorder of a traced program's instructions.

use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use perforate_trace::CHUNK_INSTRUCTIONS;
use perforate_types::{
    AccessKind, Branch, Chunk, Instruction, MemoryAccess, Operation, ProgramEvent, Register,
    VirtualAddress, access_count,
};

use super::code::Code;
use super::value::{Operands, Value};
use crate::body::INSTRUCTION_BYTES;

/// Register that comparisons write and conditional branches read.
const FLAGS: Register = 1;
/// Registers of the dependence chains that [`Tracer::compute`] makes.
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

/// Recorder of a program's instructions, in the order in which the program calls its methods.
pub(crate) struct Tracer {
    chunk: Chunk,
    code: Code,
    /// Buffer for the instructions of the last [`Self::compute`].
    work: Vec<Instruction>,
    outbox: Outbox,
}

/// Chunk in which the instructions that the program recorded pass to the reader of the source.
pub(super) type Outbox = Arc<Mutex<Chunk>>;

impl Tracer {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self { chunk: Chunk::default(), code: Code::new(), work: Vec::new(), outbox }
    }

    /// Gives all instructions the address 0, so that no instruction is fetched.
    pub(crate) fn leave_code_out(&mut self) {
        self.code.leave_out();
    }

    /// Records an integer instruction: arithmetic, logic, move, conditional move or bit scan. Returns
    /// `result`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn integer<T>(&mut self, operands: impl Operands, result: T) -> Value<T> {
        self.operation(Operation::Integer, operands, result)
    }

    /// Records an integer multiplication of `operands`. Returns `result`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn multiply<T>(&mut self, operands: impl Operands, result: T) -> Value<T> {
        self.operation(Operation::Multiply, operands, result)
    }

    /// Records an integer or floating-point division. Returns `result`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn divide<T>(&mut self, operands: impl Operands, result: T) -> Value<T> {
        self.operation(Operation::Divide, operands, result)
    }

    /// Records floating-point arithmetic other than a division. Returns `result`.
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

    /// Records a comparison, and a conditional branch on its result. Returns `taken`.
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

    /// Records an unconditional jump, such as at the end of a loop with its exit in the middle.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn jump(&mut self) {
        let (ip, _) = self.line(1);
        self.push(Instruction { ip, branch: Branch::Jump, taken: true, ..PLAIN });
    }

    /// Aligns the following code, a small loop, to a cache line, as compilers align such loops.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn align(&mut self) {
        self.code.align(Location::caller());
    }

    /// Records `count` integer instructions that are independent of the rest, in one to four dependence
    /// chains.
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

    /// Records a load of `bytes` bytes at `start`; `address` has the operands that form the address. Returns
    /// `contents`.
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

    /// Records a store of `bytes` bytes at `start`; `address` has the operands that form the address.
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

    /// Address of the first of `count` instructions of the calling source line, and the register that the
    /// line writes.
    #[inline(always)]
    #[track_caller]
    fn line(&mut self, count: u32) -> (VirtualAddress, Register) {
        let site = self.code.site(Location::caller(), count);
        (VirtualAddress::new(site.address), site.register)
    }

    /// Makes a tracer for a function that is called from several lines: for each of these lines, the function
    /// has its own instructions and registers, as if it were inlined. Without this, the result of a call is
    /// lost when the next call writes the same register.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn inlined(&mut self) -> Inlined<'_> {
        self.unrolled(0)
    }

    /// Makes a tracer for copy `number` of the body of an unrolled loop; each copy has its own instructions
    /// and registers.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn unrolled(&mut self, number: usize) -> Inlined<'_> {
        let outer = self.code.enter(Location::caller(), number);
        Inlined { tracer: self, outer }
    }

    /// Records a request of the program to the operating system.
    pub(crate) fn event(&mut self, event: ProgramEvent) {
        self.chunk.push_event(event);
    }

    /// Begins a phase of the program's work with an event; `figures` describe the work so far. A phase starts
    /// a new chunk.
    pub(crate) async fn begin_phase(&mut self, name: &str, figures: &[(&str, u64)]) {
        self.finish().await;
        let figures = figures.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        self.event(ProgramEvent::Phase { name: name.to_owned(), figures });
    }

    /// Lets the reader suspend the program here: if the chunk is full, delivers it and waits for the next
    /// request.
    #[inline]
    pub(crate) async fn pause(&mut self) {
        while self.chunk.instructions.len().max(self.chunk.events.len()) >= CHUNK_INSTRUCTIONS {
            self.hand_over(CHUNK_INSTRUCTIONS).await;
        }
    }

    /// Delivers all recorded instructions and events to the reader.
    pub(super) async fn finish(&mut self) {
        while !self.chunk.is_empty() {
            self.hand_over(CHUNK_INSTRUCTIONS).await;
        }
    }

    /// Delivers at most `instructions` instructions to the reader, and waits until more are requested.
    async fn hand_over(&mut self, instructions: usize) {
        self.leave(instructions);
        YieldOnce(false).await;
    }

    /// Moves at most `instructions` instructions to the outbox, the chunk that the reader takes. Later
    /// instructions stay in the tracer's chunk.
    fn leave(&mut self, instructions: usize) {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.clear();
        std::mem::swap(&mut *outbox, &mut self.chunk);
        split(&mut outbox, instructions, &mut self.chunk);
    }
}

/// Tracer within a copy of the code. When it is dropped, the tracer returns to the outer copy.
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

/// Moves everything after the first `instructions` instructions of `chunk` into `rest`, which is empty.
/// Events after the last instruction stay.
pub(super) fn split(chunk: &mut Chunk, instructions: usize, rest: &mut Chunk) {
    if chunk.instructions.len() <= instructions {
        return;
    }
    rest.instructions.extend(chunk.instructions.drain(instructions..));
    let kept = chunk.accesses.len() - access_count(&rest.instructions);
    rest.accesses.extend(chunk.accesses.drain(kept..));
    let first = chunk.events.partition_point(|(before, _)| (*before as usize) < instructions);
    let events = chunk.events.drain(first..);
    rest.events.extend(events.map(|(before, event)| (before - instructions as u32, event)));
}

/// Future that suspends the program at its first poll.
struct YieldOnce(bool);

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}
