//! Mutations of valid inputs, of kinds that readers often handle wrongly.

use crate::hostile::Random;

/// Largest size of a mutated input in bytes.
const MOST_BYTES: usize = 1 << 16;
/// Largest number of mutations of one input.
const MOST_CHANGES: usize = 6;

/// Boundary values at which integer counts, sizes and offsets overflow or change their width.
const NUMBERS: [u64; 24] = [
    0,
    1,
    2,
    7,
    8,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x1ff,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff,
    0xffff_ffff_f000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_f000,
    0xffff_ffff_ffff_ffff,
];

/// Boundary values as text, and other texts that may stand in place of a number.
const NUMBER_TEXTS: [&str; 36] = [
    "0",
    "1",
    "-1",
    "+1",
    "2",
    "511",
    "512",
    "513",
    "4095",
    "4096",
    "65535",
    "65536",
    "2147483647",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0xffffffffffffffff",
    "99999999999999999999999999999999999999",
    "0.1",
    "-0.0",
    "1e308",
    "1e309",
    "1e-320",
    "nan",
    "inf",
    "-inf",
    "100%",
    "101%",
    "64T",
    "16777216T",
    "",
];

/// Characters that have a meaning in the grammar of some reader.
const WORDS: [&str; 24] = [
    ",",
    ":",
    "=",
    "/",
    "%",
    "..",
    "-",
    "+",
    "*",
    "#",
    "\"",
    "[",
    "]",
    "{",
    "}",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\0",
    "\u{feff}",
    "\u{1b}[31m",
    "é",
    "\u{2028}",
];

/// Generator of mutated inputs.
pub struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    random: Random,
}

impl<'a> Mutator<'a> {
    /// Creates a generator whose mutated inputs depend only on `seed` and on `seeds`, the valid
    /// inputs, of which there must be at least one.
    pub fn new(seeds: &'a [Vec<u8>], seed: u64) -> Self {
        Self { seeds, random: Random::new(seed) }
    }

    /// Generates the next mutated input.
    pub fn input(&mut self) -> Vec<u8> {
        let mut bytes = self.random.one_of(self.seeds).clone();
        for _ in 0..=self.random.below(MOST_CHANGES) {
            self.change(&mut bytes);
        }
        bytes.truncate(MOST_BYTES);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let is_text =
            bytes.iter().take(256).all(|byte| matches!(byte, b'\t'..=b'\r' | b' '..=b'~'));
        match self.random.below(if is_text { 16 } else { 12 }) {
            0 => self.flip(bytes),
            1 => self.overwrite(bytes),
            2..=4 => self.number(bytes),
            5 => self.cut(bytes),
            6 => {
                let part = self.random.part(bytes.len());
                bytes.drain(part);
            }
            7 => self.repeat(bytes),
            8 => self.splice(bytes),
            9 => self.transplant(bytes),
            10 => self.swap(bytes),
            11 => self.varint(bytes),
            12 => self.word(bytes),
            13 => self.line(bytes),
            _ => self.number_text(bytes),
        }
    }

    fn flip(&mut self, bytes: &mut [u8]) {
        let place = self.random.below(bytes.len());
        if let Some(byte) = bytes.get_mut(place) {
            *byte ^= 1 << self.random.below(8);
        }
    }

    fn overwrite(&mut self, bytes: &mut [u8]) {
        let part = self.random.part(bytes.len());
        bytes[part].fill_with(|| self.random.any() as u8);
    }

    /// Overwrites 1, 2, 4 or 8 bytes, such as a length field, by a boundary value.
    fn number(&mut self, bytes: &mut [u8]) {
        let width = *self.random.one_of(&[1, 2, 4, 8]);
        let Some(room) = bytes.len().checked_sub(width) else { return };
        let place = self.random.below(room + 1);
        let field = &mut bytes[place..place + width];
        let mut old = [0; 8];
        old[..width].copy_from_slice(field);
        let old = u64::from_le_bytes(old);
        let new = match self.random.below(4) {
            0 => old.wrapping_add(self.random.below(8) as u64),
            1 => old.wrapping_sub(self.random.below(8) as u64),
            _ => *self.random.one_of(&NUMBERS),
        };
        match self.random.below(4) {
            0 => field.copy_from_slice(&new.to_be_bytes()[8 - width..]),
            _ => field.copy_from_slice(&new.to_le_bytes()[..width]),
        }
    }

