//! Inspection of ELF files.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use object::elf::{FileHeader64, PF_X, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, ReadCache};

/// Byte ranges of a file that contain code: its executable segments. Empty if the file is not ELF.
///
/// # Errors
/// If the file cannot be opened.
pub fn code_ranges(path: &Path) -> io::Result<Vec<Range<u64>>> {
    let file = ReadCache::new(File::open(path)?);
    Ok(executable_segments(&file).unwrap_or_default())
}

/// True for an ELF file that needs the dynamic linker; false for a statically linked file.
///
/// # Errors
/// If the file cannot be opened.
pub fn is_dynamically_linked(path: &Path) -> io::Result<bool> {
    let file = ReadCache::new(File::open(path)?);
    Ok(names_interpreter(&file).unwrap_or(false))
}

fn names_interpreter(file: &ReadCache<File>) -> object::Result<bool> {
    let header = FileHeader64::<LittleEndian>::parse(file)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, file)?;
    Ok(segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP))
}

fn executable_segments(file: &ReadCache<File>) -> object::Result<Vec<Range<u64>>> {
    let header = FileHeader64::<LittleEndian>::parse(file)?;
    let endian = header.endian()?;
    let mut ranges = Vec::new();
    for segment in header.program_headers(endian, file)? {
        if segment.p_type(endian) == PT_LOAD && segment.p_flags(endian) & PF_X != 0 {
            let start = segment.p_offset(endian);
            ranges.push(start..start.saturating_add(segment.p_filesz(endian)));
        }
    }
    Ok(ranges)
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
