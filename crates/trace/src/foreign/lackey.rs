//! Reader of the output of `valgrind --tool=lackey --trace-mem=yes`: a line `I  address,size` per
//! instruction, followed by ` L address,size` (load), ` S …` (store) or ` M …` (load and store) for its
//! accesses. Addresses are hexadecimal, sizes are decimal. Lines that start with `==` or `--` come from
//! valgrind itself.

use perforate_types::{AccessKind, Chunk, Instruction, MemoryAccess, VirtualAddress};

use super::foreign_source::{Format, Input, Lines, NO_EVENTS, Pending, quote};
use super::formats::TraceFormat;
use crate::source::Truncation;
use crate::{SourceMetadata, TraceError};

const EXPECTED: &str = "'I  ADDRESS,SIZE', ' L ADDRESS,SIZE', ' S …', ' M …' or '==PID== …'";

/// Content of one line of lackey's output.
#[derive(Debug, PartialEq)]
enum Line {
    Instruction { ip: u64, length: u8 },
    Access { kinds: &'static [AccessKind], address: u64, size: u16 },
    Ignored,
}

/// True if a file that begins with `sample` is lackey's output.
pub(super) fn is_lackey(sample: &[u8]) -> bool {
    let mut lines = sample.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let Some(first) = lines.next() else { return false };
    match parse(first) {
        Some(Line::Instruction { .. } | Line::Access { .. }) => true,
        Some(Line::Ignored) => first.starts_with(b"=="),
        None => false,
    }
}

fn parse(line: &[u8]) -> Option<Line> {
    const READ: &[AccessKind] = &[AccessKind::Read];
    const WRITE: &[AccessKind] = &[AccessKind::Write];
    const BOTH: &[AccessKind] = &[AccessKind::Read, AccessKind::Write];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let kinds = match line {
        [] | [b'=', b'=', ..] | [b'-', b'-', ..] => return Some(Line::Ignored),
        [b'I', b' ', b' ', ..] => &[],
        [b' ', b'L', b' ', ..] => READ,
        [b' ', b'S', b' ', ..] => WRITE,
        [b' ', b'M', b' ', ..] => BOTH,
        _ => return None,
    };
    let operands = std::str::from_utf8(&line[3..]).ok()?.trim();
    let (address, size) = operands.split_once(',')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let size: u16 = size.parse().ok().filter(|&size| size > 0)?;
    Some(if kinds.is_empty() {
        // Valgrind's replacement code may appear as longer blocks, whose length is not an
        // instruction's.
        Line::Instruction { ip: address, length: if size <= 15 { size as u8 } else { 0 } }
    } else {
        Line::Access { kinds, address, size }
    })
}

/// Reader of a lackey trace.
pub(super) struct Lackey {
    lines: Lines,
    pending: Pending,
}

impl Lackey {
    pub(super) fn new(input: Input) -> Self {
        Self { lines: Lines::new(input, EXPECTED), pending: Pending::default() }
    }

    /// Reads the next line of lackey's output; `None` at the end.
    fn next_line(&mut self) -> Result<Option<Line>, TraceError> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        let Some(line) = self.lines.line.strip_suffix(b"\n") else { return Ok(None) };
        let parsed = parse(line).ok_or_else(|| self.lines.wrong(quote(line)))?;
        self.lines.count(parsed == Line::Ignored)?;
        if self.pending.instruction.is_none() && matches!(parsed, Line::Access { .. }) {
            let problem = "an access before the first instruction".to_owned();
            let expected = "a line 'I  ADDRESS,SIZE' first";
            return Err(self.lines.wrong_for(problem, expected));
        }
        Ok(Some(parsed))
    }
}

impl Format for Lackey {
    fn metadata(&self) -> SourceMetadata {
        SourceMetadata {
            format: TraceFormat::Lackey.name(),
            assumptions: vec![
                "registers and branches are not recorded; no dependencies assumed".to_owned(),
                "operations are not recorded; all counted as integer".to_owned(),
                NO_EVENTS.to_owned(),
            ],
            ..SourceMetadata::default()
        }
    }

    fn fill(
        &mut self,
        chunk: &mut Chunk,
        at_most: usize,
    ) -> Result<Option<Truncation>, TraceError> {
        while chunk.instructions.len() < at_most {
            match self.next_line()? {
                Some(Line::Instruction { ip, length }) => {
                    self.pending.complete(chunk);
                    let ip = VirtualAddress::new(ip);
                    let instruction = Instruction { ip, length, ..Instruction::default() };
                    self.pending.instruction = Some(instruction);
                }
                Some(Line::Access { kinds, address, size }) => {
                    let address = VirtualAddress::new(address);
                    for &kind in kinds {
                        self.pending.access(MemoryAccess { address, size, kind }, chunk);
                    }
                }
                Some(Line::Ignored) => {}
                None => {
                    // The end of the file may have cut the pending instruction's accesses short.
                    let truncation = self.lines.take_truncation(chunk.instructions.len());
                    self.pending.complete(chunk);
                    return Ok(truncation);
                }
            }
        }
        Ok(None)
    }
}
