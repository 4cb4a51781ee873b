//! The loop body of a workload: the instructions around each memory access.
//!
//! For `others` = k: a chain of integer instructions makes the address, the access follows, and a
//! conditional branch, itself one of the k, closes the loop. Without others the loop is unrolled
//! 64 times, and only its closing branch remains beside the accesses. Of several chains of dependent
//! accesses each has a register of its own; they take turns.

use perforate_types::{Branch, Instruction, Operation, Register, VirtualAddress};

/// First address of the code, where non-relocatable x86-64 programs start.
pub(crate) const CODE_START: u64 = 0x40_0000;

pub(crate) const INSTRUCTION_BYTES: u8 = 4;
const UNROLLED: usize = 64;

const GENERATOR: Register = 1;
const VALUE: Register = 2;
const FLAGS: Register = 3;
/// Registers of the instructions that have nothing to do with the access.
const UNRELATED: [Register; 4] = [4, 5, 6, 7];
/// Longest chain of instructions that make an address.
const CHAIN: usize = 4;
/// The first register of chains that go on side by side; those below have other uses.
const FIRST_CHAIN: Register = 32;

/// How accesses depend on what was loaded before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependence {
    /// They do not.
    None,
    /// Each address is what was loaded so many accesses before.
    Chains(usize),
}

impl Dependence {
    /// The most chains: each takes a register.
    pub(super) const MAX_CHAINS: u64 = 64;
}

/// A loop, as instructions; those with an access have `accesses` = 1.
pub(super) fn instructions(others: usize, dependence: Dependence) -> Vec<Instruction> {
    let mut body = Vec::new();
    let chains = if let Dependence::Chains(chains) = dependence { chains } else { 1 };
    let closing = Instruction {
        sources: [FLAGS, 0, 0, 0],
        branch: Branch::Conditional,
        taken: true,
        ..Instruction::default()
    };
    if others == 0 {
        // As many of each chain.
        body.extend(
            (0..UNROLLED.next_multiple_of(chains)).map(|number| access(number, dependence)),
        );
        body.push(closing);
    } else {
        for chain in 0..chains {
            body.extend((0..others - 1).map(other));
            body.push(access(chain, dependence));
            body.push(closing);
        }
    }
    for (number, instruction) in body.iter_mut().enumerate() {
        let offset = number as u64 * u64::from(INSTRUCTION_BYTES);
        instruction.ip = VirtualAddress::new(CODE_START + offset);
        instruction.length = INSTRUCTION_BYTES;
    }
    body
}

fn access(number: usize, dependence: Dependence) -> Instruction {
    let (source, value) = match dependence {
        Dependence::None => (0, VALUE),
        Dependence::Chains(1) => (VALUE, VALUE),
        Dependence::Chains(chains) => {
            let register = FIRST_CHAIN + (number % chains) as Register;
            (register, register)
        }
    };
    Instruction {
        sources: [GENERATOR, source, 0, 0],
        destinations: [value, 0],
        accesses: 1,
        ..Instruction::default()
    }
}

/// The first few make the address from the one before; the rest is unrelated work.
fn other(number: usize) -> Instruction {
    let register = if number < CHAIN { GENERATOR } else { UNRELATED[number % UNRELATED.len()] };
    Instruction {
        sources: [register, 0, 0, 0],
        destinations: [register, FLAGS],
        operation: Operation::Integer,
        ..Instruction::default()
    }
}
