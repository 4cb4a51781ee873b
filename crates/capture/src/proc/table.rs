//! Tables with an entry of 64 bits for each frame or page.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::input::wrong;
use crate::CaptureError;

/// Entries that are read at a time.
const BATCH_ENTRIES: u64 = 1 << 14;

/// A table any part of which can be read.
pub(crate) struct Table(File);

impl Table {
    /// The table in a file.
    pub(crate) fn of(file: File) -> Self {
        Self(file)
    }

    /// Calls `act` with the entries of a range, in order, each with its place.
    ///
    /// # Errors
    /// What reading says; [`io::ErrorKind::UnexpectedEof`] if the table ends before the range does.
    /// What was read before counts.
    pub(crate) fn each(&self, places: Range<u64>, mut act: impl FnMut(u64, u64)) -> io::Result<()> {
        let mut place = places.start;
        let most = places.end.saturating_sub(place).min(BATCH_ENTRIES);
        let mut bytes = vec![0; 8 * most as usize];
        while place < places.end {
            let wanted = 8 * most.min(places.end - place) as usize;
            let offset = place.checked_mul(8).ok_or(io::ErrorKind::UnexpectedEof)?;
            let read = match self.0.read_at(&mut bytes[..wanted], offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            let (entries, _) = bytes[..read].as_chunks::<8>();
            for (place, entry) in (place..).zip(entries) {
                act(place, u64::from_le_bytes(*entry));
            }
            if entries.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            place += entries.len() as u64;
        }
        Ok(())
    }
}

/// A table that is read from its beginning to its end.
pub(crate) struct Entries<R> {
    input: R,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl<R: Read> Entries<R> {
    /// Reads up to `most` entries at a time.
    pub(crate) fn new(input: R, path: &Path, most: usize) -> Self {
        Self { input, path: path.to_owned(), bytes: vec![0; 8 * most] }
    }

    /// The next entries; none at the end. `before`: how many came before.
    pub(crate) fn next(&mut self, before: u64) -> Result<&[[u8; 8]], CaptureError> {
        let mut filled = 0;
        while filled < self.bytes.len() {
            match self.input.read(&mut self.bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let problem = format!("byte {}: {error}", 8 * before + filled as u64);
                    return Err(wrong(&self.path, problem));
                }
            }
        }
        let (entries, rest) = self.bytes[..filled].as_chunks();
        if !rest.is_empty() {
            let bytes = 8 * before + filled as u64;
            let problem = format!("{bytes} bytes; expected 8 for each frame: the copy is cut off");
            return Err(wrong(&self.path, problem));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More entries than are read at a time, and a few bytes behind the last.
    #[test]
    fn parts_of_a_table() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let count = 2 * BATCH_ENTRIES + 3;
        let mut bytes: Vec<u8> = (0..count).flat_map(|n| (n * n).to_le_bytes()).collect();
        bytes.extend([1, 2, 3]);
        io::Write::write_all(&mut file, &bytes).unwrap();
        let table = Table::of(file.reopen().unwrap());
        let mut found = Vec::new();
        table.each(5..count, |place, entry| found.push((place, entry))).unwrap();
        assert_eq!(found, (5..count).map(|n| (n, n * n)).collect::<Vec<_>>());
        found.clear();
        let error = table.each(count - 1..count + 1, |place, entry| found.push((place, entry)));
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(found, [(count - 1, (count - 1) * (count - 1))]);
        assert!(table.each(u64::MAX - 1..u64::MAX, |_, _| panic!("nothing is there")).is_err());
        table.each(7..7, |_, _| panic!("nothing was asked for")).unwrap();
    }
}
