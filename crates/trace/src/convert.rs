//! Conversion of any source to Perforate's trace format.

use perforate_types::{Chunk, ChunkItem};

use crate::{Source, TraceError, TraceMetadata, TraceSummary, TraceWriter};

/// Metadata for a trace converted from `source`. The caller adds fields that the source does not know.
pub fn metadata_for(source: &dyn Source) -> TraceMetadata {
    let metadata = source.metadata();
    TraceMetadata {
        program: vec![metadata.name.clone()],
        recorder: metadata.format.to_owned(),
        architecture: "x86_64".to_owned(),
        created_by: concat!("perforate ", env!("CARGO_PKG_VERSION")).to_owned(),
        is_cut_off: metadata.is_cut_off,
        instructions_skipped: metadata.instructions_skipped,
        stopped_by: metadata.stopped_by,
        failure: metadata.failure.clone(),
        accesses_unmapped: metadata.accesses_unmapped,
        has_events: metadata.has_events,
        has_dependencies: metadata.has_dependencies,
        has_branches: metadata.has_branches,
        assumptions: metadata.assumptions.clone(),
        ..TraceMetadata::default()
    }
}

/// Writes the rest of `source` and finishes the file.
///
/// # Errors
/// If the source cannot be read or the file cannot be written. The partial file is a readable,
/// unfinished trace.
pub fn convert(
    source: &mut dyn Source,
    mut writer: TraceWriter,
) -> Result<TraceSummary, TraceError> {
    let mut chunk = Chunk::default();
    while source.next_chunk(&mut chunk)? {
        write_chunk(&mut writer, &chunk)?;
    }
    writer.finish()
}

/// Writes the instructions of `chunk`, with their accesses and events, to a trace in Perforate's format.
///
/// # Errors
/// If the chunk contains an invalid instruction or the file cannot be written.
pub fn write_chunk(writer: &mut TraceWriter, chunk: &Chunk) -> Result<(), TraceError> {
    chunk.in_order().try_for_each(|item| match item {
        ChunkItem::Event(event) => writer.event(event.clone()),
        ChunkItem::Instruction(instruction, accesses) => writer.push(instruction, accesses),
    })
}
