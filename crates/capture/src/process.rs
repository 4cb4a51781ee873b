//! What `/proc` tells of the emulator's process: the initial mappings and which pages exist.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use perforate_types::{Backing, Permissions, ProgramEvent, VirtualAddress};

use crate::elf;
use crate::proc::{Mapping, PAGE_BYTES, PageEntry, PageMap, text};
use crate::relocation::Layout;

/// The upper end of the address space, where the kernel places what has no wish.
const KERNEL_PLACED: u64 = 0x7000_0000_0000;

/// What is mapped before the first instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The mappings as events at the emulator's addresses.
    pub events: Vec<ProgramEvent>,
    /// Where the parts lie.
    pub layout: Layout,
    /// First byte of the program's file in memory.
    pub program_start: Option<u64>,
}

/// The program that the emulator's process `pid` runs.
pub fn program_of(pid: u32) -> io::Result<PathBuf> {
    let line = fs::read(format!("/proc/{pid}/cmdline"))?;
    let mut words = line.split(|byte| *byte == 0);
    // Behind the option stand the program's own name and the program.
    let program = words.by_ref().find(|word| *word == b"-0").and_then(|_| words.nth(1));
    let program = program.ok_or(io::ErrorKind::NotFound)?;
    let folder = fs::read_link(format!("/proc/{pid}/cwd"))?;
    Ok(folder.join(OsStr::from_bytes(program)))
}

/// Reads the mappings of the emulator's process `pid` that belong to the program.
pub fn snapshot(pid: u32, emulator: &Path, program: &Path) -> io::Result<Snapshot> {
    let program = fs::canonicalize(program)?;
    Ok(from_lines(&lines(pid)?, emulator, &program))
}

/// The same from the text of `/proc/PID/maps`.
pub fn snapshot_of(text: &str, emulator: &Path, program: &Path) -> Snapshot {
    from_lines(&parse(text), emulator, program)
}

/// Runs of pages of the program that exist in the emulator's process `pid`, lowest first.
pub fn present_pages(pid: u32, emulator: &Path) -> io::Result<Vec<Range<u64>>> {
    let lines = lines(pid)?;
    let pages = PageMap::open(format!("/proc/{pid}/pagemap"))?;
    let guest = lines.iter().filter(|line| line.range.end <= program_limit(&lines, emulator));
    Ok(guest.flat_map(|line| pages.runs(&line.range, PageEntry::exists)).collect())
}

fn lines(pid: u32) -> io::Result<Vec<Mapping>> {
    Ok(parse(&text(format!("/proc/{pid}/maps"))?))
}

fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(Mapping::parse).collect()
}

/// Where the emulator begins.
fn program_limit(lines: &[Mapping], emulator: &Path) -> u64 {
    let own = lines.iter().find(|line| line.path() == Some(emulator));
    own.map_or(KERNEL_PLACED, |line| line.range.start)
}

/// The program lies below the emulator: QEMU places it, the kernel places QEMU.
fn from_lines(lines: &[Mapping], emulator: &Path, program: &Path) -> Snapshot {
    let is_file = |line: &&Mapping, path: &Path| line.path() == Some(path);
    let limit = program_limit(lines, emulator);
    let guest: Vec<&Mapping> = lines.iter().filter(|line| line.range.end <= limit).collect();
    let image = guest.iter().find(|line| is_file(line, program)).map(|line| line.range.start);
    let stack = guest.windows(2).find(|pair| is_stack(pair[0], pair[1]));
    let kernel_placed =
        lines.iter().filter(|line| line.path().is_some() && line.range.start >= KERNEL_PLACED);
    let layout = Layout {
        image: image.filter(|start| *start >= crate::relocation::EMULATOR_BASE),
        stack: stack.map(|pair| pair[0].range.start..pair[1].range.end),
        kernel_placed_end: kernel_placed.map(|line| line.range.end).max(),
    };
    let mut events = Vec::new();
    for line in &guest {
        let in_stack = stack.is_some_and(|pair| pair[1].range == line.range);
        events.push(map_event(line, in_stack));
        events.extend(code_events(line));
    }
    Snapshot { events, layout, program_start: image }
}

/// QEMU maps the stack in one piece, with a guard page below it.
fn is_stack(guard: &Mapping, stack: &Mapping) -> bool {
    let is_guard = !guard.is_readable()
        && !guard.is_writable()
        && guard.range.end - guard.range.start == PAGE_BYTES;
    is_guard
        && stack.is_writable()
        && stack.path().is_none()
        && guard.range.end == stack.range.start
}

fn map_event(line: &Mapping, in_stack: bool) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(line.range.start),
        length: line.range.end - line.range.start,
        permissions: if line.is_writable() { Permissions::READ_WRITE } else { Permissions::READ },
        accessible: line.is_readable() || line.is_writable(),
        backing: match line.path() {
            _ if in_stack => Backing::Stack,
            Some(_) => Backing::File,
            None => Backing::Anonymous,
        },
        shared: line.is_shared(),
        populate: false,
    }
}

/// The emulator never maps the program's code executable, so the maps do not show what is code;
/// the file does.
fn code_events(line: &Mapping) -> Vec<ProgramEvent> {
    let Some(path) = line.path().filter(|_| !line.is_writable()) else { return Vec::new() };
    let file = line.offset..line.offset + (line.range.end - line.range.start);
    let code = elf::code_ranges(path).unwrap_or_else(|_| vec![file.clone()]);
    let in_line = code.into_iter().filter_map(|code| {
        let start = (code.start / PAGE_BYTES * PAGE_BYTES).max(file.start);
        let end = code.end.next_multiple_of(PAGE_BYTES).min(file.end);
        (start < end).then(|| ProgramEvent::Protect {
            start: VirtualAddress::new(line.range.start + (start - file.start)),
            length: end - start,
            permissions: Permissions::READ_EXECUTE,
            accessible: true,
        })
    });
    in_line.collect()
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
        let lines: Vec<Mapping> = text.lines().filter_map(Mapping::parse).collect();
        let snapshot = from_lines(&lines, Path::new("/no/emulator"), Path::new("/no/program"));
        let expected = Layout {
            image: Some(0x40_0000_0000),
            stack: Some(0x40_0200_c000..0x40_0280_d000),
            kernel_placed_end: Some(0x7fff_f7ff_f000),
        };
        assert_eq!(snapshot.layout, expected);
        let summary: Vec<(u64, Backing, bool, bool)> = snapshot
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
}
