//! Writer of ChampSim's records of 64 bytes, which `../champsim.rs` reads.
//!
//! ChampSim infers the kind of a branch from the special registers that it reads and writes. So special
//! registers are written as the kind requires, regardless of the source trace. Other registers are kept
//! if the kind and the four places allow.

use perforate_types::{
    AccessKind, Branch, FLAGS, INSTRUCTION_POINTER, Instruction, MemoryAccess, ProgramEvent,
    Register, STACK_POINTER,
};

use super::Encoder;
use crate::foreign::champsim::{UNKNOWN_TARGET, exchange};

/// Maximum number of read addresses in a ChampSim record.
const READS: usize = 4;
const WRITES: usize = 2;

pub(super) struct ChampSim;

impl Encoder for ChampSim {
    fn instruction(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
        bytes: &mut Vec<u8>,
    ) -> u64 {
        let (read, written) = registers(instruction);
        let (mut reads, mut writes) = ([0; READS], [0; WRITES]);
        let (mut next_read, mut next_write) = (reads.iter_mut(), writes.iter_mut());
        let mut lost = 0;
        for access in accesses {
            let place = match access.kind {
                AccessKind::Write => next_write.next(),
                AccessKind::Read | AccessKind::Fetch => next_read.next(),
            };
            match place {
                Some(place) if access.address.value() != 0 => *place = access.address.value(),
                _ => lost += 1,
            }
        }
        let is_branch = instruction.branch != Branch::None;
        let mut record = [0; 64];
        record[..8].copy_from_slice(&instruction.ip.value().to_le_bytes());
        record[8..10].copy_from_slice(&[is_branch.into(), (is_branch && instruction.taken).into()]);
        record[10..12].copy_from_slice(&written.map(exchange));
        record[12..16].copy_from_slice(&read.map(exchange));
        for (place, address) in record[16..].chunks_exact_mut(8).zip(writes.iter().chain(&reads)) {
            place.copy_from_slice(&u64::to_le_bytes(*address));
        }
        bytes.extend_from_slice(&record);
        lost
    }

    fn event(&mut self, _: &ProgramEvent) -> bool {
        false
    }
}

/// Returns the registers that a ChampSim record names as read and as written, in Perforate's numbering.
fn registers(instruction: &Instruction) -> ([Register; 4], [Register; 2]) {
    const NONE: &[Register] = &[];
    const POINTERS: &[Register] = &[INSTRUCTION_POINTER, STACK_POINTER];
    const ALL: &[Register] = &[INSTRUCTION_POINTER, STACK_POINTER, FLAGS];
    const JUMP: &[Register] = &[INSTRUCTION_POINTER];
    let Instruction { sources, destinations, branch, .. } = instruction;
    let names_ip = sources.contains(&INSTRUCTION_POINTER) | destinations.contains(&JUMP[0]);
    if *branch == Branch::None && !names_ip {
        return (*sources, *destinations);
    }
    let tells_condition = sources.iter().any(|one| *one != 0 && !POINTERS.contains(one));
    // Registers that the kind requires to be read and written, and registers that it forbids.
    let (reads, never_reads, writes, never_writes) = match branch {
        Branch::None => (NONE, JUMP, NONE, JUMP),
        Branch::Conditional if tells_condition => (JUMP, POINTERS, JUMP, POINTERS),
        Branch::Conditional => (&[INSTRUCTION_POINTER, FLAGS][..], POINTERS, JUMP, POINTERS),
        Branch::Jump => (JUMP, ALL, JUMP, POINTERS),
        Branch::Indirect => (NONE, JUMP, JUMP, POINTERS),
        Branch::Call => (POINTERS, ALL, POINTERS, NONE),
        Branch::IndirectCall => (POINTERS, ALL, POINTERS, NONE),
        Branch::Return => (&[STACK_POINTER][..], JUMP, POINTERS, NONE),
    };
    let has_others = !matches!(branch, Branch::Jump | Branch::Call);
    let is_indirect = matches!(branch, Branch::Indirect | Branch::IndirectCall);
    let usable =
        |register: &&Register| has_others && !(is_indirect && **register == UNKNOWN_TARGET);
    let others = sources.iter().filter(usable).copied();
    let mut read = places(reads, others.filter(|register| !never_reads.contains(register)));
    let names_target = read.iter().any(|register| !reads.contains(register) && *register != 0);
    if is_indirect && !names_target {
        let free = read.iter().position(|&register| register == 0).unwrap_or(3);
        read[free] = UNKNOWN_TARGET;
    }
    let others = destinations.iter().copied();
    let written = places(writes, others.filter(|register| !never_writes.contains(register)));
    (read, written)
}

/// Fills a record's register places: the `demanded` registers (by which ChampSim recognizes the kind of a
/// branch) first, then `others` while there is room. If none is demanded, each of the others stays at its own
/// place.
fn places<const N: usize>(
    demanded: &[Register],
    others: impl Iterator<Item = Register>,
) -> [Register; N] {
    let mut list = [0; N];
    let others = others.filter(|register| !demanded.contains(register));
    if demanded.is_empty() {
        for (place, register) in list.iter_mut().zip(others) {
            *place = register;
        }
        return list;
    }
    let all = demanded.iter().copied().chain(others.filter(|&register| register != 0));
    for (place, register) in list.iter_mut().zip(all) {
        *place = register;
    }
    list
}