    fn cut(&mut self, bytes: &mut Vec<u8>) {
        bytes.truncate(self.random.below(bytes.len() + 1));
    }

    fn repeat(&mut self, bytes: &mut Vec<u8>) {
        let part = self.random.part(bytes.len());
        let times = if self.random.below(8) == 0 { 600 } else { 1 + self.random.below(4) };
        let times = times.min(MOST_BYTES / part.len().max(1));
        let copies = bytes[part.clone()].repeat(times);
        bytes.splice(part.end..part.end, copies);
    }

    /// Replaces the end of the input by the end of a seed.
    fn splice(&mut self, bytes: &mut Vec<u8>) {
        let other = self.random.one_of(self.seeds);
        let end = self.random.below(bytes.len() + 1);
        let start = match self.random.below(2) {
            0 => end.min(other.len()),
            _ => self.random.below(other.len() + 1),
        };
        bytes.truncate(end);
        bytes.extend_from_slice(&other[start..]);
    }

    /// Replaces a part of the input by a part of a seed.
    fn transplant(&mut self, bytes: &mut Vec<u8>) {
        let other = self.random.one_of(self.seeds);
        let from = self.random.part(other.len());
        let to = self.random.part(bytes.len());
        bytes.splice(to, other[from].iter().copied());
    }

    fn swap(&mut self, bytes: &mut [u8]) {
        let length = self.random.below(bytes.len() / 2 + 1).min(32);
        let first = self.random.below(bytes.len() / 2 + 1 - length);
        let second = bytes.len() / 2 + self.random.below(bytes.len() / 2 + 1 - length);
        for index in 0..length {
            bytes.swap(first + index, second + index);
        }
    }

    /// Replaces the bytes up to the end of a varint (groups of seven bits) by a boundary value in
    /// this encoding.
    fn varint(&mut self, bytes: &mut Vec<u8>) {
        let mut value = *self.random.one_of(&NUMBERS);
        let mut groups = Vec::new();
        while value >= 0x80 {
            groups.push(value as u8 | 0x80);
            value >>= 7;
        }
        groups.push(value as u8);
        let start = self.random.below(bytes.len() + 1);
        let end = bytes[start..].iter().position(|byte| *byte < 0x80);
        let end = end.map_or(bytes.len(), |length| start + length + 1);
        bytes.splice(start..end, groups);
    }

    fn word(&mut self, bytes: &mut Vec<u8>) {
        let place = self.random.below(bytes.len() + 1);
        bytes.splice(place..place, self.random.one_of(&WORDS).bytes());
    }

    /// Inserts a line of a seed at the start of a random line of the input.
    fn line(&mut self, bytes: &mut Vec<u8>) {
        let other = self.random.one_of(self.seeds);
        let lines: Vec<&[u8]> = other.split_inclusive(|byte| *byte == b'\n').collect();
        let Some(line) = lines.get(self.random.below(lines.len())) else { return };
        let starts: Vec<usize> =
            (0..=bytes.len()).filter(|at| *at == 0 || bytes[at - 1] == b'\n').collect();
        let place = *self.random.one_of(&starts);
        bytes.splice(place..place, line.iter().copied());
    }

    /// Replaces a number in a text, decimal or hexadecimal, by a boundary value: the next number after a
    /// random place.
    fn number_text(&mut self, bytes: &mut Vec<u8>) {
        let from = self.random.below(bytes.len() + 1);
        let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit) else { return };
        let start = from + start;
        let rest = &bytes[start..];
        let length =
            rest.iter().position(|byte| !(byte.is_ascii_hexdigit() || b".x".contains(byte)));
        let end = start + length.unwrap_or(rest.len());
        bytes.splice(start..end, self.random.one_of(&NUMBER_TEXTS).bytes());
    }
}
