//! Reader of gem5's packet traces: the four bytes `gem5`, then protocol-buffer messages, each preceded
//! by its length. The first message is a header; the rest are packets:
//!
//! | field | header | packet |
//! |---|---|---|
//! | 1 | name of the object that was watched | tick |
//! | 2 | version | command |
//! | 3 | ticks per second | address |
//! | 4 | names of requestors (messages) | size in bytes |
//! | 5 | | flags of the request |
//! | 6 | | number of the packet |
//! | 7 | | address of the instruction |
//!
//! gem5's instruction and dependency traces begin with the same four bytes; their headers have a number
//! in field 4.

use perforate_types::{AccessKind, Chunk, Instruction, MemoryAccess, VirtualAddress};

use super::foreign_source::{ACCESSES_ONLY, FillerLimit, Format, Input, NO_EVENTS, Window};
use super::formats::TraceFormat;
use super::{ASSUMED_IP, protocol_buffer};
use crate::source::Truncation;
use crate::{SourceMetadata, TraceError};

/// First bytes of gem5's traces.
pub(super) const MAGIC: &[u8] = b"gem5";

/// Maximum length of a message in bytes; headers list all requestors of a system.
const MAX_MESSAGE_BYTES: u64 = 1 << 15;
/// Maximum length of the varint before a message, in bytes.
const LENGTH_BYTES: usize = 10;

/// Minimum number of filler bytes that a packet other than a read or write counts as, because even an empty
/// packet takes time.
const LEAST_PACKET_BYTES: usize = 16;

/// Command of a read request. Its number is the same in all versions of gem5.
const READ_REQUEST: u64 = 1;
const WRITE_REQUEST: u64 = 4;
/// Flag of a request that fetches an instruction.
const INSTRUCTION_FETCH: u64 = 0x100;

/// Fields of a gem5 packet that the reader uses. Absent fields are 0.
#[derive(Debug, Default, PartialEq)]
struct Packet {
    command: u64,
    address: u64,
    size: u64,
    flags: u64,
    ip: u64,
}

impl Packet {
    fn decode(message: &[u8]) -> Option<Self> {
        let mut packet = Self::default();
        for field in protocol_buffer::fields(message) {
            let (number, value) = field?;
            let place = match number {
                2 => &mut packet.command,
                3 => &mut packet.address,
                4 => &mut packet.size,
                5 => &mut packet.flags,
                7 => &mut packet.ip,
                _ => continue,
            };
            *place = value.number()?;
        }
        Some(packet)
    }
}

/// Reader of a gem5 packet trace.
pub(super) struct Gem5 {
    window: Window,
    object: String,
    packets: u64,
    /// True if a packet of the trace so far was a read or write.
    has_accesses: bool,
    filler: FillerLimit,
    truncation: Option<Truncation>,
}

impl Gem5 {
    /// Description of the traces that contain requests, for error messages.
    const SUITABLE: &str = "a trace taken between a processor and its first cache";

    /// Makes a reader of `input`, and reads the header.
    pub(super) fn new(input: Input) -> Result<Self, TraceError> {
        let window = Window::new(input);
        let filler = FillerLimit::new("packets other than reads and writes (16 or more each)");
        let (object, truncation) = (String::new(), None);
        let (packets, has_accesses) = (0, false);
        let mut trace = Self { window, object, packets, has_accesses, filler, truncation };
        trace.window.at_least(MAGIC.len())?;
        trace.window.consume(MAGIC.len());
        let offset = trace.window.offset();
        let wrong = |trace: &Self, problem: &str| {
            let expected = "a packet trace of gem5 (as its CommMonitor writes them)";
            trace.window.input.damaged(offset, problem.to_owned(), expected)
        };
        let Some(header) = trace.message(header)? else {
            return Err(wrong(&trace, "a gem5 trace without a header"));
        };
        let Some(object) = header else {
            let problem = "a gem5 trace of another kind than packets, or a damaged one";
            return Err(wrong(&trace, problem));
        };
        trace.object = object;
        Ok(trace)
    }

