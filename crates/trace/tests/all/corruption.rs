//! Damaged and cut-off files give an error or a valid prefix, never a panic and never wrong data.

use crate::common::samples::named;
use crate::common::{array_loop, read_all, write_all};
use perforate_trace::{Source, TraceError, TraceMetadata, TraceReader, TraceWriter, write_chunk};
use perforate_types::Chunk;
use tempfile::tempdir;

fn is_prefix(part: &Chunk, whole: &Chunk) -> bool {
    whole.instructions.starts_with(&part.instructions)
        && whole.accesses.starts_with(&part.accesses)
        && whole.events.starts_with(&part.events)
}

#[test]
fn every_changed_byte_is_noticed() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("small.trace");
    let mut chunk = named();
    chunk.append(&array_loop(80));
    write_all(&path, &chunk, 120);
    let sound = std::fs::read(&path).unwrap();
    for place in 0..sound.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = sound.clone();
            bytes[place] ^= flip;
            std::fs::write(&path, &bytes).unwrap();
            let error = match TraceReader::open(&path) {
                Err(error) => error,
                Ok(mut reader) => {
                    let (part, error) = read_all(&mut reader);
                    assert!(is_prefix(&part, &chunk), "byte {place} ^ {flip:#x}: wrong data");
                    error.unwrap_or_else(|| panic!("byte {place} ^ {flip:#x} went unnoticed"))
                }
            };
            let text = error.to_string();
            assert!(text.contains("small.trace: byte ") && text.contains("expected"), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }
}

#[test]
fn a_file_cut_off_anywhere_reads_up_to_its_last_whole_chunk() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("cut.trace");
    let chunk = array_loop(100);
    write_all(&path, &chunk, 120); // 300 instructions: chunks of 120, 120 and 60
    let sound = std::fs::read(&path).unwrap();
    let mut lengths = std::collections::BTreeSet::new();
    for length in 0..sound.len() {
        std::fs::write(&path, &sound[..length]).unwrap();
        let Ok(mut reader) = TraceReader::open(&path) else { continue };
        let (part, error) = read_all(&mut reader);
        assert!(error.is_none(), "{length}: {error:?}");
        assert!(is_prefix(&part, &chunk));
        let truncation = reader.truncated().expect("a cut-off file says so");
        assert_eq!(truncation.instructions, part.instructions.len() as u64);
        assert!(truncation.offset <= length as u64);
        lengths.insert(part.instructions.len());
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [0, 120, 240, 300]);
}

#[test]
fn a_writer_that_was_killed_leaves_a_readable_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("killed.trace");
    let chunk = array_loop(100);
    let mut writer = TraceWriter::create(&path, &TraceMetadata::default()).unwrap();
    write_chunk(&mut writer, &chunk).unwrap();
    writer.flush().unwrap();
    write_chunk(&mut writer, &chunk).unwrap();
    drop(writer);
    let mut reader = TraceReader::open(&path).unwrap();
    let note = reader.truncated().unwrap().to_string();
    assert!(note.contains("not finished") && note.contains("300 instructions"), "{note}");
    assert_eq!(read_all(&mut reader).0, chunk);
}

#[test]
fn absurd_lengths_are_refused_before_memory_is_taken() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("absurd.trace");
    write_all(&path, &array_loop(10), 100);
    let mut bytes = std::fs::read(&path).unwrap();
    // The metadata chunk's header starts at byte 12. Its payload length is at offset 8, and its own
    // checksum, corrected here, at offset 28.
    bytes[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[12..40]);
    bytes[40..44].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let error = TraceReader::open(&path).err().unwrap();
    assert!(matches!(error, TraceError::Damaged { offset: 12, .. }), "{error}");
    assert!(error.to_string().contains("4294967295 bytes"), "{error}");
}

#[test]
fn other_versions_and_other_files_are_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("other.trace");
    write_all(&path, &array_loop(10), 100);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    std::fs::write(&path, &bytes).unwrap();
    let error = TraceReader::open(&path).err().unwrap().to_string();
    assert!(error.contains("byte 8: format version 9; expected version 1, 2 or 4"), "{error}");
    std::fs::write(&path, "hello, world, hello").unwrap();
    let error = TraceReader::open(&path).err().unwrap().to_string();
    assert!(error.contains("byte 0: not a Perforate trace"), "{error}");
}
