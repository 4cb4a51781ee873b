//! Sources of the choices in a sequence: a random seed, or the bytes of a fuzzer.

use perforate_types::Random;

/// Source of the choices that determine a sequence of events and accesses.
pub trait Choices {
    /// Returns a number below `limit`. `limit` must not be 0.
    fn below(&mut self, limit: u64) -> u64;

    /// Returns true with probability 1 in `chance`.
    fn one_in(&mut self, chance: u64) -> bool {
        self.below(chance) == 0
    }
}

impl Choices for Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Choices that an input's bytes determine. A choice among up to 256 alternatives takes one byte,
/// any other choice eight. After the last byte, every choice is the first alternative.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Creates a source of choices from bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl Choices for Bytes<'_> {
    fn below(&mut self, limit: u64) -> u64 {
        let wanted = if limit <= 256 { 1 } else { 8 };
        let (own, rest) = self.0.split_at(wanted.min(self.0.len()));
        self.0 = rest;
        own.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_choose_until_they_end() {
        let mut bytes = Bytes::new(&[7, 0, 0, 0, 0, 0, 0, 1, 2, 9]);
        assert_eq!(bytes.below(5), 2, "7 modulo 5");
        assert_eq!(bytes.below(1000), 258, "0x102");
        assert_eq!(bytes.below(256), 9);
        assert_eq!((bytes.below(256), bytes.below(1 << 40)), (0, 0));
    }
}
