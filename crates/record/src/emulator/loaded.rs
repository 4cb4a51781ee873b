//! Mappings and pages of a program that the emulator has loaded, from `/proc`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use perforate_types::{Backing, Permissions, ProgramEvent, VirtualAddress};

use super::executable;
use crate::process_memory::{Mapping, PAGE_BYTES, PageMap, read_text};
use crate::replay::relocation::{EMULATOR_BASE, Layout};

/// Lowest address of mappings whose address the kernel chose, in the emulator's process.
const KERNEL_PLACED: u64 = 0x7000_0000_0000;

/// Mappings of a program before its first instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedProgram {
    /// Events that map the program's memory, at addresses in the emulator (before relocation to native ones).
    pub events: Vec<ProgramEvent>,
    /// Address ranges of the image, the stack and mappings that the kernel placed, as in the emulator.
    pub layout: Layout,
    /// Address of the first byte of the program's file in memory; `None` if it is not mapped.
    pub program_start: Option<u64>,
}

/// Finds the path of the program that the emulator's process `pid` runs.
pub fn program_of(pid: u32) -> io::Result<PathBuf> {
    let line = fs::read(format!("/proc/{pid}/cmdline"))?;
    let mut words = line.split(|byte| *byte == 0);
    // The option `-0` is followed by the program's argument 0 and the program's path.
    let program = words.by_ref().find(|word| *word == b"-0").and_then(|_| words.nth(1));
    let program = program.ok_or(io::ErrorKind::NotFound)?;
    let program = Path::new(OsStr::from_bytes(program));
    // A nameless program, which the emulator accesses through a descriptor.
    if let Ok(own) = program.strip_prefix("/proc/self") {
        return fs::read_link(Path::new("/proc").join(pid.to_string()).join(own));
    }
    let folder = fs::read_link(format!("/proc/{pid}/cwd"))?;
    Ok(folder.join(program))
}

/// Reads the mappings that belong to the program in the emulator's process `pid`.
pub fn loaded_program(pid: u32, emulator: &Path, program: &Path) -> io::Result<LoadedProgram> {
    // A deleted program is mapped under the name that its descriptor has.
    let program = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    Ok(LoadedProgram::new(&mappings(pid)?, emulator, &program))
}

/// Finds the pages of the program that are in memory or swapped out in the emulator's process `pid`, as
/// address ranges in ascending order.
pub fn existing_pages(pid: u32, emulator: &Path) -> io::Result<Vec<Range<u64>>> {
    let mappings = mappings(pid)?;
    let pages = PageMap::open(format!("/proc/{pid}/pagemap"))?;
    let limit = program_limit(&mappings, emulator);
    let guest = mappings.iter().filter(|mapping| mapping.range.end <= limit);
    Ok(guest.flat_map(|mapping| pages.existing_runs(&mapping.range)).collect())
}

fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    Ok(Mapping::parse_all(&read_text(format!("/proc/{pid}/maps"))?))
}

/// Finds the first address of the emulator itself. The program's memory is below: QEMU chooses the program's
/// addresses, and the kernel chooses QEMU's.
fn program_limit(mappings: &[Mapping], emulator: &Path) -> u64 {
    let own = mappings.iter().find(|mapping| mapping.path() == Some(emulator));
    own.map_or(KERNEL_PLACED, |mapping| mapping.range.start)
}

impl LoadedProgram {
    /// Selects the program's mappings from all mappings of the emulator's process.
    pub fn new(mappings: &[Mapping], emulator: &Path, program: &Path) -> Self {
        let limit = program_limit(mappings, emulator);
        let guest: Vec<&Mapping> =
            mappings.iter().filter(|mapping| mapping.range.end <= limit).collect();
        let image = guest.iter().find(|mapping| mapping.path() == Some(program));
        let image = image.map(|mapping| mapping.range.start);
        let stack = guest.windows(2).find(|pair| is_stack(pair[0], pair[1]));
        let kernel_placed = mappings
            .iter()
            .filter(|mapping| mapping.path().is_some() && mapping.range.start >= KERNEL_PLACED);
        let layout = Layout {
            image: image.filter(|start| *start >= EMULATOR_BASE),
            stack: stack.map(|pair| pair[0].range.start..pair[1].range.end),
            kernel_placed_end: kernel_placed.map(|mapping| mapping.range.end).max(),
        };
        let mut events = Vec::new();
        for mapping in &guest {
            let in_stack = stack.is_some_and(|pair| pair[1].range == mapping.range);
            events.push(map_event(mapping, in_stack));
            events.extend(name_event(mapping));
            events.extend(code_events(mapping));
        }
        Self { events, layout, program_start: image }
    }
}

