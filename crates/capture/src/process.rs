//! What `/proc` tells of the emulator's process: the initial mappings and which pages exist.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use perforate_types::{Backing, Permissions, ProgramEvent, VirtualAddress};

use crate::elf;
use crate::relocation::Layout;

const PAGE_BYTES: u64 = 4096;
/// Pages whose entries are read from `/proc/PID/pagemap` at a time.
const PAGEMAP_PAGES: u64 = 1 << 16;
/// Entry bits: present, swapped out.
const PAGE_EXISTS: u64 = 3 << 62;
/// The upper end of the address space, where the kernel places what has no wish.
const KERNEL_PLACED: u64 = 0x7000_0000_0000;

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    range: Range<u64>,
    read: bool,
    write: bool,
    shared: bool,
    offset: u64,
    path: Option<PathBuf>,
}

fn parse_line(line: &str) -> Option<Line> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok().filter(|end| *end > start)?;
    let flags = fields.next()?.as_bytes();
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    // Device and inode; the path may hold blanks.
    let path = line.find('/').map(|at| PathBuf::from(&line[at..]));
    Some(Line {
        range: start..end,
        read: flags.first() == Some(&b'r'),
        write: flags.get(1) == Some(&b'w'),
        shared: flags.get(3) == Some(&b's'),
        offset,
        path,
    })
}

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
    let pages = PageMap::open(pid)?;
    let guest = lines.iter().filter(|line| line.range.end <= program_limit(&lines, emulator));
    Ok(guest.flat_map(|line| pages.present(line.range.clone())).collect())
}

fn lines(pid: u32) -> io::Result<Vec<Line>> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Line> {
    text.lines().filter_map(parse_line).collect()
}

/// Where the emulator begins.
fn program_limit(lines: &[Line], emulator: &Path) -> u64 {
    let own = lines.iter().find(|line| line.path.as_deref() == Some(emulator));
    own.map_or(KERNEL_PLACED, |line| line.range.start)
}

/// The program lies below the emulator: QEMU places it, the kernel places QEMU.
fn from_lines(lines: &[Line], emulator: &Path, program: &Path) -> Snapshot {
    let is_file = |line: &&Line, path: &Path| line.path.as_deref() == Some(path);
    let limit = program_limit(lines, emulator);
    let guest: Vec<&Line> = lines.iter().filter(|line| line.range.end <= limit).collect();
    let image = guest.iter().find(|line| is_file(line, program)).map(|line| line.range.start);
    let stack = guest.windows(2).find(|pair| is_stack(pair[0], pair[1]));
    let kernel_placed =
        lines.iter().filter(|line| line.path.is_some() && line.range.start >= KERNEL_PLACED);
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
fn is_stack(guard: &Line, stack: &Line) -> bool {
    let is_guard = !guard.read && !guard.write && guard.range.end - guard.range.start == PAGE_BYTES;
    is_guard && stack.write && stack.path.is_none() && guard.range.end == stack.range.start
}

fn map_event(line: &Line, in_stack: bool) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(line.range.start),
        length: line.range.end - line.range.start,
        permissions: if line.write { Permissions::READ_WRITE } else { Permissions::READ },
        accessible: line.read || line.write,
        backing: match line.path {
            _ if in_stack => Backing::Stack,
            Some(_) => Backing::File,
            None => Backing::Anonymous,
        },
        shared: line.shared,
        populate: false,
    }
}

/// The emulator never maps the program's code executable, so the maps do not show what is code;
/// the file does.
fn code_events(line: &Line) -> Vec<ProgramEvent> {
    let Some(path) = line.path.as_deref().filter(|_| !line.write) else { return Vec::new() };
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

/// Tells which pages of a process exist.
pub struct PageMap(File);

impl PageMap {
    /// The pages of process `pid`.
    pub fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/pagemap")).map(Self)
    }

    /// Runs of pages in `range` that exist. Pages that cannot be asked for do not.
    pub fn present(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut page = range.start / PAGE_BYTES;
        let end = range.end / PAGE_BYTES;
        let mut bytes = vec![0; (PAGEMAP_PAGES.min(end - page) * 8) as usize];
        while page < end {
            let count = PAGEMAP_PAGES.min(end - page);
            let part = &mut bytes[..count as usize * 8];
            if self.0.read_exact_at(part, page * 8).is_err() {
                break;
            }
            for (index, entry) in part.chunks_exact(8).enumerate() {
                if u64::from_le_bytes(entry.try_into().unwrap_or_default()) & PAGE_EXISTS == 0 {
                    continue;
                }
                let start = (page + index as u64) * PAGE_BYTES;
                match runs.last_mut() {
                    Some(run) if run.end == start => run.end += PAGE_BYTES,
                    _ => runs.push(start..start + PAGE_BYTES),
                }
            }
            page += count;
        }
        runs
    }
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
        let lines: Vec<Line> = text.lines().filter_map(parse_line).collect();
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

    #[test]
    fn a_mapping_that_ends_before_it_begins_is_none() {
        assert!(parse_line("2000-3000 rw-p 00000000 00:00 0").is_some());
        assert_eq!(parse_line("3000-2000 rw-p 00000000 00:00 0"), None);
        assert_eq!(parse_line("2000-2000 rw-p 00000000 00:00 0"), None);
    }

    #[test]
    fn touched_pages_of_this_process_exist() {
        let pages = PageMap::open(std::process::id()).unwrap();
        let memory = vec![1u8; 16 * PAGE_BYTES as usize];
        let first = (memory.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let range = first..first + 15 * PAGE_BYTES;
        assert_eq!(pages.present(range.clone()), vec![range]);
        assert!(pages.present(0..PAGE_BYTES).is_empty(), "page 0");
    }
}
