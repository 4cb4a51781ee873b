//! Writer of Perforate's trace files.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use perforate_types::{AccessKind, Instruction, MemoryAccess, ProgramEvent};

use super::columns::Packer;
use super::dictionary::Numbering;
use super::events::PositionedEvent;
use super::header::{Header, Kind, Problem};
use super::index::Place;
use super::instructions::Encoder;
use super::{
    MAX_CHUNK_ACCESSES, MAX_CHUNK_EVENTS, MAX_CHUNK_INSTRUCTIONS, MAX_METADATA_BYTES,
    MAX_PAYLOAD_BYTES, PREAMBLE_BYTES, SIGNATURE, TraceMetadata, VERSION, events, index,
};
use crate::TraceError;

/// Options for writing a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// Compression level of zstd, 1 to 22: 3 for recording, 19 for archiving.
    pub level: i32,
    /// Number of instructions per chunk, at most 2,097,152. A chunk is the unit of compression and of
    /// checksums, and of loss in a crash.
    pub chunk_instructions: u32,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { level: 3, chunk_instructions: 1 << 20 }
    }
}

/// Numbers of items that were written to a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// Number of executed instructions in the trace.
    pub instructions: u64,
    /// Number of memory accesses in the trace.
    pub accesses: u64,
    /// Number of program events in the trace.
    pub events: u64,
    /// Length of the trace file in bytes.
    pub bytes: u64,
}

/// Writer of a trace file, chunk by chunk. The file is readable after each chunk, so a killed program
/// loses only its last, incomplete chunk. [`TraceWriter::finish`] adds the index.
pub struct TraceWriter {
    path: PathBuf,
    file: File,
    packer: Packer,
    chunk_instructions: u32,
    numbering: Numbering,
    /// Number of dictionary records written to the file so far.
    records_written: usize,
    encoder: Encoder,
    events: Vec<PositionedEvent>,
    places: Vec<Place>,
    summary: TraceSummary,
    /// State of the file after each group of chunks that belong together: number of chunks, and numbers of
    /// items written so far.
    groups: Vec<(usize, TraceSummary)>,
}

