//! Columns of bytes, each compressed separately, and the variable-length integers in them.

use perforate_types::counted;

use super::MAX_PAYLOAD_BYTES;
use super::header::{Problem, field, problem};

/// Appends `value` as LEB128: groups of seven bits, lowest first; the top bit of a byte means "more".
pub(crate) fn put_varint(column: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        column.push(value as u8 | 0x80);
        value >>= 7;
    }
    column.push(value as u8);
}

/// Maps signed integers of small magnitude to small unsigned integers.
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Converts back a number that [`zigzag`] returned.
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reader of one uncompressed column of a chunk's payload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    bytes: Vec<u8>,
    position: usize,
}

impl Column {
    /// Reads the next byte; `None` at the end of the column.
    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.position)?;
        self.position += 1;
        Some(byte)
    }

    /// Reads a variable-length integer; `None` at the end of the column or if it exceeds 64 bits.
    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Bytes of the column that are not read yet.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.position..]
    }

    /// True if all bytes of the column were read.
    pub(crate) fn is_finished(&self) -> bool {
        self.position == self.bytes.len()
    }
}

/// Compressor of columns into one payload: the number of columns, then the uncompressed and compressed
/// length of each (32-bit little-endian), then the zstd frames. An empty column has no frame.
pub(crate) struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
}

impl Packer {
    pub(crate) fn new(level: i32) -> std::io::Result<Self> {
        Ok(Self { compressor: zstd::bulk::Compressor::new(level)? })
    }

    pub(crate) fn pack<C: AsRef<[u8]>>(&mut self, columns: &[C]) -> std::io::Result<Vec<u8>> {
        let mut lengths = vec![columns.len() as u8];
        let mut frames = Vec::new();
        for column in columns.iter().map(AsRef::as_ref) {
            let frame = match column {
                [] => Vec::new(),
                _ => self.compressor.compress(column)?,
            };
            lengths.extend_from_slice(&(column.len() as u32).to_le_bytes());
            lengths.extend_from_slice(&(frame.len() as u32).to_le_bytes());
            frames.extend_from_slice(&frame);
        }
        lengths.extend_from_slice(&frames);
        Ok(lengths)
    }
}

/// Decompressor of a payload into its columns, the inverse of [`Packer::pack`]. Reuses the columns' memory.
pub(crate) struct Unpacker {
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl Unpacker {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { decompressor: zstd::bulk::Decompressor::new()? })
    }

    pub(crate) fn unpack(&mut self, payload: &[u8], columns: &mut [Column]) -> Result<(), Problem> {
        let head = 1 + 8 * columns.len();
        if payload.len() < head || usize::from(payload[0]) != columns.len() {
            return Err(problem("a payload without its column lengths", columns_of(columns)));
        }
        let mut frames = &payload[head..];
        let mut left = MAX_PAYLOAD_BYTES;
        for (number, column) in columns.iter_mut().enumerate() {
            let raw_bytes = u32::from_le_bytes(field(payload, 1 + 8 * number));
            let frame_bytes = u32::from_le_bytes(field(payload, 5 + 8 * number)) as usize;
            if raw_bytes > left || frame_bytes > frames.len() {
                return Err(problem(
                    format!("column {number} claims {raw_bytes} bytes from {frame_bytes}"),
                    format!("at most {left} from {}", frames.len()),
                ));
            }
            left -= raw_bytes;
            let (frame, rest) = frames.split_at(frame_bytes);
            frames = rest;
            self.unpack_column(frame, raw_bytes as usize, column)
                .map_err(|found| problem(format!("column {number} {found}"), "a zstd frame"))?;
        }
        if frames.is_empty() { Ok(()) } else { Err(problem("bytes after the last column", "none")) }
    }

    /// Unpacks a payload of one column.
    pub(crate) fn unpack_one(&mut self, payload: &[u8]) -> Result<Column, Problem> {
        let mut columns = [Column::default()];
        self.unpack(payload, &mut columns)?;
        let [column] = columns;
        Ok(column)
    }

    fn unpack_column(
        &mut self,
        frame: &[u8],
        raw_bytes: usize,
        column: &mut Column,
    ) -> Result<(), String> {
        column.position = 0;
        column.bytes.clear();
        if raw_bytes == 0 && frame.is_empty() {
            return Ok(());
        }
        column.bytes.reserve(raw_bytes);
        let written = self
            .decompressor
            .decompress_to_buffer(frame, &mut column.bytes)
            .map_err(|error| format!("does not decompress ({error})"))?;
        if written == raw_bytes {
            Ok(())
        } else {
            Err(format!("holds {written} bytes, not {raw_bytes}"))
        }
    }
}

fn columns_of(columns: &[Column]) -> String {
    counted(columns.len(), "column")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_leb128_and_zigzag_keeps_small_numbers_small() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 300); // 300 = 0b10_0101100: low seven bits 0x2c, then 2
        put_varint(&mut bytes, u64::MAX);
        assert_eq!(bytes[..2], [0xac, 0x02]);
        let mut column = Column { bytes, position: 0 };
        assert_eq!(column.varint(), Some(300));
        assert_eq!(column.varint(), Some(u64::MAX));
        assert!(column.is_finished() && column.varint().is_none());
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
        for value in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn payloads_that_are_cut_off_or_too_long_are_refused() {
        let contents: [&[u8]; 3] = [b"first", b"", &[7; 300]];
        let payload = Packer::new(1).unwrap().pack(&contents).unwrap();
        let mut columns: [Column; 3] = Default::default();
        let mut unpacker = Unpacker::new().unwrap();
        unpacker.unpack(&payload, &mut columns).unwrap();
        assert_eq!(columns.each_ref().map(Column::rest), contents);
        for length in 0..payload.len() {
            assert!(unpacker.unpack(&payload[..length], &mut columns).is_err(), "{length} bytes");
        }
        let longer = [&payload[..], b"x"].concat();
        let problem = unpacker.unpack(&longer, &mut columns).unwrap_err();
        assert_eq!(problem.found, "bytes after the last column");
        assert!(unpacker.unpack(&payload, &mut columns[..2]).is_err(), "one column more");
        // The first column holds five bytes, and claims other lengths.
        for claimed in [4, 6] {
            let mut other = payload.clone();
            other[1] = claimed;
            assert!(unpacker.unpack(&other, &mut columns).is_err(), "{claimed}");
        }
    }
}
