//! Reader of Perforate's trace files.

use std::collections::VecDeque;
use std::path::Path;

use perforate_types::{Chunk, ProgramEvent};

use super::columns::Unpacker;
use super::dictionary::Dictionary;
use super::events::{self, PositionedEvent};
use super::file::{End, TraceFile};
use super::header::{Kind, Problem, problem};
use super::index::Place;
use super::instructions::Decoder;
use super::{MAX_CHUNK_EVENTS, MAX_EVENTS_IN_A_ROW, MAX_GAPS, MAX_WAITING_EVENTS, TraceMetadata};
use crate::content::Content;
use crate::foreign::TraceFormat;
use crate::source::{ALL_MAKE_ADDRESSES, CHUNK_INSTRUCTIONS, Source, SourceMetadata, Truncation};
use crate::{TraceError, source::file_name};

/// Reader of a trace file.
///
/// A file that was cut off or never finished is read up to its last whole chunk, and
/// [`Source::truncated`] reports it. Changed bytes are an error when their chunk is reached.
pub struct TraceReader {
    file: TraceFile,
    source_metadata: SourceMetadata,
    /// Index in the file's list of chunks of the next chunk to read.
    next_place: usize,
    unpacker: Unpacker,
    payload: Vec<u8>,
    dictionary: Dictionary,
    decoder: Decoder,
    /// Number of the next instruction to deliver, from the start of the trace.
    position: u64,
    /// Events that were read and not delivered yet, with their positions.
    events: VecDeque<PositionedEvent>,
    newest_event: u64,
    /// Total memory of the texts in `events`, in units of [`events::text_units`].
    text_units: usize,
    /// Number of events read since the last chunk of instructions.
    in_a_row: u64,
    gaps: u64,
}

/// Kind of the content that a step of the [`TraceReader`] read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadStep {
    /// A chunk of instructions.
    Instructions,
    /// Events, so many that they must be delivered before the next instruction.
    Events,
    /// The end of the file.
    End,
}

/// Assumptions that the file states, and one more for files of version 1.
fn assumptions(file: &TraceFile) -> Vec<String> {
    let mut assumptions = file.metadata.assumptions.clone();
    if file.version == 1 && file.metadata.has_dependencies {
        assumptions.push(ALL_MAKE_ADDRESSES.to_owned());
    }
    assumptions
}