impl TraceWriter {
    /// Creates or replaces the file, with default options.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create(path: impl AsRef<Path>, metadata: &TraceMetadata) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|error| TraceError::io(path, "create", error))?;
        Self::on(file, path, metadata, WriterOptions::default())
    }

    /// Writes to an open, empty file; `path` is for errors.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn on(
        file: File,
        path: impl AsRef<Path>,
        metadata: &TraceMetadata,
        options: WriterOptions,
    ) -> Result<Self, TraceError> {
        let path = path.as_ref().to_owned();
        let packer = Packer::new(options.level.clamp(1, 22))
            .map_err(|error| TraceError::io(&path, "compress", error))?;
        let mut writer = Self {
            path,
            file,
            packer,
            chunk_instructions: options.chunk_instructions.clamp(1, MAX_CHUNK_INSTRUCTIONS),
            numbering: Numbering::default(),
            records_written: 0,
            encoder: Encoder::new(),
            events: Vec::new(),
            places: Vec::new(),
            summary: TraceSummary { bytes: PREAMBLE_BYTES, ..TraceSummary::default() },
            groups: Vec::new(),
        };
        writer.encoder.reset(&writer.numbering.dictionary);
        writer.begin(metadata).map_err(|error| TraceError::io(&writer.path, "write", error))?;
        writer.groups.push((writer.places.len(), writer.summary));
        Ok(writer)
    }

    fn begin(&mut self, metadata: &TraceMetadata) -> io::Result<()> {
        self.file.write_all(&SIGNATURE)?;
        self.file.write_all(&VERSION.to_le_bytes())?;
        self.write_metadata(metadata)
    }

    fn write_metadata(&mut self, metadata: &TraceMetadata) -> io::Result<()> {
        let metadata = serde_json::to_vec(metadata)?;
        if metadata.len() > MAX_METADATA_BYTES {
            let problem = format!("metadata of {} bytes is too long", metadata.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let payload = self.packer.pack(&[metadata])?;
        self.write_chunk(Kind::Metadata, &payload, 1, self.summary.instructions)
    }

    /// Appends an instruction and its memory accesses: at most 255, each a read or write of at least
    /// one byte. The instruction's field `accesses` is ignored.
    ///
    /// # Errors
    /// If the accesses are invalid or the file cannot be written.
    #[inline]
    pub fn push(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), TraceError> {
        let Ok(count) = u8::try_from(accesses.len()) else {
            let problem = format!("{} accesses; expected at most 255", accesses.len());
            return Err(self.refuse(instruction, problem));
        };
        if let Some(access) = accesses.iter().find(|access| !is_possible(access)) {
            let problem = format!("{access:?}; expected a read or write of at least 1 byte");
            return Err(self.refuse(instruction, problem));
        }
        let instruction = Instruction { accesses: count, ..*instruction };
        let predicted = self.encoder.predict();
        let mut record = predicted;
        if !self.numbering.dictionary.matches(predicted, &instruction, accesses) {
            record = self.numbering.number(&instruction, accesses);
        }
        self.encoder.push(record, predicted, &self.numbering.dictionary, accesses);
        self.summary.instructions += 1;
        self.summary.accesses += u64::from(count);
        if self.encoder.instructions() >= self.chunk_instructions
            || self.encoder.accesses() >= MAX_CHUNK_ACCESSES
            || self.numbering.is_full()
        {
            self.flush()?;
        }
        Ok(())
    }

    fn refuse(&self, instruction: &Instruction, problem: String) -> TraceError {
        let ip = instruction.ip.value();
        TraceError::Instruction { number: self.summary.instructions, ip, problem }
    }

    /// Appends an event that happens before the next instruction.
    ///
    /// # Errors
    /// If the file cannot be written, or the event exceeds the limits of the format.
    pub fn event(&mut self, event: ProgramEvent) -> Result<(), TraceError> {
        if let Err(Problem { found, expected }) = events::check(&event) {
            let problem = format!("{found}; expected {expected}");
            return Err(self.refuse(&Instruction::default(), problem));
        }
        self.events.push((self.summary.instructions, event));
        self.summary.events += 1;
        if self.events.len() >= MAX_CHUNK_EVENTS { self.flush() } else { Ok(()) }
    }

    /// Numbers of items appended so far; `bytes` is the current length of the file.
    pub fn summary(&self) -> TraceSummary {
        self.summary
    }

    /// Ends and writes the current chunk, so that it survives a crash.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.write_group().map_err(|error| TraceError::io(&self.path, "write", error))
    }

    fn write_group(&mut self) -> io::Result<()> {
        let records = self.numbering.dictionary.instructions.len();
        if records > self.records_written {
            let first = self.records_written;
            let payload = self.numbering.dictionary.encode(first, &mut self.packer)?;
            let count = (records - first) as u32;
            self.write_chunk(Kind::Dictionary, &payload, count, first as u64)?;
            self.records_written = records;
        }
        let instructions = self.encoder.instructions();
        let first = self.summary.instructions - u64::from(instructions);
        if !self.events.is_empty() {
            let events = std::mem::take(&mut self.events);
            self.write_events(&events, first)?;
        }
        if instructions > 0 {
            let payload = self.encoder.finish(&mut self.packer)?;
            self.write_chunk(Kind::Instructions, &payload, instructions, first)?;
            if self.numbering.is_full() {
                self.numbering.clear();
                self.records_written = 0;
            }
            self.encoder.reset(&self.numbering.dictionary);
        }
        self.groups.push((self.places.len(), self.summary));
        Ok(())
    }

    /// Writes events as one chunk, or as several if they exceed the limit of a chunk.
    fn write_events(&mut self, events: &[PositionedEvent], first: u64) -> io::Result<()> {
        if let Some(payload) = events::encode(events, &mut self.packer)? {
            return self.write_chunk(Kind::Events, &payload, events.len() as u32, first);
        }
        if events.len() == 1 {
            let problem = "an event is too long";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let (earlier, later) = events.split_at(events.len() / 2);
        self.write_events(earlier, first)?;
        self.write_events(later, first)
    }

    fn write_chunk(
        &mut self,
        kind: Kind,
        payload: &[u8],
        count: u32,
        first: u64,
    ) -> io::Result<()> {
        if payload.len() > MAX_PAYLOAD_BYTES as usize {
            let problem = format!("a {kind:?} chunk of {} bytes is too long", payload.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let header = Header::new(kind, payload, count, first);
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(payload);
        self.file.write_all(&bytes)?;
        self.places.push(Place { offset: self.summary.bytes, header });
        self.summary.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes the last chunk and the index.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<TraceSummary, TraceError> {
        self.end(None)
    }

    /// Ends the trace: writes the last chunk, final metadata (if given), and the index. Nothing may be
    /// appended afterwards. If there is no room ([`TraceError::is_without_room`]),
    /// [`TraceWriter::end_without_room`] can keep the written part.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn end(&mut self, metadata: Option<&TraceMetadata>) -> Result<TraceSummary, TraceError> {
        self.flush()?;
        self.write_last(metadata).map_err(|error| TraceError::io(&self.path, "write", error))?;
        Ok(self.summary)
    }

    /// Ends a trace after the disk became full: drops the last groups of chunks until the metadata and the
    /// index fit. Returns the numbers of items in the rest of the trace. Nothing may be appended afterwards.
    ///
    /// # Errors
    /// If the file cannot be truncated, or not even the index of an empty trace fits.
    pub fn end_without_room(
        &mut self,
        metadata: &TraceMetadata,
    ) -> Result<TraceSummary, TraceError> {
        loop {
            let (chunks, summary) = self.groups.pop().expect("a trace begins with a group");
            self.places.truncate(chunks);
            self.summary = summary;
            let ended = self
                .file
                .set_len(summary.bytes)
                .and_then(|()| self.file.seek(SeekFrom::Start(summary.bytes)))
                .and_then(|_| self.write_last(Some(metadata)));
            match ended.map_err(|error| TraceError::io(&self.path, "write", error)) {
                Ok(()) => return Ok(self.summary),
                Err(error) if error.is_without_room() && !self.groups.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write_last(&mut self, metadata: Option<&TraceMetadata>) -> io::Result<()> {
        metadata.map_or(Ok(()), |metadata| self.write_metadata(metadata))?;
        self.write_end()
    }

    fn write_end(&mut self) -> io::Result<()> {
        let payload = index::encode(&self.places, &mut self.packer)?;
        let (count, offset) = (self.places.len() as u32, self.summary.bytes);
        self.write_chunk(Kind::Index, &payload, count, self.summary.instructions)?;
        self.write_chunk(Kind::End, &offset.to_le_bytes(), 0, self.summary.instructions)?;
        self.file.flush()
    }
}

fn is_possible(access: &MemoryAccess) -> bool {
    access.size > 0 && access.kind != AccessKind::Fetch
}
