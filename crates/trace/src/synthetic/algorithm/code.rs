//! The machine code of an algorithm: basic blocks, one after the other in memory.
//!
//! A block is what a compiler makes of a few lines of the algorithm: loads and stores, the integer
//! and floating-point work between them, and at most one branch, at its end. A branch that is not
//! taken goes on with the next block.

use perforate_types::{Branch, Instruction, Operation, Register, VirtualAddress};

use crate::synthetic::body::{CODE_START, INSTRUCTION_BYTES};

/// Written by comparisons, read by conditional branches.
pub(super) const FLAGS: Register = 3;

/// An instruction with no address yet.
#[derive(Clone, Copy)]
pub(super) struct Op(Instruction);

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

const fn op(destination: Register, sources: &[Register], operation: Operation) -> Op {
    let mut instruction = PLAIN;
    let mut place = 0;
    while place < sources.len() {
        instruction.sources[place] = sources[place];
        place += 1;
    }
    instruction.destinations[0] = destination;
    instruction.operation = operation;
    Op(instruction)
}

/// Loads `to` from an address made of registers.
pub(super) const fn load(to: Register, address: &[Register]) -> Op {
    let mut load = op(to, address, Operation::Integer);
    load.0.accesses = 1;
    load
}

/// Stores; the sources are the value and what makes the address.
pub(super) const fn store(sources: &[Register]) -> Op {
    let mut store = op(0, sources, Operation::Integer);
    store.0.accesses = 1;
    store
}

/// Integer arithmetic, logic, moves, conditional moves, bit scans.
pub(super) const fn integer(to: Register, sources: &[Register]) -> Op {
    op(to, sources, Operation::Integer)
}

/// Integer multiplication.
pub(super) const fn multiply(to: Register, sources: &[Register]) -> Op {
    op(to, sources, Operation::Multiply)
}

/// Division.
pub(super) const fn divide(to: Register, sources: &[Register]) -> Op {
    op(to, sources, Operation::Divide)
}

/// Floating-point arithmetic.
pub(super) const fn float(to: Register, sources: &[Register]) -> Op {
    op(to, sources, Operation::Float)
}

/// Compares registers, or one with a constant.
pub(super) const fn compare(sources: &[Register]) -> Op {
    op(FLAGS, sources, Operation::Integer)
}

const fn transfer(branch: Branch, sources: &[Register]) -> Op {
    let mut transfer = op(0, sources, Operation::Integer);
    transfer.0.branch = branch;
    transfer
}

/// A conditional branch on the comparison before it.
pub(super) const fn conditional() -> Op {
    transfer(Branch::Conditional, &[FLAGS])
}

/// An unconditional jump.
pub(super) const fn jump() -> Op {
    transfer(Branch::Jump, &[])
}

/// A call of a function. The return address goes to a stack that stays in the first cache; its
/// accesses are left out.
pub(super) const fn call() -> Op {
    transfer(Branch::Call, &[])
}

/// The return from a function.
pub(super) const fn ret() -> Op {
    transfer(Branch::Return, &[])
}

/// Place of a block in its program.
pub(super) type Block = usize;

/// A program: its blocks in order of their addresses.
pub(super) struct Code {
    instructions: Vec<Instruction>,
    /// Where each block starts, and where the last one ends.
    starts: Vec<usize>,
}

impl Code {
    pub(super) fn new(blocks: &[&[Op]]) -> Self {
        let mut code = Self { instructions: Vec::new(), starts: vec![0] };
        for block in blocks {
            for &Op(instruction) in *block {
                let offset = code.instructions.len() as u64 * u64::from(INSTRUCTION_BYTES);
                let ip = VirtualAddress::new(CODE_START + offset);
                let always = !matches!(instruction.branch, Branch::None | Branch::Conditional);
                code.instructions.push(Instruction { ip, taken: always, ..instruction });
            }
            code.starts.push(code.instructions.len());
        }
        code
    }

    #[inline]
    pub(super) fn block(&self, block: Block) -> &[Instruction] {
        &self.instructions[self.starts[block]..self.starts[block + 1]]
    }

    pub(super) fn bytes(&self) -> u64 {
        self.instructions.len() as u64 * u64::from(INSTRUCTION_BYTES)
    }
}