/// True if the mappings are a guard page and the stack above it. QEMU maps the stack with a guard page below.
fn is_stack(guard: &Mapping, stack: &Mapping) -> bool {
    let is_guard = !guard.is_readable()
        && !guard.is_writable()
        && guard.range.end - guard.range.start == PAGE_BYTES;
    is_guard
        && stack.is_writable()
        && stack.path().is_none()
        && guard.range.end == stack.range.start
}

fn map_event(mapping: &Mapping, in_stack: bool) -> ProgramEvent {
    let is_writable = mapping.is_writable();
    ProgramEvent::Map {
        start: VirtualAddress::new(mapping.range.start),
        length: mapping.range.end - mapping.range.start,
        permissions: if is_writable { Permissions::READ_WRITE } else { Permissions::READ },
        accessible: mapping.is_readable() || is_writable,
        backing: match mapping.path() {
            _ if in_stack => Backing::Stack,
            Some(_) => Backing::File,
            None => Backing::Anonymous,
        },
        shared: mapping.is_shared(),
        populate: false,
    }
}

/// Makes the event that names a mapping; `None` if the mapping has no name.
fn name_event(mapping: &Mapping) -> Option<ProgramEvent> {
    (!mapping.name.is_empty()).then(|| ProgramEvent::Name {
        start: VirtualAddress::new(mapping.range.start),
        length: mapping.range.end - mapping.range.start,
        name: mapping.name.clone(),
    })
}

