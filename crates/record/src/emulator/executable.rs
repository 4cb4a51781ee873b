//! Inspection of ELF files.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use object::elf::{FileHeader64, PF_X, PT_INTERP, PT_LOAD, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, ReadCache};

/// Finds the byte ranges of a file that contain code: its executable segments. Empty if the file is not ELF.
///
/// # Errors
/// If the file cannot be opened.
pub fn code_ranges(path: &Path) -> io::Result<Vec<Range<u64>>> {
    let segments = segments(path)?.into_iter();
    let code = segments.filter(|segment| segment.kind == PT_LOAD && segment.flags & PF_X != 0);
    Ok(code.map(|segment| segment.content).collect())
}

/// True for an ELF file that needs the dynamic linker; false for a statically linked file.
///
/// # Errors
/// If the file cannot be opened.
pub fn is_dynamically_linked(path: &Path) -> io::Result<bool> {
    Ok(segments(path)?.iter().any(|segment| segment.kind == PT_INTERP))
}

/// Segment of an ELF file.
struct Segment {
    kind: u32,
    flags: u32,
    /// Byte range of the segment in the file.
    content: Range<u64>,
}

/// Reads the segments of a file. Empty if the file is not ELF.
fn segments(path: &Path) -> io::Result<Vec<Segment>> {
    let file = ReadCache::new(File::open(path)?);
    let read = || -> object::Result<Vec<Segment>> {
        let header = FileHeader64::<LittleEndian>::parse(&file)?;
        let endian = header.endian()?;
        let segment = |segment: &ProgramHeader64<LittleEndian>| {
            let start = segment.p_offset(endian);
            let content = start..start.saturating_add(segment.p_filesz(endian));
            Segment { kind: segment.p_type(endian), flags: segment.p_flags(endian), content }
        };
        Ok(header.program_headers(endian, &file)?.iter().map(segment).collect())
    };
    Ok(read().unwrap_or_default())
}

#[cfg(test)]
pub(crate) mod tests {
    use object::elf::{PF_R, PF_W, PT_GNU_STACK};

    use super::*;

    /// Writes an ELF file with three pages: data that are read, code, and data that are written. The code
    /// has the addresses from 0x401123 on. The stack is marked as executable.
    pub(crate) fn program_with_code_in_its_second_page(path: &Path) {
        let mut file = vec![0; 0x3000];
        file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        let half_words = [(16, 2), (18, 62), (52, 64), (54, 56), (56, 4), (58, 64)];
        for (place, value) in half_words {
            file[place..place + 2].copy_from_slice(&u16::to_le_bytes(value));
        }
        file[20] = 1;
        file[32] = 64;
        for (number, (kind, flags, offset, address, bytes)) in [
            (PT_GNU_STACK, PF_R | PF_W | PF_X, 0, 0, 0),
            (PT_LOAD, PF_R, 0, 0x40_0123, 0x800),
            (PT_LOAD, PF_R | PF_X, 0x1123, 0x40_1123, 0x600),
            (PT_LOAD, PF_R | PF_W, 0x2000, 0x40_2000, 0x1000),
        ]
        .into_iter()
        .enumerate()
        {
            let header = &mut file[64 + 56 * number..][..56];
            header[..4].copy_from_slice(&u32::to_le_bytes(kind));
            header[4..8].copy_from_slice(&u32::to_le_bytes(flags));
            for (place, value) in
                [(8, offset), (16, address), (24, address), (32, bytes), (40, bytes)]
            {
                header[place..place + 8].copy_from_slice(&u64::to_le_bytes(value));
            }
        }
        std::fs::write(path, file).unwrap();
    }

    #[test]
    fn code_is_in_executable_segments_that_are_loaded() {
        let file = tempfile::NamedTempFile::new().unwrap();
        program_with_code_in_its_second_page(file.path());
        let ranges = code_ranges(file.path()).unwrap();
        assert_eq!((ranges.len(), &ranges[0]), (1, &(0x1123..0x1723)));
        assert!(!is_dynamically_linked(file.path()).unwrap());
    }

    #[test]
    fn this_test_has_code() {
        let path = std::env::current_exe().unwrap();
        let ranges = code_ranges(&path).unwrap();
        let length = std::fs::metadata(&path).unwrap().len();
        assert!(!ranges.is_empty());
        assert!(ranges.iter().all(|range| range.start < range.end && range.end <= length));
        assert_eq!(code_ranges(Path::new("/etc/passwd")).unwrap(), []);
        assert!(code_ranges(Path::new("/no/such/file")).is_err());
        assert!(is_dynamically_linked(&path).unwrap());
        assert!(!is_dynamically_linked(Path::new("/etc/passwd")).unwrap());
        assert!(is_dynamically_linked(Path::new("/no/such/file")).is_err());
    }
}
