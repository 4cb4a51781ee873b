//! Chunk headers: 32 bytes, little-endian, with their own checksum.

use super::MAX_PAYLOAD_BYTES;

/// Length of a chunk header in bytes.
pub(crate) const HEADER_BYTES: usize = 32;

const MARKER: [u8; 4] = *b"PTck";

/// Kind of a chunk's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// [`super::TraceMetadata`] as JSON.
    Metadata = 1,
    /// Static instructions that are executed for the first time, as dictionary records.
    Dictionary = 2,
    /// Program events as JSON.
    Events = 3,
    /// Executed instructions, as mispredictions of the models in [`super::flow`] and [`super::addresses`].
    Instructions = 4,
    /// Headers and offsets of all chunks before the index.
    Index = 5,
    /// Offset of the index; the last chunk of a file.
    End = 6,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Metadata,
        Self::Dictionary,
        Self::Events,
        Self::Instructions,
        Self::Index,
        Self::End,
    ];

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Decoded header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Length of the payload in bytes; it follows the header.
    pub(crate) payload_bytes: u32,
    /// Number of instructions, dictionary records, events or index entries in the chunk.
    pub(crate) count: u32,
    /// Number of the first instruction; for an index or end chunk, the number of all instructions. For
    /// a dictionary chunk, the number of the first record; 0 starts a new dictionary.
    pub(crate) first: u64,
    /// CRC-32 (IEEE) of the chunk's payload.
    pub(crate) payload_checksum: u32,
}

impl Header {
    pub(crate) fn new(kind: Kind, payload: &[u8], count: u32, first: u64) -> Self {
        let payload_bytes = u32::try_from(payload.len()).expect("payloads are bounded");
        Self { kind, payload_bytes, count, first, payload_checksum: crc32fast::hash(payload) }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MARKER);
        bytes[4] = self.kind as u8;
        bytes[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a chunk header and checks it.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Problem> {
        if bytes[..4] != MARKER {
            let found = u32::from_be_bytes(field(bytes, 0));
            return Err(problem(
                format!("no chunk starts here (found {found:#010x})"),
                format!("a chunk header, which starts with {:#010x}", u32::from_be_bytes(MARKER)),
            ));
        }
        let stored = u32::from_le_bytes(field(bytes, 28));
        let computed = crc32fast::hash(&bytes[..28]);
        if stored != computed {
            return Err(problem(
                format!("the chunk header's checksum is {computed:#010x}"),
                format!("{stored:#010x} as stored in it: a byte of the header was changed"),
            ));
        }
        let kind = Kind::from_byte(bytes[4]).ok_or_else(|| {
            problem(format!("unknown chunk kind {}", bytes[4]), "a kind from 1 to 6")
        })?;
        let payload_bytes = u32::from_le_bytes(field(bytes, 8));
        if payload_bytes > MAX_PAYLOAD_BYTES {
            return Err(problem(
                format!("a chunk of {payload_bytes} bytes"),
                format!("at most {MAX_PAYLOAD_BYTES}"),
            ));
        }
        Ok(Self {
            kind,
            payload_bytes,
            count: u32::from_le_bytes(field(bytes, 12)),
            first: u64::from_le_bytes(field(bytes, 16)),
            payload_checksum: u32::from_le_bytes(field(bytes, 24)),
        })
    }
}

/// Problem in a trace file, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) found: String,
    pub(crate) expected: String,
}

pub(crate) fn problem(found: impl Into<String>, expected: impl Into<String>) -> Problem {
    Problem { found: found.into(), expected: expected.into() }
}

/// Copies `N` bytes at `offset` of `bytes`, which must be long enough.
pub(crate) fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().expect("a slice of N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes the bytes of a header after a change, with the checksum of the changed bytes.
    fn changed(
        header: &Header,
        change: impl FnOnce(&mut [u8; HEADER_BYTES]),
    ) -> Result<Header, Problem> {
        let mut bytes = header.encode();
        change(&mut bytes);
        let checksum = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&checksum.to_le_bytes());
        Header::decode(&bytes)
    }

    #[test]
    fn headers_come_back_and_changed_bits_are_noticed() {
        let header = Header {
            kind: Kind::Events,
            payload_bytes: 0x0102_0304,
            count: 0x0506_0708,
            first: 0x090a_0b0c_0d0e_0f10,
            payload_checksum: 0x1112_1314,
        };
        assert_eq!(Header::decode(&header.encode()), Ok(header));
        for bit in 0..8 * HEADER_BYTES {
            let mut bytes = header.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bytes).is_err(), "bit {bit}");
        }
        for kind in Kind::ALL {
            let header = Header { kind, ..header };
            assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn kinds_and_lengths_of_chunks_are_limited() {
        let header = Header::new(Kind::Metadata, b"payload", 1, 2);
        assert_eq!(
            (header.payload_bytes, header.payload_checksum),
            (7, crc32fast::hash(b"payload"))
        );
        let of_kind = |kind| changed(&header, |bytes| bytes[4] = kind).is_ok();
        assert_eq!([0, 1, 6, 7].map(of_kind), [false, true, true, false]);
        let of_length = |length: u32| {
            changed(&header, |bytes| bytes[8..12].copy_from_slice(&length.to_le_bytes())).is_ok()
        };
        assert!(of_length(MAX_PAYLOAD_BYTES) && !of_length(MAX_PAYLOAD_BYTES + 1));
        let error = changed(&header, |bytes| bytes[0] = b'x').unwrap_err();
        assert!(error.found.starts_with("no chunk starts here"), "{}", error.found);
    }
}