/// Makes events that map the executable parts of a mapping as executable. The emulator never maps the
/// program's code executable, so `maps` does not distinguish code from data; the ELF file does.
fn code_events(mapping: &Mapping) -> Vec<ProgramEvent> {
    let Some(path) = mapping.path().filter(|_| !mapping.is_writable()) else { return Vec::new() };
    let length = mapping.range.end - mapping.range.start;
    let file = mapping.offset..mapping.offset.saturating_add(length);
    let code = executable::code_ranges(path).unwrap_or_else(|_| vec![file.clone()]);
    let in_mapping = code.into_iter().filter_map(|code| {
        let start = (code.start / PAGE_BYTES * PAGE_BYTES).max(file.start);
        let end = code.end.checked_next_multiple_of(PAGE_BYTES)?.min(file.end);
        (start < end).then(|| ProgramEvent::Protect {
            start: VirtualAddress::new(mapping.range.start + (start - file.start)),
            length: end - start,
            permissions: Permissions::READ_EXECUTE,
            accessible: true,
        })
    });
    in_mapping.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maps_of_a_small_program() {
        let text = "\
4000000000-4000002000 r--p 00000000 fe:00 1   /no/program
4000002000-4000003000 rw-p 00002000 fe:00 1   /no/program
400200c000-400200d000 ---p 00000000 00:00 0 \n\
400200d000-400280d000 rw-p 00000000 00:00 0 \n\
400280d000-400280e000 r--s 00000000 fe:00 2   /no/a file
555555554000-555555555000 r--p 00000000 fe:00 3   /no/emulator
555555556000-555555557000 rw-p 00000000 00:00 0   [heap]
7ffff7fc0000-7ffff7fff000 r--p 00000000 fe:00 4   /no/ld.so
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0   [stack]";
        let mappings = Mapping::parse_all(text);
        let (emulator, program) = (Path::new("/no/emulator"), Path::new("/no/program"));
        let loaded = LoadedProgram::new(&mappings, emulator, program);
        let expected = Layout {
            image: Some(0x40_0000_0000),
            stack: Some(0x40_0200_c000..0x40_0280_d000),
            kernel_placed_end: Some(0x7fff_f7ff_f000),
        };
        assert_eq!(loaded.layout, expected);
        let summary: Vec<(u64, Backing, bool, bool)> = loaded
            .events
            .iter()
            .filter_map(|event| match event {
                ProgramEvent::Map { start, backing, accessible, shared, .. } => {
                    Some((start.value(), *backing, *accessible, *shared))
                }
                _ => None,
            })
            .collect();
        let expected = [
            (0x40_0000_0000, Backing::File, true, false),
            (0x40_0000_2000, Backing::File, true, false),
            (0x40_0200_c000, Backing::Anonymous, false, false),
            (0x40_0200_d000, Backing::Stack, true, false),
            (0x40_0280_d000, Backing::File, true, true),
        ];
        assert_eq!(summary, expected);
    }

    /// A file whose code is in its second page, mapped at once and, from its second page on, again. The
    /// code of a file that cannot be read may be anywhere in it.
    #[test]
    fn code_of_a_file_is_executable_where_its_pages_are_mapped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        executable::tests::program_with_code_in_its_second_page(file.path());
        let path = file.path().display();
        let text = format!(
            "\
4000000000-4000003000 r--p 00000000 fe:00 1   {path}
4000010000-4000011000 r--p 00001000 fe:00 1   {path}
4000020000-4000021000 r--p 00002000 fe:00 1   {path}
4000030000-4000033000 rw-p 00000000 fe:00 1   {path}
4000040000-4000042000 r--p 00000000 fe:00 2   /no/program
4000050000-4000051000 r--p 00000000 00:00 0 \n"
        );
        let code: Vec<ProgramEvent> =
            Mapping::parse_all(&text).iter().flat_map(code_events).collect();
        let executable = |start, length| ProgramEvent::Protect {
            start: VirtualAddress::new(start),
            length,
            permissions: Permissions::READ_EXECUTE,
            accessible: true,
        };
        let expected = [
            executable(0x40_0000_1000, 0x1000),
            executable(0x40_0001_0000, 0x1000),
            executable(0x40_0004_0000, 0x2000),
        ];
        assert_eq!(code, expected);
    }

    /// The stack is what the program may write above a guard page of its own.
    #[test]
    fn a_stack_lies_above_its_guard_page() {
        let mapping = |line: &str| Mapping::parse(line).unwrap();
        let guard = mapping("400200c000-400200d000 ---p 00000000 00:00 0");
        let stack = mapping("400200d000-400280d000 rw-p 00000000 00:00 0");
        assert!(is_stack(&guard, &stack));
        for (lower, upper) in [
            ("400200b000-400200d000 ---p 0 00:00 0", "400200d000-400280d000 rw-p 0 00:00 0"),
            ("400200b000-400200c000 ---p 0 00:00 0", "400200d000-400280d000 rw-p 0 00:00 0"),
            ("400200c000-400200d000 r--p 0 00:00 0", "400200d000-400280d000 rw-p 0 00:00 0"),
            ("400200c000-400200d000 -w-p 0 00:00 0", "400200d000-400280d000 rw-p 0 00:00 0"),
            ("400200c000-400200d000 ---p 0 00:00 0", "400200d000-400280d000 r--p 0 00:00 0"),
            ("400200c000-400200d000 ---p 0 00:00 0", "400200d000-400280d000 rw-p 0 fe:00 1 /a"),
        ] {
            assert!(!is_stack(&mapping(lower), &mapping(upper)), "{lower}, {upper}");
        }
        // Without the emulator's file, its memory begins where the kernel places mappings.
        let mappings = [guard, stack, mapping("700000000000-700000001000 rw-p 0 00:00 0")];
        let loaded =
            LoadedProgram::new(&mappings, Path::new("/no/emulator"), Path::new("/no/program"));
        assert_eq!(loaded.layout.stack, Some(0x40_0200_c000..0x40_0280_d000));
        assert_eq!(
            (loaded.program_start, loaded.layout.image, loaded.layout.kernel_placed_end),
            (None, None, None)
        );
        assert_eq!(loaded.events.len(), 2);
    }

    /// An image at an address of its own is not moved; a mapping is named and has the permissions that it has.
    #[test]
    fn fixed_images_and_names_are_taken_over() {
        let text = "\
400000-401000 r--p 00000000 fe:00 1   /no/program
600000-601000 rw-s 00000000 00:00 0   [anon_shmem:a]
602000-603000 ---p 00000000 00:00 0 \n";
        let loaded = LoadedProgram::new(
            &Mapping::parse_all(text),
            Path::new("/no/emulator"),
            Path::new("/no/program"),
        );
        assert_eq!((loaded.program_start, loaded.layout.image), (Some(0x40_0000), None));
        let map = |start, permissions, accessible, backing, shared| ProgramEvent::Map {
            start: VirtualAddress::new(start),
            length: PAGE_BYTES,
            permissions,
            accessible,
            backing,
            shared,
            populate: false,
        };
        let name = |start, name: &str| ProgramEvent::Name {
            start: VirtualAddress::new(start),
            length: PAGE_BYTES,
            name: name.into(),
        };
        let code = ProgramEvent::Protect {
            start: VirtualAddress::new(0x40_0000),
            length: PAGE_BYTES,
            permissions: Permissions::READ_EXECUTE,
            accessible: true,
        };
        let expected = [
            map(0x40_0000, Permissions::READ, true, Backing::File, false),
            name(0x40_0000, "/no/program"),
            code,
            map(0x60_0000, Permissions::READ_WRITE, true, Backing::Anonymous, true),
            name(0x60_0000, "[anon_shmem:a]"),
            map(0x60_2000, Permissions::READ, false, Backing::Anonymous, false),
        ];
        assert_eq!(loaded.events, expected);
    }
}