    /// Decodes and consumes the next message; `None` at the end of the trace.
    fn message<T>(&mut self, decode: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, TraceError> {
        let offset = self.window.offset();
        let start = self.window.at_least(LENGTH_BYTES)?;
        if start.is_empty() {
            return Ok(None);
        }
        let at_end = start.len() < LENGTH_BYTES;
        let Some((length, bytes)) = protocol_buffer::varint(start) else {
            if at_end {
                self.cut_off(offset);
                return Ok(None);
            }
            let problem = "an impossible message length".to_owned();
            return Err(self.window.input.damaged(offset, problem, "a number of at most 64 bits"));
        };
        if length > MAX_MESSAGE_BYTES {
            let problem = format!("a message of {length} bytes");
            let expected = format!("at most {MAX_MESSAGE_BYTES}");
            return Err(self.window.input.damaged(offset, problem, &expected));
        }
        let whole = bytes + length as usize;
        let start = self.window.at_least(whole)?;
        let Some(decoded) = start.get(bytes..whole).map(decode) else {
            self.cut_off(offset);
            return Ok(None);
        };
        self.window.consume(whole);
        Ok(Some(decoded))
    }

    fn cut_off(&mut self, offset: u64) {
        let problem = "a message is cut off".to_owned();
        self.truncation = Some(Truncation { offset, instructions: 0, problem });
    }
}

/// Name of the gem5 object whose packets were traced, from a packet trace's header; `None` for other kinds of
/// headers.
fn header(message: &[u8]) -> Option<String> {
    let (mut object, mut has_frequency) = (String::new(), false);
    for field in protocol_buffer::fields(message) {
        match field? {
            (1, value) => {
                object = String::from_utf8_lossy(value.bytes()?).chars().take(80).collect()
            }
            (3, value) => has_frequency = value.number().is_some(),
            (4, value) => drop(value.bytes()?),
            _ => {}
        }
    }
    has_frequency.then_some(object)
}

impl Format for Gem5 {
    fn metadata(&self) -> SourceMetadata {
        SourceMetadata {
            format: TraceFormat::Gem5.name(),
            assumptions: vec![
                format!(
                    "packets watched at {:?}; their addresses are taken for virtual ones, though \
                     gem5 records physical ones",
                    self.object
                ),
                "each read or write request is an instruction of its own; fetches, responses and \
                 all other commands are left out"
                    .to_owned(),
                format!("packets without an instruction address: {ASSUMED_IP:#x} assumed"),
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
            let offset = self.window.offset();
            let wrong = |trace: &Self, problem: String, expected: &str| {
                Err(trace.window.input.damaged(offset, problem, expected))
            };
            let Some(packet) = self.message(Packet::decode)? else {
                if let Some(truncation) = &mut self.truncation {
                    truncation.instructions = chunk.instructions.len() as u64;
                }
                if self.packets > 0 && !self.has_accesses {
                    let problem = format!("none of {} packets is a read or write", self.packets);
                    return wrong(self, problem, Self::SUITABLE);
                }
                break;
            };
            let Some(packet) = packet else {
                return wrong(self, "an impossible packet".into(), "a gem5 packet message");
            };
            self.packets += 1;
            let kind = match packet.command {
                _ if packet.flags & INSTRUCTION_FETCH != 0 => None,
                READ_REQUEST => Some(AccessKind::Read),
                WRITE_REQUEST => Some(AccessKind::Write),
                _ => None,
            };
            let Some(kind) = kind else {
                let bytes = (self.window.offset() - offset) as usize;
                if let Err(problem) = self.filler.add(bytes.max(LEAST_PACKET_BYTES)) {
                    return wrong(self, problem, Self::SUITABLE);
                }
                continue;
            };
            self.filler.note_entry();
            self.has_accesses = true;
            let Some(size) = u16::try_from(packet.size).ok().filter(|&size| size > 0) else {
                return wrong(self, format!("a packet of {} bytes", packet.size), "1 to 65535");
            };
            let ip = if packet.ip == 0 { ASSUMED_IP } else { packet.ip };
            let ip = VirtualAddress::new(ip);
            let address = VirtualAddress::new(packet.address);
            let access = MemoryAccess { address, size, kind };
            chunk.push(Instruction { ip, ..Instruction::default() }, &[access]);
        }
        Ok(self.truncation.take())
    }
}
