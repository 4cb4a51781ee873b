//! Chunks of a trace file: their locations, and completeness of the file.

use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};

use super::columns::Unpacker;
use super::header::{HEADER_BYTES, Header, Kind, Problem, field, problem};
use super::index::{self, Place};
use super::{MAX_METADATA_BYTES, PREAMBLE_BYTES, SIGNATURE, TraceMetadata, VERSION, VERSIONS};
use crate::TraceError;
use crate::content::{Content, ReadSeek};
use crate::source::Truncation;

/// Length of the last chunk in bytes, which contains the offset of the index.
const END_BYTES: u64 = HEADER_BYTES as u64 + 8;

/// State of the end of a trace file.
pub(crate) enum End {
    /// The file ends with its end chunk.
    Whole,
    /// The file ends early, after its last whole chunk.
    Truncated(Truncation),
    /// The file has an invalid chunk header, at this offset.
    Damaged(u64, Problem),
}

/// An open trace file with its list of chunks.
pub(crate) struct TraceFile {
    pub(crate) path: PathBuf,
    file: Box<dyn ReadSeek>,
    /// Current position in `file`, which avoids unnecessary seeks.
    read_position: u64,
    pub(crate) bytes: u64,
    pub(crate) version: u32,
    pub(crate) metadata: TraceMetadata,
    pub(crate) places: Vec<Place>,
    pub(crate) end: End,
    pub(crate) instructions: u64,
}

impl TraceFile {
    /// Reads the preamble and finds the chunks of a trace file; `path` is for errors.
    pub(crate) fn read(
        path: &Path,
        content: Content,
        unpacker: &mut Unpacker,
    ) -> Result<Self, TraceError> {
        let io = |action| move |error| TraceError::io(path, action, error);
        let mut trace = Self {
            path: path.to_owned(),
            file: content.bytes,
            read_position: 0,
            bytes: content.length,
            version: VERSION,
            metadata: TraceMetadata::default(),
            places: Vec::new(),
            end: End::Whole,
            instructions: 0,
        };
        trace.check_preamble()?;
        trace.read_metadata(unpacker)?;
        if trace.use_index(unpacker).map_err(io("read"))?.is_none() {
            trace.scan().map_err(io("read"))?;
        }
        trace.read_last_metadata(unpacker)?;
        let counts = trace.places.iter().filter(|place| place.header.kind == Kind::Instructions);
        trace.instructions = counts.map(|place| u64::from(place.header.count)).sum();
        if let End::Truncated(truncation) = &mut trace.end {
            truncation.instructions = trace.instructions;
        }
        Ok(trace)
    }

    fn check_preamble(&mut self) -> Result<(), TraceError> {
        let wrong = |offset, found: String, expected: String| {
            Err(TraceError::damaged(&self.path, offset, found, expected))
        };
        if self.bytes < PREAMBLE_BYTES {
            return wrong(0, format!("{} bytes", self.bytes), "a trace's signature".into());
        }
        let mut bytes = [0; PREAMBLE_BYTES as usize];
        self.file
            .read_exact(&mut bytes)
            .map_err(|error| TraceError::io(&self.path, "read", error))?;
        self.read_position = PREAMBLE_BYTES;
        if bytes[..8] != SIGNATURE {
            return wrong(0, "not a Perforate trace".into(), "a trace's signature".into());
        }
        let version = u32::from_le_bytes(field(&bytes, 8));
        if !VERSIONS.contains(&version) {
            let [first, second, third] = VERSIONS;
            let expected = format!("version {first}, {second} or {third}");
            return wrong(8, format!("format version {version}"), expected);
        }
        self.version = version;
        Ok(())
    }

    fn read_metadata(&mut self, unpacker: &mut Unpacker) -> Result<(), TraceError> {
        let wrong = |trace: &Self, problem: Problem| {
            TraceError::damaged(&trace.path, PREAMBLE_BYTES, problem.found, problem.expected)
        };
        let place = match self.read_place(PREAMBLE_BYTES) {
            Ok(Found::Place(place)) if place.header.kind == Kind::Metadata => place,
            Ok(Found::Place(_)) => {
                return Err(wrong(self, problem("another chunk", "the metadata chunk")));
            }
            Ok(Found::CutOff(found)) => {
                return Err(wrong(self, problem(found, "the metadata chunk")));
            }
            Ok(Found::Damaged(problem)) => return Err(wrong(self, problem)),
            Err(error) => return Err(TraceError::io(&self.path, "read", error)),
        };
        self.metadata = self.metadata_at(&place, unpacker)?;
        self.places.push(place);
        Ok(())
    }

