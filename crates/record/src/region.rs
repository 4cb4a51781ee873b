//! Regions: parts of a program that can be recorded.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use object::{Object, ObjectSegment, ObjectSymbol};

use crate::process_memory::PAGE_BYTES;

/// C header with the markers for [`Region::Markers`], which programs include.
pub const MARKER_HEADER: &str = include_str!("../perforate.h");

/// A region of a program. While it runs, all threads of all processes are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Region {
    /// Region between markers in the program's code: a no-operation with a number, or a system call
    /// (`crates/record/perforate.h`).
    Markers,
    /// From the execution of the instruction at one linked address (as in the ELF file) to that of another.
    Addresses {
        /// Linked address (as in the ELF file, before loading) at which the region begins.
        start: u64,
        /// Linked address (as in the ELF file, before loading) at which the region ends.
        end: u64,
    },
    /// Region from the call of the function with this name to its return.
    Function(String),
}

impl FromStr for Region {
    type Err = String;

    /// Parses `markers`, `START..END` (hexadecimal, with or without 0x), or a function's name.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "markers" {
            return Ok(Self::Markers);
        }
        let Some((start, end)) = text.split_once("..") else {
            return match text.is_empty() || text.contains(char::is_whitespace) {
                false => Ok(Self::Function(text.to_owned())),
                true => Err("expected markers, START..END or the name of a function".into()),
            };
        };
        let address = |text: &str| {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            let wrong = |_| format!("\"{text}\" is no hexadecimal address, such as 0x401136");
            u64::from_str_radix(digits, 16).map_err(wrong)
        };
        Ok(Self::Addresses { start: address(start)?, end: address(end)? })
    }
}

impl std::fmt::Display for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Markers => f.write_str("between the program's markers"),
            Self::Addresses { start, end } => write!(f, "from {start:#x} to {end:#x}"),
            Self::Function(name) => write!(f, "function {name}"),
        }
    }
}

/// Addresses of a region, as in the ELF file of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Linked addresses (before loading) of the region's begin and end.
    pub linked: Range<u64>,
    /// Lowest linked address of the file's segments, rounded down to a page.
    pub first: u64,
}

