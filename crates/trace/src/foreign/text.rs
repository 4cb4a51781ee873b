//! Reader of lists of accesses: one line `KIND ADDRESS [SIZE] [PID] [IP]` per access, separated by
//! commas or by blanks and tabs.
//!
//! KIND is R or W for an access, or I for an instruction whose accesses follow; upper case, lower case,
//! or the full word. Numbers are decimal, or hexadecimal after `0x`. [`Format::metadata`] states the
//! defaults of absent or empty fields. A first line of column names may change the order of columns.
//! Empty lines and lines that begin with `#` are ignored.

use perforate_types::{AccessKind, Chunk, Instruction, MemoryAccess, VirtualAddress};

use super::ASSUMED_IP;
use super::foreign_source::{
    ACCESSES_ONLY, Format, Input, Lines, NO_EVENTS, Pending, SwitchTracker, quote,
};
use super::formats::TraceFormat;
use crate::source::Truncation;
use crate::{SourceMetadata, TraceError};

/// Assumed size in bytes of accesses whose line has no size.
const ASSUMED_SIZE_BYTES: u16 = 8;
const EXPECTED: &str =
    "'R|W|I ADDRESS [SIZE] [PID] [IP]' with commas or blanks between, numbers decimal or after 0x";

/// First line of lists that Perforate writes: the names of the columns.
pub(super) const HEADER: &str = "kind,address,size,pid,ip";

/// Names that the first line may give to each column.
const NAMES: [&[&str]; 5] = [
    &["kind", "op", "type", "rw", "access"],
    &["address", "addr", "vaddr"],
    &["size", "bytes", "length"],
    &["pid", "process", "asid"],
    &["ip", "pc"],
];

/// Index of the column with kind, address, size, process and instruction address; `None` for absent columns.
type Columns = [Option<usize>; 5];

const IN_ORDER: Columns = [Some(0), Some(1), Some(2), Some(3), Some(4)];

/// Content of one line of a list of accesses.
#[derive(Debug, PartialEq)]
enum Line {
    /// An access, or an instruction if its `kind` is `None`.
    Entry {
        kind: Option<AccessKind>,
        address: u64,
        size: Option<u16>,
        pid: Option<u64>,
        ip: Option<u64>,
    },
    Header(Columns),
    Ignored,
}

/// Problem of the first line that has content, if a file that begins with `sample` is no list of accesses:
/// number of the line, and what is wrong.
pub(super) fn problem(sample: &[u8]) -> Option<(usize, String)> {
    let lines = sample.split(|&byte| byte == b'\n').map(|line| parse(line, &IN_ORDER));
    let mut told = lines.enumerate().filter(|(_, line)| *line != Ok(Line::Ignored));
    match told.next() {
        Some((_, Ok(_))) => None,
        Some((number, Err(problem))) => Some((number + 1, problem)),
        None => Some((1, "nothing but empty lines and comments".into())),
    }
}

fn parse(line: &[u8], columns: &Columns) -> Result<Line, String> {
    let Ok(text) = std::str::from_utf8(line) else { return Err(quote(line)) };
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(Line::Ignored);
    }
    let mut fields = [""; 16];
    let mut count = 0;
    let mut add = |field| {
        let place = fields.get_mut(count).ok_or("more than 16 fields")?;
        *place = field;
        count += 1;
        Ok::<_, String>(())
    };
    if text.contains(',') {
        text.split(',').try_for_each(|field| add(field.trim()))?;
    } else {
        text.split_whitespace().try_for_each(&mut add)?;
    }
    let fields = &fields[..count];
    entry(fields, columns).or_else(|problem| header(fields).unwrap_or(Err(problem)))
}

/// Reads the names of columns; `None` if no field is such a name.
fn header(fields: &[&str]) -> Option<Result<Line, String>> {
    let column = |field: &&str| {
        let names_it = |names: &&[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(field));
        NAMES.iter().position(names_it)
    };
    fields.iter().any(|field| column(field).is_some()).then(|| {
        let mut columns: Columns = [None; 5];
        for (place, field) in fields.iter().enumerate() {
            let known = || HEADER.replace(',', ", ");
            let column = column(field).ok_or_else(|| {
                format!("column {} is none of {}", quote(field.as_bytes()), known())
            })?;
            if columns[column].replace(place).is_some() {
                return Err(format!("column {field:?} stands twice"));
            }
        }
        match columns {
            [Some(_), Some(_), ..] => Ok(Line::Header(columns)),
            [None, ..] => Err("no column is the kind".into()),
            _ => Err("no column is the address".into()),
        }
    })
}

