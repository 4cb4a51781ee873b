//! File format of snapshots: compact and checksummed. The reader does not trust the content.
//!
//! A file begins with a signature and a version. Chunks follow. Each chunk has a header of 16 bytes
//! (little endian: kind, bytes of the payload, bytes of the content, CRC-32 of the payload). The
//! payload is the content, compressed by zstd if that makes it shorter. The first chunk is
//! [`SnapshotAbout`] as JSON. Then records of blocks follow, from address 0 upwards. A record is
//! the number of a state for a uniform block, or [`MIXED`] and 256 bytes for another block,
//! followed by the number of such blocks. The last chunk has the total number of blocks.

use std::io::{self, Read, Write};

use super::builder::OccupancyBuilder;
use super::{BlockStates, FrameState, HostSnapshot, Packed, SnapshotAbout, States};
use crate::OsError;

const SIGNATURE: [u8; 8] = *b"\x89PSNAP\r\n";
const VERSION: u32 = 1;
const PREAMBLE_BYTES: u64 = 12;
const HEADER_BYTES: u64 = 16;

const ABOUT: u32 = 1;
const BLOCKS: u32 = 2;
const END: u32 = 3;

/// First byte of the record, in a snapshot file, of a 2MB block whose frames have different states.
const MIXED: u8 = 0x80;
/// Largest decompressed content of a chunk of a snapshot file, in bytes.
const MOST_CONTENT_BYTES: usize = 1 << 20;
/// Length of the content before compression, in bytes, at which the writer begins a new chunk.
const CHUNK_BYTES: usize = MOST_CONTENT_BYTES - 512;
/// Largest ratio of a chunk's decompressed to its stored bytes, so that a small file cannot fill memory.
const MOST_EXPANSION: usize = 256;
const LEVEL: i32 = 3;

impl HostSnapshot {
    /// True if `bytes` begins with the signature of snapshot files.
    pub fn has_signature(bytes: &[u8]) -> bool {
        bytes.starts_with(&SIGNATURE)
    }

    /// Writes the snapshot as a file to `out`.
    ///
    /// # Errors
    /// If writing fails, or the description is larger than a chunk.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&SIGNATURE)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let about = serde_json::to_vec(&self.about)?;
        if about.len() > MOST_CONTENT_BYTES {
            return Err(io::Error::other("more zones than a snapshot can hold"));
        }
        write_chunk(out, ABOUT, &about)?;
        let mut content = Vec::with_capacity(MOST_CONTENT_BYTES);
        let mut blocks = 0_u64;
        for (_, number, states) in self.occupancy.iter().flat_map(|known| known.block_runs()) {
            match states {
                BlockStates::Uniform(state) => content.push(state as u8),
                BlockStates::Mixed(_) => content.push(MIXED),
            }
            push_number(&mut content, number);
            if let BlockStates::Mixed(packed) = states {
                content.extend_from_slice(packed);
            }
            blocks += number;
            if content.len() >= CHUNK_BYTES {
                write_chunk(out, BLOCKS, &content)?;
                content.clear();
            }
        }
        if !content.is_empty() {
            write_chunk(out, BLOCKS, &content)?;
        }
        write_chunk(out, END, &blocks.to_le_bytes())
    }

    /// Reads a snapshot. Memory use grows with the bytes that were read, not with the sizes that
    /// the file claims.
    ///
    /// # Errors
    /// Names the byte of the file and the problem.
    pub fn read_from(input: &mut impl Read) -> Result<Self, OsError> {
        let mut reader = Reader { input, offset: 0, content: Vec::new() };
        let mut preamble = [0; PREAMBLE_BYTES as usize];
        reader.fill(&mut preamble)?;
        if !Self::has_signature(&preamble) {
            return Err(reader.wrong(0, "not a snapshot of a host (perforate snapshot host -o)"));
        }
        let version = word(&preamble, 8);
        if version != VERSION {
            let problem = format!("version {version}; this program reads version {VERSION}");
            return Err(reader.wrong(8, problem));
        }
        let kind = reader.chunk()?;
        if kind != ABOUT {
            return Err(reader.wrong(PREAMBLE_BYTES, "the first chunk is not the description"));
        }
        let about: SnapshotAbout = serde_json::from_slice(&reader.content).map_err(|error| {
            reader
                .wrong(PREAMBLE_BYTES, format!("the description is not what it should be: {error}"))
        })?;
        let mut builder = OccupancyBuilder::default();
        loop {
            let start = reader.offset;
            match reader.chunk()? {
                BLOCKS => {
                    add_blocks(&reader.content, &mut builder)
                        .map_err(|problem| reader.wrong(start, problem))?;
                }
                END => {
                    let blocks = reader.content.as_slice().try_into().map(u64::from_le_bytes).ok();
                    if blocks != Some(builder.frames() / 512) {
                        return Err(reader.wrong(start, "the number of blocks is another"));
                    }
                    break;
                }
                kind => return Err(reader.wrong(start, format!("a chunk of unknown kind {kind}"))),
            }
        }
        if reader.input.read(&mut [0]).map_err(|error| reader.failed(&error))? != 0 {
            return Err(reader.wrong(reader.offset, "the file goes on behind its end"));
        }
        let occupancy = builder.finish()?;
        let occupancy = (occupancy.blocks() > 0).then_some(occupancy);
        Ok(Self { about, occupancy })
    }
}

