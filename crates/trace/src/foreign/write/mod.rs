//! Writers of foreign formats, for other tools.

mod champsim;
mod csv;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use perforate_types::{Chunk, ChunkItem, Instruction, MemoryAccess, ProgramEvent};

use super::TraceFormat;
use crate::{TraceError, TraceSummary};

/// Compression of a trace file in a foreign format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// No compression; used for any other file name.
    None,
    /// gzip; used for a file name that ends in `.gz`.
    Gzip,
    /// xz; used for a file name that ends in `.xz`.
    Xz,
    /// zstd; used for a file name that ends in `.zst`.
    Zstd,
}

/// Determines format and compression from the name of a file. The format is `None` if the name's extension is
/// not one of a format that can be written.
pub fn formats_of_name(path: &Path) -> (Option<TraceFormat>, Compression) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let known = [(".gz", Compression::Gzip), (".xz", Compression::Xz), (".zst", Compression::Zstd)];
    let packed = known
        .into_iter()
        .find_map(|(end, compression)| name.strip_suffix(end).map(|rest| (rest, compression)));
    let (name, compression) = packed.unwrap_or((&name, Compression::None));
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let format = match extension {
        "champsimtrace" | "champsim" => Some(TraceFormat::ChampSim),
        "csv" => Some(TraceFormat::Csv),
        "trace" => Some(TraceFormat::Perforate),
        _ => None,
    };
    (format, compression)
}

/// Writer that compresses into a file.
enum Output {
    Plain(BufWriter<Counted>),
    Gzip(flate2::write::GzEncoder<BufWriter<Counted>>),
    Xz(liblzma::write::XzEncoder<BufWriter<Counted>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<Counted>>),
}

impl Output {
    /// Makes a writer that compresses at zstd's `level`, or at the nearest level of another compression.
    fn new(file: File, compression: Compression, level: i32) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 16, Counted { file, bytes: 0 });
        let small = level.clamp(1, 9) as u32;
        Ok(match compression {
            Compression::None => Self::Plain(file),
            Compression::Gzip => {
                Self::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::new(small)))
            }
            Compression::Xz => Self::Xz(liblzma::write::XzEncoder::new(file, small)),
            Compression::Zstd => {
                let level = level.clamp(1, 22);
                Self::Zstd(zstd::stream::write::Encoder::new(file, level)?)
            }
        })
    }

    /// Ends the compressed stream. Returns the length of the file in bytes.
    fn finish(self) -> io::Result<u64> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Gzip(stream) => stream.finish()?,
            Self::Xz(stream) => stream.finish()?,
            Self::Zstd(stream) => stream.finish()?,
        };
        Ok(file.into_inner().map_err(io::IntoInnerError::into_error)?.bytes)
    }
}

impl Write for Output {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(buffer),
            Self::Gzip(stream) => stream.write(buffer),
            Self::Xz(stream) => stream.write(buffer),
            Self::Zstd(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // flushed by `finish`
    }
}

/// Output file that counts its written bytes.
struct Counted {
    file: File,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Parts of a trace that the foreign format cannot represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Number of accesses beyond the maximum per instruction, or at address 0.
    pub accesses: u64,
    /// Number of events that the format cannot represent.
    pub events: u64,
}

/// Encoder of instructions and events in a foreign format.
trait Encoder: Send {
    /// Appends the encoded instruction to `bytes`. Returns the number of accesses left out.
    fn instruction(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
        bytes: &mut Vec<u8>,
    ) -> u64;

    /// Processes an event. Returns false if the format cannot represent it.
    fn event(&mut self, event: &ProgramEvent) -> bool;
}

/// Writer of a trace in a foreign format.
pub struct ForeignWriter {
    path: PathBuf,
    output: Output,
    encoder: Box<dyn Encoder>,
    bytes: Vec<u8>,
    summary: TraceSummary,
    losses: Losses,
}

impl ForeignWriter {
    /// Writes to an open, empty file; `path` is for errors. `format` is [`TraceFormat::ChampSim`] or
    /// [`TraceFormat::Csv`]. `level` is a compression level of zstd; other compressions use the nearest
    /// level.
    ///
    /// # Errors
    /// If the file cannot be written, or the format is another one.
    pub fn on(
        file: File,
        path: &Path,
        format: TraceFormat,
        compression: Compression,
        level: i32,
    ) -> Result<Self, TraceError> {
        let (encoder, start): (Box<dyn Encoder>, String) = match format {
            TraceFormat::ChampSim => (Box::new(champsim::ChampSim), String::new()),
            TraceFormat::Csv => (Box::<csv::Csv>::default(), csv::start()),
            other => {
                let problem = format!("{} traces cannot be written", other.name());
                return Err(TraceError::unsuitable(path, problem, "champsim or csv"));
            }
        };
        let output = Output::new(file, compression, level)
            .map_err(|error| TraceError::io(path, "compress", error))?;
        Ok(Self {
            path: path.to_owned(),
            output,
            encoder,
            bytes: start.into_bytes(),
            summary: TraceSummary::default(),
            losses: Losses::default(),
        })
    }

    /// Appends the instructions of a chunk, with their accesses and events.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_chunk(&mut self, chunk: &Chunk) -> Result<(), TraceError> {
        for item in chunk.in_order() {
            match item {
                ChunkItem::Event(event) if self.encoder.event(event) => self.summary.events += 1,
                ChunkItem::Event(_) => self.losses.events += 1,
                ChunkItem::Instruction(instruction, accesses) => {
                    let lost = self.encoder.instruction(instruction, accesses, &mut self.bytes);
                    self.losses.accesses += lost;
                    self.summary.accesses += accesses.len() as u64 - lost;
                }
            }
        }
        self.summary.instructions += chunk.instructions.len() as u64;
        let written = self.output.write_all(&self.bytes);
        self.bytes.clear();
        written.map_err(|error| TraceError::io(&self.path, "write", error))
    }

    /// Finishes the file. Returns counts of what was written, and of what could not be represented.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<(TraceSummary, Losses), TraceError> {
        let written = self.output.write_all(&self.bytes).and_then(|()| self.output.finish());
        let bytes = written.map_err(|error| TraceError::io(&self.path, "write", error))?;
        Ok((TraceSummary { bytes, ..self.summary }, self.losses))
    }
}