fn entry(fields: &[&str], columns: &Columns) -> Result<Line, String> {
    let field = |column: usize| {
        columns[column].and_then(|place| fields.get(place)).copied().filter(|text| !text.is_empty())
    };
    let wrong = |name: &str, text: &str, expected: &str| {
        format!("{name} {} is {expected}", quote(text.as_bytes()))
    };
    let kind = match field(0).ok_or("no kind")? {
        "R" | "r" | "read" | "READ" | "Read" => Some(AccessKind::Read),
        "W" | "w" | "write" | "WRITE" | "Write" => Some(AccessKind::Write),
        "I" | "i" | "instruction" | "INSTRUCTION" | "Instruction" => None,
        other => return Err(wrong("kind", other, "none of R, W and I")),
    };
    let most = columns.iter().flatten().max().map_or(0, |last| last + 1);
    if fields.len() > most {
        return Err(format!("{} fields are more than the {most} columns", fields.len()));
    }
    let number = |name: &str, text| number(text).ok_or_else(|| wrong(name, text, "no number"));
    let optional = |name, column| field(column).map(|text| number(name, text)).transpose();
    let size = match field(2) {
        Some(text) => {
            let size = u16::try_from(number("size", text)?).ok().filter(|&size| size > 0);
            Some(size.ok_or_else(|| wrong("size", text, "not from 1 to 65535"))?)
        }
        None => None,
    };
    let address = number("address", field(1).ok_or("no address")?)?;
    Ok(Line::Entry { kind, address, size, pid: optional("pid", 3)?, ip: optional("ip", 4)? })
}

fn number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match digits.map_or((text, 10), |digits| (digits, 16)) {
        (digits, _) if digits.starts_with('+') => None,
        (digits, radix) => u64::from_str_radix(digits, radix).ok(),
    }
}

/// Reader of a list of accesses.
pub(super) struct Text {
    lines: Lines,
    columns: Columns,
    pending: Pending,
    /// True if the pending instruction comes from a line of the kind `I`. Accesses that name no instruction
    /// address then belong to it.
    has_line: bool,
    running: SwitchTracker,
    any: bool,
}

impl Text {
    pub(super) fn new(input: Input) -> Self {
        Self {
            lines: Lines::new(input, EXPECTED),
            columns: IN_ORDER,
            pending: Pending::default(),
            has_line: false,
            running: SwitchTracker::default(),
            any: false,
        }
    }

    /// Reads the next line of the list; `None` at the end. A last line without a line feed counts if it can be
    /// read.
    fn next_line(&mut self) -> Result<Option<Line>, TraceError> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        let line = match parse(&self.lines.line, &self.columns) {
            Ok(line) => line,
            Err(_) if self.any && self.lines.is_cut_off() => return Ok(None),
            Err(problem) => return Err(self.lines.wrong(problem)),
        };
        if self.any && matches!(line, Line::Header(_)) {
            return Err(self.lines.wrong("column names below the first line".into()));
        }
        self.lines.count(line == Line::Ignored)?;
        Ok(Some(line))
    }

    /// Adds an event to `chunk` if `pid` is not the running process. Without `pid`, the process stays the
    /// same.
    fn switch(&mut self, pid: Option<u64>, chunk: &mut Chunk) -> Result<(), TraceError> {
        let Some(pid) = pid else { return Ok(()) };
        let event = self
            .running
            .switch(pid, 0)
            .map_err(|()| self.lines.wrong_for("too many processes".to_owned(), "at most 65536"))?;
        if let Some(event) = event {
            self.pending.complete(chunk);
            chunk.push_event(event);
        }
        Ok(())
    }

    fn begin(&mut self, ip: u64, length: u8, chunk: &mut Chunk) {
        self.pending.complete(chunk);
        let ip = VirtualAddress::new(ip);
        self.pending.instruction = Some(Instruction { ip, length, ..Instruction::default() });
    }

    fn access(&mut self, access: MemoryAccess, ip: Option<u64>, chunk: &mut Chunk) {
        let own = self.pending.instruction.filter(|_| self.has_line);
        let joins = own.is_some_and(|own| ip.is_none_or(|ip| own.ip.value() == ip));
        if !joins {
            self.begin(ip.unwrap_or(ASSUMED_IP), 0, chunk);
            self.has_line = false;
        }
        self.pending.access(access, chunk);
    }
}

impl Format for Text {
    fn metadata(&self) -> SourceMetadata {
        SourceMetadata {
            format: TraceFormat::Csv.name(),
            assumptions: vec![
                format!(
                    "accesses without an I line before them are an instruction each; without an \
                     instruction address, at {ASSUMED_IP:#x}"
                ),
                format!("accesses without a size: {ASSUMED_SIZE_BYTES} bytes assumed"),
                ACCESSES_ONLY.to_owned(),
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
                Some(Line::Entry { kind, address, size, pid, ip }) => {
                    self.any = true;
                    self.switch(pid, chunk)?;
                    if let Some(kind) = kind {
                        let size = size.unwrap_or(ASSUMED_SIZE_BYTES);
                        let address = VirtualAddress::new(address);
                        self.access(MemoryAccess { address, size, kind }, ip, chunk);
                    } else {
                        let length = size.filter(|&size| size <= 15).unwrap_or(0) as u8;
                        self.begin(address, length, chunk);
                        self.has_line = true;
                    }
                }
                Some(Line::Header(columns)) => {
                    self.columns = columns;
                    self.any = true;
                }
                Some(Line::Ignored) => {}
                None => {
                    // The end of the file may have cut the pending instruction short.
                    let truncation = self.lines.take_truncation(chunk.instructions.len());
                    self.pending.complete(chunk);
                    return Ok(truncation);
                }
            }
        }
        Ok(None)
    }
}
