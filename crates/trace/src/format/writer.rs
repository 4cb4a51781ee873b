//! Writing traces.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use perforate_types::{AccessKind, Instruction, MemoryAccess, ProgramEvent};

use super::columns::Packer;
use super::dictionary::Numbering;
use super::events::Placed;
use super::header::{Header, Kind};
use super::index::Place;
use super::instructions::Encoder;
use super::{
    MAX_CHUNK_ACCESSES, MAX_CHUNK_EVENTS, MAX_CHUNK_INSTRUCTIONS, MAX_METADATA_BYTES,
    MAX_PAYLOAD_BYTES, MAX_PHASE_FIGURES, PREAMBLE_BYTES, SIGNATURE, TraceMetadata, VERSION,
    events, index,
};
use crate::TraceError;

/// How to write a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// zstd level, 1 to 22: 3 while recording, 19 for a trace to keep.
    pub level: i32,
    /// Instructions per chunk, at most 2,097,152: the unit that is compressed, checked and lost
    /// in a crash.
    pub chunk_instructions: u32,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { level: 3, chunk_instructions: 1 << 20 }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// Instructions.
    pub instructions: u64,
    /// Memory accesses.
    pub accesses: u64,
    /// Program events.
    pub events: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// Writes a trace file chunk by chunk. What is on disk after each chunk can be read, so a program
/// that is killed loses only the chunk it had begun; [`TraceWriter::finish`] adds the index.
pub struct TraceWriter {
    path: PathBuf,
    file: File,
    packer: Packer,
    chunk_instructions: u32,
    numbering: Numbering,
    /// Dictionary records that are in the file.
    records_written: usize,
    encoder: Encoder,
    events: Vec<Placed>,
    places: Vec<Place>,
    summary: TraceSummary,
    /// The file after each group of chunks: number of chunks, and what they hold.
    groups: Vec<(usize, TraceSummary)>,
}

impl TraceWriter {
    /// Creates or replaces the file, with default options.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create(path: impl AsRef<Path>, metadata: &TraceMetadata) -> Result<Self, TraceError> {
        Self::create_with(path, metadata, WriterOptions::default())
    }

    /// Creates or replaces the file.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create_with(
        path: impl AsRef<Path>,
        metadata: &TraceMetadata,
        options: WriterOptions,
    ) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|error| TraceError::io(path, "create", error))?;
        Self::on(file, path, metadata, options)
    }

    /// Writes to an open, empty file, which errors call `path`.
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

    /// Appends an instruction and its memory accesses (at most 255, reads and writes of at least
    /// one byte). The instruction's own `accesses` field is ignored.
    ///
    /// # Errors
    /// If the accesses are impossible or the file cannot be written.
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

    /// Appends an event that happens before the next instruction pushed.
    ///
    /// # Errors
    /// If the file cannot be written, or no trace can hold the event.
    pub fn event(&mut self, event: ProgramEvent) -> Result<(), TraceError> {
        if events::figures(&event) > MAX_PHASE_FIGURES {
            let problem = format!("a phase with more than {MAX_PHASE_FIGURES} figures");
            return Err(self.refuse(&Instruction::default(), problem));
        }
        self.events.push((self.summary.instructions, event));
        self.summary.events += 1;
        if self.events.len() >= MAX_CHUNK_EVENTS { self.flush() } else { Ok(()) }
    }

    /// What was appended so far; `bytes` is what is in the file already.
    pub fn summary(&self) -> TraceSummary {
        self.summary
    }

    /// Ends the current chunk and writes it, so that it survives whatever comes.
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

    /// Writes events as one chunk, or as several where they are too long for one.
    fn write_events(&mut self, events: &[Placed], first: u64) -> io::Result<()> {
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

    /// As [`TraceWriter::finish`], with metadata that say what is known only now.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn finish_with(mut self, metadata: &TraceMetadata) -> Result<TraceSummary, TraceError> {
        self.end(Some(metadata))
    }

    /// Writes the last chunk, metadata that say what is known only now, if any, and the index. Nothing
    /// may be added afterwards. If there is no room ([`TraceError::is_without_room`]), what is in the
    /// file can be kept by [`TraceWriter::end_without_room`].
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn end(&mut self, metadata: Option<&TraceMetadata>) -> Result<TraceSummary, TraceError> {
        self.flush()?;
        self.write_last(metadata).map_err(|error| TraceError::io(&self.path, "write", error))?;
        Ok(self.summary)
    }

    /// Ends a trace for which there was no more room: what was written last is given up, until there is
    /// room for the metadata and the index. Returns what is left. Nothing may be added afterwards.
    ///
    /// # Errors
    /// If the file cannot be cut, or not even the index of an empty trace fits.
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
