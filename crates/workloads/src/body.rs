//! Loop body of a workload: the instructions around each memory access.
//!
//! With `others` = k, a chain of integer instructions computes the address, the access follows, and a
//! conditional branch, one of the k, closes the loop. With k = 0, the loop is unrolled 64 times, and
//! only accesses and one closing branch remain. If there are several chains of dependent accesses, each
//! chain has its own register, and the chains alternate.

use perforate_types::{Branch, Instruction, Operation, Register, VirtualAddress};

/// Start address of the code: the usual start of x86-64 programs without position-independent code.
pub(crate) const CODE_START: u64 = 0x40_0000;

pub(crate) const INSTRUCTION_BYTES: u8 = 4;
const UNROLLED: usize = 64;

const GENERATOR: Register = 1;
const VALUE: Register = 2;
const FLAGS: Register = 3;
/// Registers of the instructions in a loop body that are independent of its memory access.
const UNRELATED: [Register; 4] = [4, 5, 6, 7];
/// Maximum length of the chain of instructions that computes an address.
const CHAIN: usize = 4;
/// First register of the chains of dependent accesses; lower registers have other uses.
const FIRST_CHAIN: Register = 32;

/// Dependence of the loop's accesses on values that earlier accesses loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependence {
    /// Accesses are independent of loaded values.
    None,
    /// Each address is the value loaded this many accesses earlier, so there are as many chains.
    Chains(usize),
}

impl Dependence {
    /// Maximum number of chains of dependent accesses; each chain takes a register.
    pub(super) const MAX_CHAINS: u64 = 64;
}

/// Instructions of a loop body; `others` instructions surround each access. Instructions with an access have
/// `accesses` = 1.
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
        // The same number of accesses for each chain.
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

/// Makes the `number`-th, from 0, of the loop body's instructions that do not access memory. The first few
/// compute the address, each from the previous one; the rest are independent work.
fn other(number: usize) -> Instruction {
    let register = if number < CHAIN { GENERATOR } else { UNRELATED[number % UNRELATED.len()] };
    Instruction {
        sources: [register, 0, 0, 0],
        destinations: [register, FLAGS],
        operation: Operation::Integer,
        ..Instruction::default()
    }
}