    /// Replaces the metadata by the last metadata chunk, which contains values known only at the end of
    /// a recording.
    fn read_last_metadata(&mut self, unpacker: &mut Unpacker) -> Result<(), TraceError> {
        let mut later = self.places[1..].iter();
        let last = later.rfind(|place| place.header.kind == Kind::Metadata).copied();
        if let Some(place) = last {
            self.metadata = self.metadata_at(&place, unpacker)?;
        }
        Ok(())
    }

    fn metadata_at(
        &mut self,
        place: &Place,
        unpacker: &mut Unpacker,
    ) -> Result<TraceMetadata, TraceError> {
        let mut payload = Vec::new();
        self.read_payload(place, &mut payload)?;
        let wrong = |problem: Problem| {
            TraceError::damaged(&self.path, place.offset, problem.found, problem.expected)
        };
        let column = unpacker.unpack_one(&payload).map_err(wrong)?;
        let length = column.rest().len();
        if length > MAX_METADATA_BYTES {
            let found = format!("metadata of {length} bytes");
            return Err(wrong(problem(found, format!("at most {MAX_METADATA_BYTES}"))));
        }
        serde_json::from_slice(column.rest())
            .map_err(|error| wrong(problem(format!("metadata: {error}"), "valid JSON")))
    }

    /// Takes the list of chunks from the index. `Ok(None)` if there is no valid index.
    fn use_index(&mut self, unpacker: &mut Unpacker) -> io::Result<Option<()>> {
        let Some(end_offset) = self.bytes.checked_sub(END_BYTES) else { return Ok(None) };
        let Found::Place(end) = self.read_place(end_offset)? else { return Ok(None) };
        let mut payload = Vec::new();
        if end.header.kind != Kind::End || !self.fetch(&end, &mut payload)? || payload.len() != 8 {
            return Ok(None);
        }
        let index_offset = u64::from_le_bytes(field(&payload, 0));
        if index_offset >= end_offset {
            return Ok(None);
        }
        let Found::Place(place) = self.read_place(index_offset)? else { return Ok(None) };
        if place.header.kind != Kind::Index
            || place.end() != end_offset
            || !self.fetch(&place, &mut payload)?
        {
            return Ok(None);
        }
        let count = place.header.count;
        let Ok(places) = index::decode(&payload, count, index_offset, unpacker) else {
            return Ok(None);
        };
        let mut position = 0;
        if places.first() != self.places.first()
            || !places.iter().all(|place| continues(&place.header, &mut position))
        {
            return Ok(None);
        }
        self.places = places;
        Ok(Some(()))
    }

    /// Finds the chunks by following their headers, for files without an index.
    fn scan(&mut self) -> io::Result<()> {
        self.places.truncate(1);
        let mut offset = self.places[0].end();
        let mut position = 0;
        loop {
            let place = match self.read_place(offset)? {
                Found::Place(place) => place,
                Found::CutOff(problem) => {
                    let truncation = Truncation { offset, instructions: 0, problem };
                    self.end = End::Truncated(truncation);
                    return Ok(());
                }
                Found::Damaged(problem) => {
                    self.end = End::Damaged(offset, problem);
                    return Ok(());
                }
            };
            offset = place.end();
            if !continues(&place.header, &mut position) {
                let found = format!("instruction {} out of turn", place.header.first);
                self.end = End::Damaged(place.offset, problem(found, "chunks in order"));
                return Ok(());
            }
            self.places.push(place);
            if place.header.kind == Kind::End {
                if offset != self.bytes {
                    let found = format!("{} bytes after the end", self.bytes - offset);
                    self.end = End::Damaged(offset, problem(found, "none"));
                }
                return Ok(());
            }
        }
    }

