//! Tables with one 64-bit entry per page or frame: `pagemap`, `kpageflags`, `kpagecount`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Number of entries of a `/proc` table that are read at a time.
const BATCH_ENTRIES: u64 = 1 << 14;

/// Reader of a file in `/proc` with one 64-bit entry per page or frame, at arbitrary positions.
pub struct Table(File);

impl Table {
    /// Makes a reader of a `/proc` table in an open file.
    pub fn new(file: File) -> Self {
        Self(file)
    }

    /// Calls `act` with the number and value of each entry in a range, in order.
    ///
    /// # Errors
    /// If reading fails; [`io::ErrorKind::UnexpectedEof`] if the table is shorter than the range.
    /// Entries before the failure were passed to `act`.
    pub fn for_each(&self, numbers: Range<u64>, mut act: impl FnMut(u64, u64)) -> io::Result<()> {
        let mut next = numbers.start;
        let batch = numbers.end.saturating_sub(next).min(BATCH_ENTRIES);
        let mut bytes = vec![0; 8 * batch as usize];
        while next < numbers.end {
            let wanted = 8 * batch.min(numbers.end - next) as usize;
            let offset = next.checked_mul(8).ok_or(io::ErrorKind::UnexpectedEof)?;
            let read = match self.0.read_at(&mut bytes[..wanted], offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            let (entries, _) = bytes[..read].as_chunks::<8>();
            for (number, entry) in (next..).zip(entries) {
                act(number, u64::from_le_bytes(*entry));
            }
            if entries.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            next += entries.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More entries than one batch holds, and a few bytes after the last entry.
    #[test]
    fn parts_of_a_table() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let count = 2 * BATCH_ENTRIES + 3;
        let mut bytes: Vec<u8> = (0..count).flat_map(|n| (n * n).to_le_bytes()).collect();
        bytes.extend([1, 2, 3]);
        io::Write::write_all(&mut file, &bytes).unwrap();
        let table = Table::new(file.reopen().unwrap());
        let mut found = Vec::new();
        table.for_each(5..count, |number, entry| found.push((number, entry))).unwrap();
        assert_eq!(found, (5..count).map(|n| (n, n * n)).collect::<Vec<_>>());
        found.clear();
        let last = count - 1;
        let error = table.for_each(last..count + 1, |number, entry| found.push((number, entry)));
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(found, [(last, last * last)]);
        assert!(table.for_each(u64::MAX - 1..u64::MAX, |_, _| panic!("beyond the end")).is_err());
        table.for_each(7..7, |_, _| panic!("an empty range")).unwrap();
    }
}
