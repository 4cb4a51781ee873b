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

/// A loadable segment (`PT_LOAD`) of an ELF file.
struct Segment {
    kind: u32,
    flags: u32,
    /// Byte range of the segment in the file.
    content: Range<u64>,
}

/// Reads the loadable segments of a file. Empty if the file is not ELF.
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
mod tests {
    use super::*;

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