    /// Reads and decodes the chunk header at `offset`.
    fn read_place(&mut self, offset: u64) -> io::Result<Found> {
        let left = self.bytes.saturating_sub(offset);
        if left == 0 {
            return Ok(Found::CutOff("the trace was not finished (it has no index)".into()));
        }
        if left < HEADER_BYTES as u64 {
            return Ok(Found::CutOff(format!("a chunk header is cut off after {left} bytes")));
        }
        let mut bytes = [0; HEADER_BYTES];
        self.seek(offset)?;
        self.file.read_exact(&mut bytes)?;
        self.read_position += HEADER_BYTES as u64;
        let header = match Header::decode(&bytes) {
            Ok(header) => header,
            Err(problem) => return Ok(Found::Damaged(problem)),
        };
        let place = Place { offset, header };
        if place.end() > self.bytes {
            let (has, needs) = (left - HEADER_BYTES as u64, header.payload_bytes);
            return Ok(Found::CutOff(format!("a chunk of {needs} bytes is cut off after {has}")));
        }
        Ok(Found::Place(place))
    }

    /// Reads and checks the payload of the chunk at `place`. Also reads the chunk's header again and compares
    /// it with `place`.
    pub(crate) fn read_payload(
        &mut self,
        place: &Place,
        payload: &mut Vec<u8>,
    ) -> Result<(), TraceError> {
        let io = |trace: &Self, error| TraceError::io(&trace.path, "read", error);
        let found = self.read_place(place.offset).map_err(|error| io(self, error))?;
        let wrong = match found {
            Found::Place(found) if found == *place => {
                if self.fetch(place, payload).map_err(|error| io(self, error))? {
                    return Ok(());
                }
                let stored = place.header.payload_checksum;
                problem(
                    format!("the chunk's checksum is {:#010x}", crc32fast::hash(payload)),
                    format!("{stored:#010x} as its header says: a byte of the chunk was changed"),
                )
            }
            Found::Place(_) => problem("another chunk than the index says", "the same"),
            Found::CutOff(found) => problem(found, "a whole chunk, as the index says"),
            Found::Damaged(problem) => problem,
        };
        Err(TraceError::damaged(&self.path, place.offset, wrong.found, wrong.expected))
    }

    /// Reads the payload of the chunk at `place`. Returns false if its checksum is wrong.
    fn fetch(&mut self, place: &Place, payload: &mut Vec<u8>) -> io::Result<bool> {
        self.seek(place.offset + HEADER_BYTES as u64)?;
        payload.resize(place.header.payload_bytes as usize, 0);
        self.file.read_exact(payload)?;
        self.read_position = place.end();
        Ok(crc32fast::hash(payload) == place.header.payload_checksum)
    }

    fn seek(&mut self, offset: u64) -> io::Result<()> {
        if self.read_position != offset {
            self.file.seek(SeekFrom::Start(offset))?;
            self.read_position = offset;
        }
        Ok(())
    }
}

/// Content of the file at an offset at which a chunk header should be.
enum Found {
    Place(Place),
    CutOff(String),
    Damaged(Problem),
}

/// True if the chunk may follow the first `position` instructions of the trace. Adds the chunk's instructions
/// to `position`.
fn continues(header: &Header, position: &mut u64) -> bool {
    let in_turn = header.kind == Kind::Dictionary || header.first == *position;
    if header.kind == Kind::Instructions {
        *position += u64::from(header.count);
    }
    in_turn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_continue_the_trace_where_the_one_before_ended() {
        let mut position = 0;
        for (kind, first, count, continues, end) in [
            (Kind::Metadata, 0, 0, true, 0),
            (Kind::Dictionary, 7, 9, true, 0),
            (Kind::Instructions, 0, 100, true, 100),
            (Kind::Events, 100, 5, true, 100),
            (Kind::Events, 99, 5, false, 100),
            (Kind::Instructions, 101, 20, false, 120),
            (Kind::Dictionary, 0, 3, true, 120),
            (Kind::Instructions, 120, 1, true, 121),
            (Kind::Index, 121, 4, true, 121),
            (Kind::End, 122, 0, false, 121),
        ] {
            let header = Header::new(kind, &[], count, first);
            let found = self::continues(&header, &mut position);
            assert_eq!((found, position), (continues, end), "{header:?}");
        }
    }
}
