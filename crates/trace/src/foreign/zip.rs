//! Zip archives as one stream: the contents of their entries, concatenated in the order of the
//! archive's directory. drmemtrace writes a trace as several chunks in an archive.

use std::io::{self, BufReader, Read, Seek, SeekFrom, Take};
use std::path::Path;

use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive};

use super::compressed::Stream;
use crate::TraceError;
use crate::content::{Content, ReadSeek};

/// First bytes of zip archives; the second is that of an empty archive.
pub(super) const MAGIC: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// Maximum number of entries in an archive. Each of drmemtrace's chunks has ten million instructions.
const MAX_ENTRIES: usize = 1 << 16;

/// Location of an archive entry's data, in bytes.
struct Entry {
    start: u64,
    length: u64,
    is_deflated: bool,
}

/// Opens the contents of the archive's entries as one stream.
pub(super) fn content(path: &Path, content: Content) -> Result<Stream, TraceError> {
    let damaged = |problem: String| TraceError::damaged(path, 0, problem, "a whole zip archive");
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive = ZipArchive::from_seekable(content.bytes, &mut buffer)
        .map_err(|error| damaged(format!("the zip archive is damaged ({error})")))?;
    let entries = entries(&archive, &mut buffer).map_err(damaged)?;
    let bytes = archive.into_inner().into_inner();
    let entries = entries.into_iter();
    let stream = Entries { bytes: Some(bytes), entries, current: Current::None };
    Ok(Box::new(BufReader::with_capacity(1 << 16, stream)))
}

/// Lists the entries of the archive. Overlapping data, with which small archives unpack to huge ones, are
/// refused.
fn entries<R: rawzip::ReaderAt>(
    archive: &ZipArchive<R>,
    buffer: &mut [u8],
) -> Result<Vec<Entry>, String> {
    let failed = |error: rawzip::Error| format!("the zip archive is damaged ({error})");
    let mut list: Vec<Entry> = Vec::new();
    let mut records = archive.entries(buffer);
    while let Some(record) = records.next_entry().map_err(failed)? {
        if list.len() == MAX_ENTRIES {
            return Err(format!("a zip archive of more than {MAX_ENTRIES} entries"));
        }
        let is_deflated = match record.compression_method() {
            CompressionMethod::STORE => false,
            CompressionMethod::DEFLATE => true,
            other => return Err(format!("a zip entry compressed by {other:?}")),
        };
        if record.is_dir() {
            continue;
        }
        let entry = archive.get_entry(record.wayfinder()).map_err(failed)?;
        let (start, end) = entry.compressed_data_range();
        let length = end.saturating_sub(start);
        list.push(Entry { start, length, is_deflated });
    }
    let mut places: Vec<(u64, u64)> =
        list.iter().map(|entry| (entry.start, entry.start.saturating_add(entry.length))).collect();
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err("a zip archive whose entries overlap".to_owned());
    }
    Ok(list)
}

type Bytes = Box<dyn ReadSeek>;

/// Reader of the current entry of the archive. While it exists, it owns the archive's bytes.
enum Current {
    None,
    Stored(Take<Bytes>),
    Deflated(Box<flate2::bufread::DeflateDecoder<BufReader<Take<Bytes>>>>),
}

struct Entries {
    /// Bytes of the archive; `None` while an entry is being read, which then owns them.
    bytes: Option<Bytes>,
    entries: std::vec::IntoIter<Entry>,
    current: Current,
}

impl Entries {
    /// Goes to the next entry of the archive. Returns false after the last.
    fn next(&mut self) -> io::Result<bool> {
        let returned = match std::mem::replace(&mut self.current, Current::None) {
            Current::None => None,
            Current::Stored(bytes) => Some(bytes.into_inner()),
            Current::Deflated(decoder) => Some(decoder.into_inner().into_inner().into_inner()),
        };
        self.bytes = returned.or_else(|| self.bytes.take());
        let (Some(entry), Some(mut bytes)) = (self.entries.next(), self.bytes.take()) else {
            return Ok(false);
        };
        bytes.seek(SeekFrom::Start(entry.start))?;
        let data = bytes.take(entry.length);
        self.current = if entry.is_deflated {
            let data = BufReader::with_capacity(1 << 16, data);
            Current::Deflated(Box::new(flate2::bufread::DeflateDecoder::new(data)))
        } else {
            Current::Stored(data)
        };
        Ok(true)
    }
}

impl Read for Entries {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let bytes = match &mut self.current {
                Current::None => 0,
                Current::Stored(data) => data.read(buffer)?,
                Current::Deflated(data) => data.read(buffer)?,
            };
            if bytes > 0 || !self.next()? {
                return Ok(bytes);
            }
        }
    }
}
