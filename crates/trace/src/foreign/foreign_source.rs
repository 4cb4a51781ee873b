//! What all foreign formats share: the stream they are read from, and the [`Source`] they become.

use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use perforate_types::Chunk;

use super::compressed::Stream;
use crate::source::{CHUNK_INSTRUCTIONS, Truncation, file_name, skip_by_decoding};
use crate::{Source, SourceMetadata, TraceError};

/// The (decompressed) content of a file, and how far it was read.
pub(super) struct Input {
    pub(super) path: PathBuf,
    stream: Stream,
    compression: &'static str,
    /// Bytes of content read so far.
    pub(super) offset: u64,
}

impl Input {
    pub(super) fn new(path: &Path, stream: Stream, compression: &'static str) -> Self {
        Self { path: path.to_owned(), stream, compression, offset: 0 }
    }

    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// The next bytes, which stay to be read.
    pub(super) fn peek(&mut self, bytes: u64) -> Result<Vec<u8>, TraceError> {
        let mut sample = Vec::new();
        let result = (&mut self.stream).take(bytes).read_to_end(&mut sample);
        result.map_err(|error| self.failed(error, sample.len()))?;
        let rest = std::mem::replace(&mut self.stream, Box::new(io::empty()));
        self.stream = Box::new(io::Cursor::new(sample.clone()).chain(rest));
        Ok(sample)
    }

    /// Fills `buffer` and returns how many bytes there were: fewer only at the end.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error, filled)),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    /// Reads a line with its line feed, at most `limit` bytes of it.
    pub(super) fn line(&mut self, line: &mut Vec<u8>, limit: u64) -> Result<(), TraceError> {
        line.clear();
        let mut limited = (&mut self.stream).take(limit);
        let result = limited.read_until(b'\n', line);
        result.map_err(|error| self.failed(error, line.len()))?;
        self.offset += line.len() as u64;
        Ok(())
    }

    fn failed(&self, error: io::Error, further: usize) -> TraceError {
        if self.compression == "none" {
            return TraceError::io(&self.path, "read", error);
        }
        TraceError::damaged(
            &self.path,
            self.offset + further as u64,
            format!("the {} stream is damaged or cut off ({error})", self.compression),
            "a whole compressed file",
        )
    }

    /// An error in the content at `offset`.
    pub(super) fn damaged(&self, offset: u64, problem: String, expected: &str) -> TraceError {
        TraceError::damaged(&self.path, offset, problem, expected)
    }
}

/// A foreign format being read.
pub(super) trait Format: Send + 'static {
    /// What the format can tell; the name is filled in by the caller.
    fn metadata(&self) -> SourceMetadata;

    /// Appends up to `at_most` instructions to an empty chunk; none at the end.
    fn fill(&mut self, chunk: &mut Chunk, at_most: usize) -> Result<(), TraceError>;

    /// Where the file turned out to be cut off.
    fn truncated(&self) -> Option<&Truncation> {
        None
    }
}

/// A foreign format as a source.
pub(super) struct ForeignSource<F> {
    metadata: SourceMetadata,
    format: F,
}

impl<F: Format> ForeignSource<F> {
    pub(super) fn new(path: &Path, format: F) -> Self {
        Self { metadata: SourceMetadata { name: file_name(path), ..format.metadata() }, format }
    }
}

impl<F: Format> Source for ForeignSource<F> {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        self.format.fill(chunk, CHUNK_INSTRUCTIONS)?;
        Ok(!chunk.instructions.is_empty())
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        skip_by_decoding(instructions, &mut Vec::new(), |chunk, at_most| {
            self.format.fill(chunk, at_most)?;
            Ok(!chunk.instructions.is_empty())
        })
    }

    fn truncated(&self) -> Option<&Truncation> {
        self.format.truncated()
    }
}
