//! A hash for numbers of regions: nobody chooses them to collide, and every fault needs one.

use std::hash::Hasher;

/// 2⁶⁴ ÷ golden ratio, odd: neighbours end up far apart.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies; the high bits, which depend on all of the number, are turned to the low end.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(FACTOR).rotate_left(32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
