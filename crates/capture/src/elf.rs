//! As much of ELF as recording needs: is this a program for Linux on x86-64, and which parts of
//! its file are code?

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: &[u8] = b"\x7fELF";
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const MACHINE_X86_64: u16 = 62;
const TYPE_EXECUTABLE: u16 = 2;
const TYPE_SHARED: u16 = 3;
const SEGMENT_LOAD: u32 = 1;
const SEGMENT_EXECUTABLE: u32 = 1;
const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;

/// What the first bytes of a file say it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A program or library for x86-64.
    X86_64,
    /// A script; the interpreter's path and arguments.
    Script(String),
    /// An ELF file for another machine, or no program; what it is.
    OtherElf(String),
    /// No ELF file.
    Other,
}

/// Tells what a file is from its first bytes.
pub fn kind(start: &[u8]) -> Kind {
    if let Some(line) = start.strip_prefix(b"#!") {
        let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
        return Kind::Script(String::from_utf8_lossy(&line[..end]).trim().to_owned());
    }
    if !start.starts_with(MAGIC) || start.len() < HEADER_BYTES {
        return Kind::Other;
    }
    if start[4] != CLASS_64 || start[5] != LITTLE_ENDIAN {
        return Kind::OtherElf("a program for another machine (not 64-bit little-endian)".into());
    }
    let machine = read_u16(start, 18);
    if machine != MACHINE_X86_64 {
        return Kind::OtherElf(format!("a program for another machine (ELF machine {machine})"));
    }
    match read_u16(start, 16) {
        TYPE_EXECUTABLE | TYPE_SHARED => Kind::X86_64,
        _ => Kind::OtherElf("an ELF file, but not a program (an object file?)".into()),
    }
}

/// Byte ranges of the file that hold code, from its executable segments. Empty if the file is
/// not ELF.
pub fn code_ranges(path: &Path) -> io::Result<Vec<Range<u64>>> {
    let file = File::open(path)?;
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0)?;
    if kind(&header) != Kind::X86_64 {
        return Ok(Vec::new());
    }
    let mut table = vec![0; usize::from(read_u16(&header, 56)) * SEGMENT_BYTES];
    file.read_exact_at(&mut table, read_u64(&header, 32))?;
    let code = table.chunks_exact(SEGMENT_BYTES).filter(|segment| {
        read_u32(segment, 0) == SEGMENT_LOAD && read_u32(segment, 4) & SEGMENT_EXECUTABLE != 0
    });
    Ok(code
        .map(|segment| {
            let start = read_u64(segment, 8);
            start..start.saturating_add(read_u64(segment, 32))
        })
        .collect())
}

fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from(read_u16(bytes, at)) | u32::from(read_u16(bytes, at + 2)) << 16
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from(read_u32(bytes, at)) | u64::from(read_u32(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(class: u8, machine: u16, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = class;
        bytes[5] = LITTLE_ENDIAN;
        bytes[16..18].copy_from_slice(&kind.to_le_bytes());
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes
    }

    #[test]
    fn kinds_of_files() {
        assert_eq!(kind(&header(2, 62, 3)), Kind::X86_64);
        assert_eq!(kind(&header(2, 62, 2)), Kind::X86_64);
        assert!(matches!(kind(&header(1, 3, 2)), Kind::OtherElf(_)), "32-bit x86");
        assert!(matches!(kind(&header(2, 183, 3)), Kind::OtherElf(_)), "AArch64");
        assert!(matches!(kind(&header(2, 62, 1)), Kind::OtherElf(_)), "object file");
        assert_eq!(kind(b"#! /bin/sh -e\necho"), Kind::Script("/bin/sh -e".into()));
        assert_eq!(kind(b"hello"), Kind::Other);
        assert_eq!(kind(&header(2, 62, 3)[..20]), Kind::Other, "cut off");
        assert_eq!(kind(b""), Kind::Other);
    }

    #[test]
    fn this_test_has_code() {
        let path = std::env::current_exe().unwrap();
        let ranges = code_ranges(&path).unwrap();
        let length = std::fs::metadata(&path).unwrap().len();
        assert!(!ranges.is_empty());
        assert!(ranges.iter().all(|range| range.start < range.end && range.end <= length));
    }
}