/// Finds a region in the file of a program. `None` for markers, or if the file has no function of this name.
pub fn find(region: &Region, program: &Path) -> Option<Place> {
    let content = fs::read(program).ok()?;
    let file = object::File::parse(&*content).ok()?;
    let linked = match region {
        Region::Markers => return None,
        Region::Addresses { start, end } => *start..*end,
        Region::Function(name) => {
            let symbols = file.symbols().chain(file.dynamic_symbols());
            let mut named = symbols.filter(|symbol| symbol.name() == Ok(name));
            let found = named.find(|symbol| symbol.is_definition() && symbol.address() != 0)?;
            // A function without a size has at least its first byte.
            found.address()..found.address().checked_add(found.size().max(1))?
        }
    };
    let first = file.segments().map(|segment| segment.address()).min()?;
    Some(Place { linked, first: first & !(PAGE_BYTES - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::executable::tests::program_with_code_in_its_second_page;

    #[test]
    fn regions_are_parsed() {
        assert_eq!("markers".parse(), Ok(Region::Markers));
        let addresses = Region::Addresses { start: 0x40_1136, end: 0x40_1200 };
        assert_eq!("0x401136..401200".parse(), Ok(addresses));
        assert_eq!("main".parse(), Ok(Region::Function("main".into())));
        assert_eq!("ns::f(int)".parse(), Ok(Region::Function("ns::f(int)".into())));
        for wrong in ["", "a b", "0x1..main", "..", "1..-2"] {
            assert!(wrong.parse::<Region>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_c_header_has_the_plugins_markers() {
        use crate::layout::{MARKER_BEGIN, MARKER_END};
        for (name, marker) in [("BEGIN", MARKER_BEGIN), ("END", MARKER_END)] {
            let line = format!("#define PERFORATE_{name}_NUMBER {marker:#x}\n");
            assert!(MARKER_HEADER.contains(&line), "{line}");
        }
    }

    #[test]
    fn files_that_are_not_programs_have_no_functions() {
        let main = Region::Function("main".into());
        assert_eq!(find(&main, Path::new("/etc/passwd")), None);
        assert_eq!(find(&main, Path::new("/no/such/file")), None);
        assert_eq!(find(&Region::Markers, Path::new("/bin/sh")), None);
    }

    #[test]
    fn addresses_of_a_region_are_told_with_the_first_page_of_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        program_with_code_in_its_second_page(file.path());
        let region = Region::Addresses { start: 0x40_1200, end: 0x40_1300 };
        let place = Place { linked: 0x40_1200..0x40_1300, first: 0x40_0000 };
        assert_eq!(find(&region, file.path()), Some(place));
        assert_eq!(find(&Region::Function("main".into()), file.path()), None, "no symbols");
    }

    /// Writes an ELF file with a segment at 0x401000 and these symbols: name, address, size, and whether the file
    /// defines it.
    fn program_with_symbols(path: &Path, symbols: &[(&str, u64, u64, bool)]) {
        let mut names = vec![0];
        let mut table = vec![0; 24];
        for (name, address, size, is_defined) in symbols {
            table.extend((names.len() as u32).to_le_bytes());
            // A global function in section 1, or undefined.
            table.extend([0x12, 0]);
            table.extend(u16::from(*is_defined).to_le_bytes());
            table.extend(address.to_le_bytes());
            table.extend(size.to_le_bytes());
            names.extend(name.bytes().chain([0]));
        }
        // Section headers are aligned.
        names.resize(names.len().next_multiple_of(8), 0);
        let names_at = 0x100 + table.len() as u64;
        let sections_at = names_at + names.len() as u64;
        let mut file = vec![0; 0x100];
        file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        let half_words =
            [(16, 2), (18, 62), (52, 64), (54, 56), (56, 1), (58, 64), (60, 4), (62, 3)];
        for (place, value) in half_words {
            file[place..place + 2].copy_from_slice(&u16::to_le_bytes(value));
        }
        (file[20], file[32]) = (1, 64);
        file[40..48].copy_from_slice(&sections_at.to_le_bytes());
        // PT_LOAD, read and execute.
        (file[64], file[68]) = (1, 5);
        for (place, value) in [(16, 0x40_1000_u64), (24, 0x40_1000), (32, 0x100), (40, 0x100)] {
            file[64 + place..64 + place + 8].copy_from_slice(&value.to_le_bytes());
        }
        file.extend(&table);
        file.extend(&names);
        // None, code, the symbols with their names in the last, and the names.
        let kinds = [
            (0, 0, 0, 0, 0),
            (1, 0, 0x100, 0, 0),
            (2, 0x100, table.len() as u64, 3, 24),
            (3, names_at, names.len() as u64, 0, 0),
        ];
        for (kind, offset, size, link, entry) in kinds {
            let mut section = [0; 64];
            section[4..8].copy_from_slice(&u32::to_le_bytes(kind));
            for (place, value) in [(24, offset), (32, size), (56, entry)] {
                section[place..place + 8].copy_from_slice(&u64::to_le_bytes(value));
            }
            section[40..44].copy_from_slice(&u32::to_le_bytes(link));
            // Symbols before number 1 are local.
            section[44..48].copy_from_slice(&u32::to_le_bytes(u32::from(kind == 2)));
            file.extend(section);
        }
        fs::write(path, file).unwrap();
    }

    #[test]
    fn a_function_has_its_bytes_and_at_least_the_first() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let symbols = [
            ("elsewhere", 0x40_1000, 8, false),
            ("absent", 0, 8, true),
            ("sized", 0x40_1010, 0x20, true),
            ("bare", 0x40_1040, 0, true),
            ("last", u64::MAX - 3, 8, true),
        ];
        program_with_symbols(file.path(), &symbols);
        let place = |name: &str| find(&Region::Function(name.into()), file.path());
        let at = |linked| Some(Place { linked, first: 0x40_1000 });
        assert_eq!(place("sized"), at(0x40_1010..0x40_1030));
        assert_eq!(place("bare"), at(0x40_1040..0x40_1041), "without a size");
        for name in ["elsewhere", "absent", "last", "other", ""] {
            assert_eq!(place(name), None, "{name}");
        }
    }

    #[test]
    fn regions_are_said() {
        let said = |text: &str| text.parse::<Region>().unwrap().to_string();
        assert_eq!(said("markers"), "between the program's markers");
        assert_eq!(said("401136..0x401200"), "from 0x401136 to 0x401200");
        assert_eq!(said("main"), "function main");
        let error = |text: &str| text.parse::<Region>().unwrap_err();
        assert_eq!(error("a b"), "expected markers, START..END or the name of a function");
        assert_eq!(error("1..main"), "\"main\" is no hexadecimal address, such as 0x401136");
    }
}
