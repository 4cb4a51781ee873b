//! Writer of lists of accesses, which `../text.rs` reads: an I line for each instruction, then one line
//! for each of its accesses.

use std::io::Write;

use perforate_types::{AccessKind, Instruction, MemoryAccess, ProcessId, ProgramEvent};

use super::Encoder;
use crate::foreign::text::HEADER;

/// Encoder of a list of accesses. The running process is the only state that it keeps from line to line.
#[derive(Default)]
pub(super) struct Csv(ProcessId);

/// Returns the first line of the file, which names the columns.
pub(super) fn start() -> String {
    format!("{HEADER}\n")
}

impl Encoder for Csv {
    fn instruction(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
        bytes: &mut Vec<u8>,
    ) -> u64 {
        let (ip, pid) = (instruction.ip, self.0.0);
        // Writing to a `Vec` cannot fail.
        let _ = match instruction.length {
            0 => writeln!(bytes, "I,{ip:#x},,{pid},"),
            length => writeln!(bytes, "I,{ip:#x},{length},{pid},"),
        };
        for MemoryAccess { address, size, kind } in accesses {
            let kind = if *kind == AccessKind::Write { 'W' } else { 'R' };
            let _ = writeln!(bytes, "{kind},{address:#x},{size},{pid},{ip:#x}");
        }
        0
    }

    fn event(&mut self, event: &ProgramEvent) -> bool {
        let ProgramEvent::Switch { process, .. } = event else { return false };
        self.0 = *process;
        true
    }
}