fn write_chunk(out: &mut impl Write, kind: u32, content: &[u8]) -> io::Result<()> {
    let packed = zstd::bulk::compress(content, LEVEL)?;
    let pays = packed.len() < content.len() && content.len() <= packed.len() * MOST_EXPANSION;
    let payload = if pays { &packed } else { content };
    for number in [kind, payload.len() as u32, content.len() as u32, crc32fast::hash(payload)] {
        out.write_all(&number.to_le_bytes())?;
    }
    out.write_all(payload)
}

/// Appends a number in LEB128 (seven bits a byte, lowest first) to the content of a chunk.
fn push_number(content: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        content.push(number as u8 | 128);
        number >>= 7;
    }
    content.push(number as u8);
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// State of the reader of a snapshot file.
struct Reader<'a, R> {
    input: &'a mut R,
    offset: u64,
    /// Decompressed content of the last chunk.
    content: Vec<u8>,
}

impl<R: Read> Reader<'_, R> {
    fn wrong(&self, offset: u64, problem: impl Into<String>) -> OsError {
        OsError::InvalidSnapshot { place: format!("byte {offset}"), problem: problem.into() }
    }

    fn failed(&self, error: &io::Error) -> OsError {
        let problem = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the file ends early".into(),
            _ => error.to_string(),
        };
        self.wrong(self.offset, problem)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), OsError> {
        self.input.read_exact(bytes).map_err(|error| self.failed(&error))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Reads and decompresses the next chunk of the file. Returns its kind: description, block records or
    /// end.
    fn chunk(&mut self) -> Result<u32, OsError> {
        let start = self.offset;
        let mut header = [0; HEADER_BYTES as usize];
        self.fill(&mut header)?;
        let [kind, stored, content, checksum] = [0, 4, 8, 12].map(|at| word(&header, at));
        let (stored, content) = (stored as usize, content as usize);
        if content > MOST_CONTENT_BYTES
            || stored > content
            || content > stored.saturating_mul(MOST_EXPANSION)
        {
            return Err(self.wrong(start, "a chunk of impossible length"));
        }
        let mut payload = vec![0; stored];
        self.fill(&mut payload)?;
        if crc32fast::hash(&payload) != checksum {
            return Err(self.wrong(start, "the checksum differs: the file is damaged"));
        }
        self.content = if stored == content {
            payload
        } else {
            zstd::bulk::decompress(&payload, content)
                .ok()
                .filter(|unpacked| unpacked.len() == content)
                .ok_or_else(|| self.wrong(start, "a chunk that cannot be unpacked"))?
        };
        Ok(kind)
    }
}

/// Adds the block records in the content of a chunk to the builder.
fn add_blocks(content: &[u8], builder: &mut OccupancyBuilder) -> Result<(), String> {
    let mut rest = content;
    while let [kind, after @ ..] = rest {
        rest = after;
        let blocks = take_number(&mut rest).ok_or("a number of blocks that is cut off")?;
        if blocks == 0 {
            return Err("a record of no blocks".into());
        }
        let added = if *kind == MIXED {
            let (packed, after) = rest.split_first_chunk().ok_or("a block that is cut off")?;
            rest = after;
            let packed: &Packed = packed;
            let known = |byte: &u8| {
                usize::from(byte & 15) < FrameState::COUNT
                    && usize::from(byte >> 4) < FrameState::COUNT
            };
            if !packed.iter().all(known) {
                return Err("a state of a frame that there is not".into());
            }
            builder.push_mixed(packed, blocks)
        } else {
            let state = FrameState::of_number(*kind)
                .ok_or_else(|| format!("a record of unknown kind {kind}"))?;
            builder.add(States::Uniform(state), blocks)
        };
        added.map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..42).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}
