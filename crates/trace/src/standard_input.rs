//! Traces on standard input. The input is copied to a temporary file: Perforate's format needs random
//! access, and a comparison may read the trace several times.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Path by which users name standard input.
pub const STANDARD_INPUT: &str = "-";

/// Copy of standard input in a temporary file, because standard input can be read only once. The file has no
/// name and disappears with the process.
static COPY: OnceLock<Result<Arc<File>, String>> = OnceLock::new();

/// True if `path` names standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Length of standard input's content in bytes; 0 if it cannot be read.
pub fn standard_input_bytes() -> u64 {
    open().map_or(0, |(_, length)| length)
}

/// Opens standard input at its beginning. Also returns its length in bytes.
pub(crate) fn open() -> io::Result<(StandardInput, u64)> {
    let kept =
        COPY.get_or_init(|| copy_to_file(io::stdin().lock()).map_err(|error| error.to_string()));
    let file = Arc::clone(kept.as_ref().map_err(|problem| io::Error::other(problem.clone()))?);
    let length = file.metadata()?.len();
    Ok((StandardInput { file, length, position: 0 }, length))
}

fn copy_to_file(mut input: impl Read) -> io::Result<Arc<File>> {
    let mut file = tempfile::tempfile()?;
    io::copy(&mut input, &mut file)?;
    Ok(Arc::new(file))
}

/// Reader of the copy of standard input, with its own position in the shared file.
pub(crate) struct StandardInput {
    file: Arc<File>,
    length: u64,
    position: u64,
}

impl Read for StandardInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for StandardInput {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the start");
        self.position = position.ok_or_else(outside)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_have_positions_of_their_own() {
        let file = copy_to_file(&b"0123456789"[..]).unwrap();
        let reader = || StandardInput { file: Arc::clone(&file), length: 10, position: 0 };
        let (mut one, mut other) = (reader(), reader());
        let mut bytes = [0; 4];
        one.seek(SeekFrom::End(-4)).unwrap();
        one.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, *b"6789");
        other.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, *b"0123");
        assert_eq!(other.seek(SeekFrom::Current(-3)).unwrap(), 1);
        assert!(other.seek(SeekFrom::Current(-2)).is_err());
        assert_eq!(one.read(&mut bytes).unwrap(), 0);
    }

    /// Input that fails after a few bytes.
    struct Failing(&'static [u8]);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("the pipe broke")),
                read => Ok(read),
            }
        }
    }

    #[test]
    fn input_that_fails_is_no_short_trace() {
        assert_eq!(copy_to_file(Failing(b"0123")).unwrap_err().to_string(), "the pipe broke");
    }
}
