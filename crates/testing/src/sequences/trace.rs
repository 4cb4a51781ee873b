//! Sequences as traces in Perforate's format.

use std::path::Path;

use perforate_trace::{TraceError, TraceMetadata, TraceSummary, TraceWriter};
use perforate_types::{AccessKind, Instruction, MemoryAccess};

use crate::sequences::Step;

/// Writes a trace with the events and accesses of a sequence. Each access becomes one instruction.
///
/// # Errors
/// If the file cannot be written.
pub fn write(steps: &[Step], path: &Path) -> Result<TraceSummary, TraceError> {
    let metadata = TraceMetadata { has_events: true, ..TraceMetadata::default() };
    let mut writer = TraceWriter::create(path, &metadata)?;
    for step in steps {
        match step {
            Step::Event(event) => writer.event(event.clone())?,
            Step::Access { kind: AccessKind::Fetch, address } => {
                writer.push(&Instruction { ip: *address, ..Instruction::default() }, &[])?;
            }
            &Step::Access { kind, address } => {
                let access = MemoryAccess { address, size: 1, kind };
                writer.push(&Instruction::default(), &[access])?;
            }
        }
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use perforate_trace::Source;
    use perforate_types::Chunk;

    use super::*;
    use perforate_types::Random;

    use crate::sequences::sequence;

    #[test]
    fn a_trace_holds_all_steps() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let steps = sequence(&mut Random::new(5), 60);
        let summary = write(&steps, file.path()).unwrap();
        assert_eq!(summary.events + summary.instructions, 60);
        let mut source = perforate_trace::open(file.path()).unwrap();
        let (mut chunk, mut read) = (Chunk::default(), Vec::new());
        while source.next_chunk(&mut chunk).unwrap() {
            read.extend(chunk.events.drain(..).map(|(_, event)| event));
        }
        let events = steps.iter().filter_map(|step| match step {
            Step::Event(event) => Some(event.clone()),
            Step::Access { .. } => None,
        });
        assert!(events.eq(read));
    }
}
