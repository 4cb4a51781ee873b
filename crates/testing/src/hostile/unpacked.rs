//! Perforate's trace files without compression and checksums, so that mutations reach the content
//! behind them (`docs/trace-format.md`).
//!
//! An unpacked trace is a sequence of chunks. A chunk has a kind (1 byte), the number of its items
//! (4), the number of instructions before it (8), and the number of columns (1); then, for each
//! column, its length (2) and its bytes. [`pack`] computes all other bytes of the file, including the
//! index and the end chunk.

const START: &[u8] = b"\x89PTRACE\n\x01\0\0\0";
const HEADER_BYTES: usize = 32;
const INDEX: u8 = 5;
const END: u8 = 6;

/// Converts chunks without compression and checksums to a trace file. Omits an incomplete chunk at the end.
pub fn pack(mut unpacked: &[u8]) -> Vec<u8> {
    let mut file = START.to_vec();
    let mut index = Vec::new();
    let (mut chunks, mut instructions) = (0, 0);
    while let Some(chunk) = Chunk::take(&mut unpacked) {
        if chunk.kind == END {
            break; // A file that was never finished.
        }
        let payload = pack_columns(&chunk.columns);
        index.push(chunk.kind);
        put_varint(&mut index, payload.len() as u64);
        put_varint(&mut index, chunk.count.into());
        put_varint(&mut index, chunk.first);
        index.extend(crc32fast::hash(&payload).to_le_bytes());
        file.extend(header(chunk.kind, chunk.count, chunk.first, &payload));
        file.extend(payload);
        chunks += 1;
        instructions += if chunk.kind == 4 { u64::from(chunk.count) } else { 0 };
        if unpacked.is_empty() {
            let place = file.len() as u64;
            let payload = pack_columns(&[&index]);
            file.extend(header(INDEX, chunks, instructions, &payload));
            file.extend(payload);
            file.extend(header(END, 0, instructions, &place.to_le_bytes()));
            file.extend(place.to_le_bytes());
        }
    }
    file
}

/// Converts a valid trace file to chunks without compression and checksums; returns `None` for any other
/// file.
pub fn unpack(file: &[u8]) -> Option<Vec<u8>> {
    let mut rest = file.strip_prefix(START)?;
    let mut unpacked = Vec::new();
    loop {
        let (header, after) = rest.split_at_checked(HEADER_BYTES)?;
        let bytes = u32::from_le_bytes(header[8..12].try_into().ok()?) as usize;
        let (payload, after) = after.split_at_checked(bytes)?;
        rest = after;
        if header[4] >= INDEX {
            return Some(unpacked);
        }
        unpacked.push(header[4]);
        unpacked.extend(&header[12..24]);
        let columns = usize::from(*payload.first()?);
        unpacked.push(columns as u8);
        let mut frames = payload.get(1 + 8 * columns..)?;
        for lengths in payload.get(1..1 + 8 * columns)?.as_chunks::<8>().0 {
            let raw = u32::from_le_bytes(lengths[..4].try_into().ok()?) as usize;
            let (frame, after) = frames
                .split_at_checked(u32::from_le_bytes(lengths[4..].try_into().ok()?) as usize)?;
            frames = after;
            unpacked.extend(u16::try_from(raw).ok()?.to_le_bytes());
            if raw > 0 {
                unpacked.extend(zstd::bulk::decompress(frame, raw).ok()?);
            }
        }
    }
}

struct Chunk<'a> {
    kind: u8,
    count: u32,
    first: u64,
    columns: Vec<&'a [u8]>,
}

impl<'a> Chunk<'a> {
    /// Splits the next chunk, without compression and checksum, off the front of `unpacked`; returns `None`
    /// if the chunk is incomplete.
    fn take(unpacked: &mut &'a [u8]) -> Option<Self> {
        let (head, mut rest) = unpacked.split_first_chunk::<14>()?;
        let mut columns = Vec::new();
        for _ in 0..head[13] {
            let (length, after) = rest.split_first_chunk::<2>()?;
            let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
            let (column, after) = after.split_at(length);
            columns.push(column);
            rest = after;
        }
        *unpacked = rest;
        let count = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let first = u64::from_le_bytes(head[5..13].try_into().ok()?);
        Some(Self { kind: head[0], count, first, columns })
    }
}

fn header(kind: u8, count: u32, first: u64, payload: &[u8]) -> Vec<u8> {
    let mut header = b"PTck".to_vec();
    header.extend([kind, 0, 0, 0]);
    header.extend((payload.len() as u32).to_le_bytes());
    header.extend(count.to_le_bytes());
    header.extend(first.to_le_bytes());
    header.extend(crc32fast::hash(payload).to_le_bytes());
    header.extend(crc32fast::hash(&header).to_le_bytes());
    header
}

fn pack_columns(columns: &[&[u8]]) -> Vec<u8> {
    let mut payload = vec![columns.len() as u8];
    let mut frames = Vec::new();
    for column in columns {
        // The frame is stored without compression, because compressing would take most of the time.
        let frame = if column.is_empty() { Vec::new() } else { stored_frame(column) };
        payload.extend((column.len() as u32).to_le_bytes());
        payload.extend((frame.len() as u32).to_le_bytes());
        frames.extend(frame);
    }
    payload.extend(frames);
    payload
}

/// Makes a zstd frame with one raw block (RFC 8878): magic number; a descriptor for one segment
/// with its content size in 4 bytes; the size; and a block header with the size and the last-block
/// flag. Columns in these tests are shorter than the 128KB limit of a block.
fn stored_frame(content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1010_0000];
    frame.extend(length.to_le_bytes());
    frame.extend(&(length << 3 | 1).to_le_bytes()[..3]);
    frame.extend(content);
    frame
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use perforate_trace::{Source, open_bytes};
    use perforate_types::Chunk;

    use super::*;

    fn instructions(file: Vec<u8>) -> Chunk {
        let mut source = open_bytes("sample", file).unwrap();
        let (mut all, mut chunk) = (Chunk::default(), Chunk::default());
        while source.next_chunk(&mut chunk).unwrap() {
            all.instructions.append(&mut chunk.instructions);
            all.accesses.append(&mut chunk.accesses);
        }
        assert_eq!(source.truncated(), None);
        all
    }

    #[test]
    fn a_trace_is_the_same_unpacked_and_packed_again() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/samples/perforate");
        let file = std::fs::read(path).unwrap();
        let unpacked = unpack(&file).unwrap();
        let packed = pack(&unpacked);
        assert_eq!(unpack(&packed).unwrap(), unpacked);
        let sound = instructions(file);
        assert!(!sound.instructions.is_empty());
        assert_eq!(instructions(packed), sound);
        assert_eq!(unpack(b"R 0x1000\n"), None);
    }
}
