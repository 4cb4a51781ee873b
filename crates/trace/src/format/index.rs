//! The index: header and offset of every chunk, so that a reader need not scan the file.

use super::columns::{Column, Packer, Unpacker, put_varint};
use super::header::{HEADER_BYTES, Header, Kind, Problem, problem};
use super::{MAX_PAYLOAD_BYTES, PREAMBLE_BYTES};

/// Place of a chunk in the file: the offset of its header, and the decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) header: Header,
}

impl Place {
    /// Offset of the first byte after the chunk.
    pub(crate) fn end(&self) -> u64 {
        self.offset + HEADER_BYTES as u64 + u64::from(self.header.payload_bytes)
    }
}

pub(crate) fn encode(places: &[Place], packer: &mut Packer) -> std::io::Result<Vec<u8>> {
    let mut column = Vec::new();
    for Place { header, .. } in places {
        column.push(header.kind as u8);
        put_varint(&mut column, u64::from(header.payload_bytes));
        put_varint(&mut column, u64::from(header.count));
        put_varint(&mut column, header.first);
        column.extend_from_slice(&header.payload_checksum.to_le_bytes());
    }
    packer.pack(&[column])
}

/// Decodes the list of chunks in `payload`. The last chunk must end at `end`, where the index starts.
pub(crate) fn decode(
    payload: &[u8],
    count: u32,
    end: u64,
    unpacker: &mut Unpacker,
) -> Result<Vec<Place>, Problem> {
    let mut column = unpacker.unpack_one(payload)?;
    let mut places = Vec::new();
    let mut offset = PREAMBLE_BYTES;
    for number in 0..count {
        let place = decode_place(&mut column, offset)
            .ok_or_else(|| problem(format!("index entry {number} is impossible"), "a chunk"))?;
        offset = place.end();
        if offset > end {
            break; // the list is longer than the file
        }
        places.push(place);
    }
    if offset == end && column.is_finished() {
        Ok(places)
    } else {
        Err(problem(format!("the index lists {offset} bytes"), format!("{end}")))
    }
}

fn decode_place(column: &mut Column, offset: u64) -> Option<Place> {
    let kind = Kind::from_byte(column.byte()?)?;
    let payload_bytes =
        u32::try_from(column.varint()?).ok().filter(|&bytes| bytes <= MAX_PAYLOAD_BYTES)?;
    let count = u32::try_from(column.varint()?).ok()?;
    let first = column.varint()?;
    let mut checksum = [0; 4];
    for byte in &mut checksum {
        *byte = column.byte()?;
    }
    let payload_checksum = u32::from_le_bytes(checksum);
    Some(Place { offset, header: Header { kind, payload_bytes, count, first, payload_checksum } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_lists_chunks_up_to_where_it_starts() {
        let header = |kind, bytes: usize, first| Header::new(kind, &vec![3; bytes], 7, first);
        let headers = [
            header(Kind::Metadata, 5, 0),
            header(Kind::Dictionary, 0, 1),
            header(Kind::Instructions, 300, u64::MAX),
        ];
        let mut offset = PREAMBLE_BYTES;
        let places = headers.map(|header| {
            let place = Place { offset, header };
            offset += 32 + u64::from(header.payload_bytes);
            place
        });
        let payload = encode(&places, &mut Packer::new(1).unwrap()).unwrap();
        let decoded = |count, end| {
            decode(&payload, count, end, &mut Unpacker::new().unwrap())
                .map_err(|problem| problem.found)
        };
        let end = PREAMBLE_BYTES + 3 * 32 + 305;
        assert_eq!(decoded(3, end), Ok(places.to_vec()));
        let listed = |bytes| Err(format!("the index lists {bytes} bytes"));
        assert_eq!(decoded(3, end + 1), listed(end));
        assert_eq!(decoded(3, end - 1), listed(end));
        assert_eq!(decoded(2, end - 332), listed(end - 332), "entries after the last one");
        assert_eq!(decoded(4, end), Err("index entry 3 is impossible".into()));
    }

    #[test]
    fn a_chunk_of_an_index_has_a_known_kind_and_a_possible_length() {
        let decoded = |kind: u8, bytes: u64| {
            let mut column = vec![kind];
            put_varint(&mut column, bytes);
            column.extend([0; 6]);
            let payload = Packer::new(1).unwrap().pack(&[column]).unwrap();
            decode(&payload, 1, PREAMBLE_BYTES + 32 + bytes, &mut Unpacker::new().unwrap()).is_ok()
        };
        let most = u64::from(MAX_PAYLOAD_BYTES);
        assert!(decoded(1, 0) && decoded(6, most));
        assert!(!decoded(0, 0) && !decoded(7, 0));
        assert!(!decoded(1, most + 1) && !decoded(1, 1 << 32));
    }
}
