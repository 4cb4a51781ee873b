//! The wire format of protocol buffers, to the extent that flat messages need.

/// Value of a field in a protocol-buffer message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// A number of any wire type.
    Number(u64),
    /// A string, bytes, or an embedded message.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Bytes(_) => None,
        }
    }

    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) => None,
        }
    }
}

/// Decodes the varint at the beginning of `bytes`. Returns the value and its length; `None` if the
/// varint is cut off or exceeds 64 bits.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (place, &byte) in bytes.iter().enumerate().take(10) {
        if place == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some((value, place + 1));
        }
    }
    None
}

/// Iterates over the numbers and values of a message's fields. Yields `None` and ends where the message is
/// damaged.
pub(super) fn fields(mut message: &[u8]) -> impl Iterator<Item = Option<(u64, Value<'_>)>> {
    std::iter::from_fn(move || {
        if message.is_empty() {
            return None;
        }
        let field = field(message);
        message = field.map_or(&[], |(_, rest)| rest);
        Some(field.map(|(field, _)| field))
    })
}

/// Decodes the first field of a message. Returns its number, its value, and the rest of the message.
fn field(message: &[u8]) -> Option<((u64, Value<'_>), &[u8])> {
    let (key, bytes) = varint(message)?;
    let rest = &message[bytes..];
    let (value, rest) = match key & 7 {
        0 => {
            let (number, bytes) = varint(rest)?;
            (Value::Number(number), &rest[bytes..])
        }
        1 => {
            let (number, rest) = rest.split_first_chunk()?;
            (Value::Number(u64::from_le_bytes(*number)), rest)
        }
        2 => {
            let (length, bytes) = varint(rest)?;
            let (content, rest) = rest[bytes..].split_at_checked(usize::try_from(length).ok()?)?;
            (Value::Bytes(content), rest)
        }
        5 => {
            let (number, rest) = rest.split_first_chunk()?;
            (Value::Number(u32::from_le_bytes(*number).into()), rest)
        }
        _ => return None,
    };
    Some(((key >> 3, value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_width() {
        // Field 1 = 150 (an example of the protocol's documentation), 2 = "hi", 3 = 64 bits, 4 = 32
        // bits.
        let bytes = b"\x08\x96\x01\x12\x02hi\x19\x01\0\0\0\0\0\0\x80\x25\x02\0\0\0";
        let list: Option<Vec<_>> = fields(bytes).collect();
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Number(1 << 63 | 1)),
            (4, Value::Number(2)),
        ];
        assert_eq!(list.unwrap(), expected);
    }

    #[test]
    fn damage_is_found() {
        for bytes in [
            &b"\x08"[..],                                        // no value
            b"\x12\x05hi",                                       // five bytes, two present
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",     // 2^64 - 1 bytes
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // more than 64 bits
            b"\x0b",                                             // a group
            b"\x19\0\0\0",                                       // 64 bits cut off
        ] {
            assert!(fields(bytes).any(|field| field.is_none()), "{bytes:?}");
        }
        assert_eq!(varint(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Some((u64::MAX, 10)));
        assert_eq!(varint(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), None);
    }
}