impl TraceReader {
    /// Opens a trace file and finds its chunks.
    ///
    /// # Errors
    /// If the file cannot be read, is not a trace, or its first chunk is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        Self::read(path, Content::open(path)?)
    }

    /// Makes a reader of the trace in `content`; `path` is for errors.
    pub(crate) fn read(path: &Path, content: Content) -> Result<Self, TraceError> {
        let mut unpacker = Unpacker::new().map_err(|error| TraceError::io(path, "read", error))?;
        let file = TraceFile::read(path, content, &mut unpacker)?;
        let metadata = &file.metadata;
        let source_metadata = SourceMetadata {
            name: file_name(path),
            format: TraceFormat::Perforate.name(),
            instructions: Some(file.instructions),
            has_events: metadata.has_events,
            has_dependencies: metadata.has_dependencies,
            has_branches: metadata.has_branches,
            is_cut_off: metadata.is_cut_off,
            instructions_skipped: metadata.instructions_skipped,
            stopped_by: metadata.stopped_by,
            failure: metadata.failure.clone(),
            accesses_unmapped: metadata.accesses_unmapped,
            assumptions: assumptions(&file),
            ..SourceMetadata::default()
        };
        Ok(Self {
            file,
            source_metadata,
            next_place: 1,
            unpacker,
            payload: Vec::new(),
            dictionary: Dictionary::default(),
            decoder: Decoder::new(),
            position: 0,
            events: VecDeque::new(),
            newest_event: 0,
            text_units: 0,
            in_a_row: 0,
            gaps: 0,
        })
    }

    /// Metadata that the trace file contains.
    pub fn trace_metadata(&self) -> &TraceMetadata {
        &self.file.metadata
    }

    /// Version of the trace format that the file has.
    pub fn version(&self) -> u32 {
        self.file.version
    }

    /// Length of the trace file in bytes.
    pub fn bytes(&self) -> u64 {
        self.file.bytes
    }

    /// Number of instructions in the whole chunks of the file.
    pub fn instructions(&self) -> u64 {
        self.file.instructions
    }

    /// Number of instructions in each chunk of instructions. Decoding can start at any chunk.
    pub fn chunk_lengths(&self) -> impl Iterator<Item = u32> + '_ {
        let places = self.file.places.iter().map(|place| place.header);
        places.filter(|header| header.kind == Kind::Instructions).map(|header| header.count)
    }

    /// Number of the next instruction to deliver, from the start of the trace.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes to instruction `number`, or to the end if there are fewer. Returns the position reached.
    /// The next chunk starts with all earlier events, including those already delivered, because they
    /// rebuild the memory map.
    ///
    /// # Errors
    /// The errors of [`Source::next_chunk`].
    pub fn seek(&mut self, number: u64) -> Result<u64, TraceError> {
        self.next_place = 1;
        self.dictionary.clear();
        self.decoder.abandon();
        self.events.clear();
        (self.position, self.newest_event) = (0, 0);
        (self.text_units, self.in_a_row, self.gaps) = (0, 0, 0);
        self.skip(number)?;
        Ok(self.position)
    }

    fn damaged(&self, place: Place, problem: Problem) -> TraceError {
        TraceError::damaged(&self.file.path, place.offset, problem.found, problem.expected)
    }

    /// Reads chunks up to and including the next chunk that has instructions beyond number `target`. Stops
    /// earlier if a full chunk of events precedes the next instruction.
    fn begin_next(&mut self, target: u64) -> Result<ReadStep, TraceError> {
        while let Some(&place) = self.file.places.get(self.next_place) {
            let is_full = self.events.len() >= MAX_CHUNK_EVENTS;
            if is_full && self.position == target && self.is_due(target + 1) {
                return Ok(ReadStep::Events);
            }
            let after = self.position + u64::from(place.header.count);
            let passed_over = place.header.kind == Kind::Instructions && after <= target;
            if place.header.kind == Kind::Instructions {
                self.in_a_row = 0;
            }
            if passed_over {
                self.position = after;
            } else {
                self.file.read_payload(&place, &mut self.payload)?;
                self.load(place).map_err(|problem| self.damaged(place, problem))?;
            }
            self.next_place += 1;
            if place.header.kind == Kind::Instructions && !passed_over {
                return Ok(ReadStep::Instructions);
            }
        }
        match &self.file.end {
            End::Damaged(offset, problem) => {
                let problem = problem.clone();
                let path = &self.file.path;
                Err(TraceError::damaged(path, *offset, problem.found, problem.expected))
            }
            End::Whole | End::Truncated(_) => Ok(ReadStep::End),
        }
    }

    fn load(&mut self, place: Place) -> Result<(), Problem> {
        let (payload, count) = (&self.payload, place.header.count);
        match place.header.kind {
            Kind::Dictionary => {
                if place.header.first == 0 {
                    self.dictionary.clear();
                }
                let version = self.file.version;
                self.dictionary.decode(payload, count, version, &mut self.unpacker)
            }
            Kind::Events => {
                let earliest = self.newest_event.max(place.header.first);
                let list = events::decode(payload, count, earliest, &mut self.unpacker)?;
                self.newest_event = list.last().map_or(earliest, |(position, _)| *position);
                self.keep(list)
            }
            Kind::Instructions => {
                self.decoder.begin(payload, count, &self.dictionary, &mut self.unpacker)
            }
            Kind::Metadata | Kind::Index | Kind::End => Ok(()),
        }
    }

    /// Stores events until they are delivered. Fails if they exceed the limits of the format.
    fn keep(&mut self, list: Vec<PositionedEvent>) -> Result<(), Problem> {
        self.text_units += list.iter().map(|(_, event)| events::text_units(event)).sum::<usize>();
        self.in_a_row += list.len() as u64;
        let is_gap = |event: &&PositionedEvent| matches!(event.1, ProgramEvent::Gap { .. });
        self.gaps += list.iter().filter(is_gap).count() as u64;
        self.events.extend(list);
        let waiting = self.events.len() + self.text_units;
        if waiting > MAX_WAITING_EVENTS {
            let found =
                format!("{waiting} events, figures and names that wait for their instruction");
            return Err(problem(found, format!("at most {MAX_WAITING_EVENTS}")));
        }
        if self.in_a_row > MAX_EVENTS_IN_A_ROW {
            let found = format!("{} events without an instruction between them", self.in_a_row);
            return Err(problem(found, format!("at most {MAX_EVENTS_IN_A_ROW}")));
        }
        if self.gaps > MAX_GAPS {
            let found = format!("{} gaps", self.gaps);
            return Err(problem(found, format!("at most {MAX_GAPS}")));
        }
        Ok(())
    }

    /// True if an undelivered event comes before instruction `end`.
    fn is_due(&self, end: u64) -> bool {
        self.events.front().is_some_and(|(position, _)| *position < end)
    }

    /// Decodes up to `at_most` instructions of the current chunk of the file, without their events.
    fn decode(&mut self, chunk: &mut Chunk, at_most: usize) -> Result<(), TraceError> {
        let result = self.decoder.decode(&self.dictionary, chunk, at_most);
        self.position += chunk.instructions.len() as u64;
        result.map_err(|problem| {
            chunk.clear();
            self.decoder.abandon();
            self.damaged(self.file.places[self.next_place - 1], problem)
        })
    }

    /// Maximum number of instructions and of events for a delivered chunk that starts with instruction
    /// `start`. With many events, it has fewer instructions.
    fn room(&self, start: u64) -> (usize, usize) {
        let mut taken = 0;
        for (events, (position, event)) in self.events.iter().enumerate() {
            let before = position.saturating_sub(start);
            if before >= CHUNK_INSTRUCTIONS as u64 {
                break;
            }
            if taken >= MAX_CHUNK_EVENTS {
                return (before as usize, events);
            }
            taken += 1 + events::text_units(event);
        }
        (CHUNK_INSTRUCTIONS, usize::MAX)
    }

    /// Moves undelivered events before instruction `end`, at most `at_most`, into a chunk whose first
    /// instruction is `start`.
    fn deliver_events(&mut self, chunk: &mut Chunk, start: u64, end: u64, at_most: usize) {
        while self.is_due(end) && chunk.events.len() < at_most {
            let Some((position, event)) = self.events.pop_front() else { break };
            self.text_units -= events::text_units(&event);
            chunk.events.push((position.saturating_sub(start) as u32, event));
        }
    }
}

