//! Traces of any format: which one a file is, and readers of the foreign ones.

mod champsim;
mod compressed;
mod foreign_source;
mod lackey;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use self::champsim::ChampSim;
use self::foreign_source::{ForeignSource, Input};
use self::lackey::Lackey;
use crate::format::SIGNATURE;
use crate::{Source, TraceError, TraceReader};

/// Bytes looked at to tell formats apart: 64 ChampSim records.
const SAMPLE_BYTES: u64 = 4096;

/// Opens a trace of any format that can be read: ours, ChampSim's (raw or compressed) or
/// lackey's. The content decides, not the name.
///
/// # Errors
/// If the file cannot be read or is of no such format.
pub fn open(path: impl AsRef<Path>) -> Result<Box<dyn Source>, TraceError> {
    let path = path.as_ref();
    let unrecognized = |found: String| TraceError::Unrecognized { path: path.to_owned(), found };
    let file = File::open(path).map_err(|error| TraceError::io(path, "open", error))?;
    let facts = file.metadata().map_err(|error| TraceError::io(path, "read", error))?;
    if facts.is_dir() {
        return Err(unrecognized("a directory".to_owned()));
    }
    let mut raw = Input::new(path, Box::new(BufReader::with_capacity(1 << 16, file)), "none");
    let magic = raw.peek(SAMPLE_BYTES)?;
    if magic.is_empty() {
        return Err(unrecognized("an empty file".to_owned()));
    }
    if magic.starts_with(&SIGNATURE[..magic.len().min(SIGNATURE.len())]) {
        return Ok(Box::new(TraceReader::open(path)?));
    }
    let (stream, compression) = compressed::decompress(raw.into_stream(), &magic)
        .map_err(|error| TraceError::io(path, "decompress", error))?;
    let mut input = Input::new(path, stream, compression);
    let sample = input.peek(SAMPLE_BYTES)?;
    if sample.is_empty() {
        Err(unrecognized(format!("a {compression} stream of nothing")))
    } else if lackey::is_lackey(&sample) {
        Ok(Box::new(ForeignSource::new(path, Lackey::new(input))))
    } else if let Some(found) = champsim::why_not(&sample) {
        Err(unrecognized(found))
    } else {
        let known_bytes = (facts.is_file() && compression == "none").then_some(facts.len());
        Ok(Box::new(ForeignSource::new(path, ChampSim::new(input, known_bytes)?)))
    }
}
