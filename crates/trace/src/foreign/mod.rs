//! Traces of all formats: detection of the format, readers of foreign formats, and writers of two.

mod champsim;
mod compressed;
mod drmemtrace;
mod foreign_source;
mod formats;
mod gem5;
mod lackey;
mod protocol_buffer;
mod text;
mod write;
mod zip;

use std::io::BufReader;
use std::path::Path;

use self::champsim::ChampSim;
pub use self::drmemtrace::{PageMap, Schedule};
use self::foreign_source::{ForeignSource, Input};
pub use self::formats::{TraceFormat, split_format};
use self::gem5::Gem5;
use self::lackey::Lackey;
use self::text::Text;
pub use self::write::{Compression, ForeignWriter, Losses, formats_of_name};
use crate::content::Content;
use crate::format::SIGNATURE;
use crate::{Source, TraceError, TraceReader};

/// Number of bytes at the beginning of a file that are examined to detect its format: 1536 records of
/// ChampSim, or 1024 of CloudSuite.
const SAMPLE_BYTES: u64 = 96 << 10;
/// Length in bytes of the beginning of a file that identifies Perforate's format and compressions.
const MAGIC_BYTES: u64 = 8;

/// Address assumed for instructions whose address is not recorded: the usual start of programs without
/// position-independent code.
const ASSUMED_IP: u64 = 0x40_0000;

/// Opens a trace of any [`TraceFormat`], plain or compressed (.xz, .gz, .zst, .lz4, .sz, .zip). `path`
/// is a regular file, the folder of a drmemtrace trace, or standard input (`-`). The content determines
/// the format, unless the path is `FORMAT:FILE`.
///
/// # Errors
/// If the file cannot be read, or has none of the formats.
pub fn open(path: impl AsRef<Path>) -> Result<Box<dyn Source>, TraceError> {
    let (format, path) = split_format(path.as_ref());
    if path.is_dir() {
        if format.is_some_and(|format| format != TraceFormat::Drmemtrace) {
            return Err(TraceError::unrecognized(path, "a directory"));
        }
        let trace = drmemtrace::of_folder(path, open_thread)?;
        return Ok(Box::new(ForeignSource::new(path, trace)));
    }
    read(path, Content::open(path)?, format)
}

/// Opens a trace in memory, as [`open`] opens a file with this name.
///
/// # Errors
/// The errors of [`open`].
pub fn open_bytes(name: &str, bytes: Vec<u8>) -> Result<Box<dyn Source>, TraceError> {
    let (format, path) = formats::strip_format(Path::new(name));
    read(path, Content::of_memory(bytes), format)
}

fn read(
    path: &Path,
    mut content: Content,
    format: Option<TraceFormat>,
) -> Result<Box<dyn Source>, TraceError> {
    let magic = content.peek(MAGIC_BYTES).map_err(|error| TraceError::io(path, "read", error))?;
    if magic.is_empty() {
        return Err(TraceError::unrecognized(path, "an empty file"));
    }
    let is_ours = magic.starts_with(&SIGNATURE[..magic.len().min(SIGNATURE.len())]);
    if format.map_or(is_ours, |format| format == TraceFormat::Perforate) {
        return Ok(Box::new(TraceReader::read(path, content)?));
    }
    let length = content.length;
    let (mut input, compression) =
        decompressed(path, content, &magic, compressed::share_of_memory(1))?;
    let sample = input.peek(SAMPLE_BYTES)?;
    if sample.is_empty() {
        let found = format!("a {compression} stream of nothing");
        return Err(TraceError::unrecognized(path, found));
    }
    let is_all = (sample.len() as u64) < SAMPLE_BYTES;
    let raw_length = (compression == "none").then_some(length);
    let length = if is_all { Some(sample.len() as u64) } else { raw_length };
    let format = match format {
        Some(format) => format,
        None => recognize(path, &sample, length)?,
    };
    Ok(match format {
        TraceFormat::ChampSim | TraceFormat::CloudSuite => {
            Box::new(ForeignSource::new(path, ChampSim::new(format, input, raw_length)?))
        }
        TraceFormat::Drmemtrace => Box::new(ForeignSource::new(path, drmemtrace::of_file(input)?)),
        TraceFormat::Gem5 => Box::new(ForeignSource::new(path, Gem5::new(input)?)),
        TraceFormat::Lackey => Box::new(ForeignSource::new(path, Lackey::new(input))),
        TraceFormat::Csv => Box::new(ForeignSource::new(path, Text::new(input))),
        TraceFormat::Perforate => {
            return Err(TraceError::unrecognized(path, "a compressed Perforate trace"));
        }
    })
}

/// Decompresses the content of a trace. Also returns the name of the compression.
fn decompressed(
    path: &Path,
    content: Content,
    magic: &[u8],
    memory_bytes: u64,
) -> Result<(Input, &'static str), TraceError> {
    if zip::MAGIC.iter().any(|start| magic.starts_with(start)) {
        let stream = zip::content(path, content)?;
        return Ok((Input::new(path, stream, "zip"), "zip"));
    }
    let stream = Box::new(BufReader::with_capacity(1 << 16, content.bytes));
    let (stream, compression) = compressed::decompress(stream, magic, memory_bytes)
        .map_err(|error| TraceError::io(path, "decompress", error))?;
    Ok((Input::new(path, stream, compression), compression))
}

/// Detects the foreign format of a file, from its beginning and its length in bytes, if known.
fn recognize(path: &Path, sample: &[u8], length: Option<u64>) -> Result<TraceFormat, TraceError> {
    match drmemtrace::recognize(sample) {
        Some(drmemtrace::Kind::Final) => return Ok(TraceFormat::Drmemtrace),
        Some(drmemtrace::Kind::Unreadable(problem, expected)) => {
            return Err(TraceError::unsuitable(path, problem, expected));
        }
        None => {}
    }
    if sample.starts_with(gem5::MAGIC) {
        return Ok(TraceFormat::Gem5);
    }
    if lackey::is_lackey(sample) {
        return Ok(TraceFormat::Lackey);
    }
    let Some((line, problem)) = text::problem(sample) else { return Ok(TraceFormat::Csv) };
    let printable = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..);
    if sample.iter().take(4096).all(printable)
        && std::str::from_utf8(&sample[..sample.len().min(64)]).is_ok()
    {
        let neither = "text that is neither lackey output nor a list of accesses";
        let found = format!("{neither} (line {line}: {problem})");
        return Err(TraceError::unrecognized(path, found));
    }
    champsim::detect_format(sample, length).map_err(|found| TraceError::unrecognized(path, found))
}

/// Opens one of the trace files of a drmemtrace folder; `files` is their number.
fn open_thread(path: &Path, files: usize) -> Result<Input, TraceError> {
    let mut content = Content::open(path)?;
    let magic = content.peek(MAGIC_BYTES).map_err(|error| TraceError::io(path, "read", error))?;
    let memory_bytes = compressed::share_of_memory(files);
    let (mut input, _) = decompressed(path, content, &magic, memory_bytes)?;
    let sample = input.peek(SAMPLE_BYTES)?;
    match recognize(path, &sample, None)? {
        TraceFormat::Drmemtrace => Ok(input),
        _ => Err(TraceError::unrecognized(path, "no drmemtrace file")),
    }
}