impl Source for TraceReader {
    fn metadata(&self) -> &SourceMetadata {
        &self.source_metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        let start = self.position;
        if self.decoder.remaining() == 0 && self.begin_next(start)? != ReadStep::Instructions {
            let (_, events) = self.room(start);
            self.deliver_events(chunk, start, start + 1, events);
            return Ok(!chunk.events.is_empty());
        }
        let (instructions, events) = self.room(start);
        if instructions > 0 {
            self.decode(chunk, instructions)?;
        }
        self.deliver_events(chunk, start, self.position.max(start + 1), events);
        Ok(true)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        let start = self.position;
        let target = start.saturating_add(instructions);
        let mut scratch = Chunk::default();
        while self.position < target {
            if self.position + u64::from(self.decoder.remaining()) <= target {
                self.position += u64::from(self.decoder.remaining());
                self.decoder.abandon();
                if self.position == target || self.begin_next(target)? == ReadStep::End {
                    break;
                }
                continue;
            }
            let at_most = (target - self.position).min(CHUNK_INSTRUCTIONS as u64) as usize;
            scratch.clear();
            self.decode(&mut scratch, at_most)?;
        }
        Ok(self.position - start)
    }

    fn truncated(&self) -> Option<&Truncation> {
        match &self.file.end {
            End::Truncated(truncation) => Some(truncation),
            End::Whole | End::Damaged(..) => None,
        }
    }
}
