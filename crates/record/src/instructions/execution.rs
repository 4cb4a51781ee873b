//! Detection of partly executed blocks, and of the end of repeated string instructions.

use perforate_types::{Branch, Instruction, MemoryAccess, Operation};

use super::accesses::{Piece, Repetition};
use super::blocks::{Block, Blocks};
use super::decode::Decoded;
use crate::RecordError;
use crate::replay::relocation::Relocation;

/// A repeated string instruction that may continue in the next block.
pub struct RunningRepetition {
    decoded: Decoded,
    collected: Repetition,
    /// True if a part of the repeated instruction's accesses is in the trace already.
    is_continued: bool,
}

/// Determines how many instructions of `block` were executed; `next` is the address at which the thread
/// continued. The emulator leaves a block early if an instruction has to run alone (atomics, self-modifying
/// code), and enters a new block at that instruction.
pub fn executed(
    blocks: &Blocks,
    block: &Block,
    next: Option<u64>,
    relocation: &Relocation,
) -> usize {
    let instructions = blocks.instructions(block);
    let all = instructions.len();
    let Some((next, last)) = next.zip(instructions.last()) else { return all };
    let explained = match last.instruction.branch {
        Branch::None => next == block.end || last.repeats,
        Branch::Conditional | Branch::Jump | Branch::Call => {
            next == block.end || relocation.relocate(next) == last.target
        }
        Branch::Indirect | Branch::IndirectCall | Branch::Return => true,
    };
    if explained || last.instruction.operation == Operation::Serializing {
        return all;
    }
    // An address outside the block is a signal handler's, after the whole block.
    blocks.index_at(block, next).filter(|index| *index > 0).unwrap_or(all)
}

/// Adds one iteration of a repeated string instruction to `running`. As on hardware, all iterations become
/// one instruction, which `emit` receives after the last iteration; several instructions if there are too
/// many accesses.
pub fn repeat(
    running: &mut Option<RunningRepetition>,
    decoded: &Decoded,
    pieces: &[Piece],
    goes_on: bool,
    mut emit: impl FnMut(&Instruction, &[MemoryAccess]) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    if running.as_ref().is_none_or(|running| running.decoded != *decoded) {
        let collected = Repetition::default();
        *running = Some(RunningRepetition { decoded: *decoded, collected, is_continued: false });
    }
    let Some(repetition) = running else { return Ok(()) };
    for (_, piece) in pieces {
        if repetition.collected.is_full() {
            emit(&decoded.instruction, &repetition.collected.take())?;
            repetition.is_continued = true;
        }
        repetition.collected.add(piece);
    }
    if !goes_on {
        let rest = repetition.collected.take();
        if !rest.is_empty() || !repetition.is_continued {
            emit(&decoded.instruction, &rest)?;
        }
        *running = None;
    }
    Ok(())
}
