//! Size classes: four per doubling, as in jemalloc.

use crate::source::PAGE_BYTES;

/// Smallest distance between two size classes in bytes (Redis builds jemalloc with a quantum of 8 bytes).
const QUANTUM_BYTES: u64 = 8;
/// Smallest size in bytes of objects that get a separate extent.
pub(super) const LARGE_BYTES: u64 = 4 * PAGE_BYTES;

/// Size class of a request of `bytes` bytes: the smallest class that holds it. Classes are multiples of
/// 8 up to 64; then each doubling is divided into four: 80, 96, 112, 128, 160, …
pub(super) fn round_up(bytes: u64) -> u64 {
    let bytes = bytes.max(1);
    if bytes <= 8 * QUANTUM_BYTES {
        return bytes.next_multiple_of(QUANTUM_BYTES);
    }
    bytes.next_multiple_of(bytes.next_power_of_two() / 8)
}

/// Size of a slab in bytes: the fewest pages that objects of this size class fill exactly.
pub(super) fn slab_bytes(class_bytes: u64) -> u64 {
    let mut bytes = PAGE_BYTES;
    while !bytes.is_multiple_of(class_bytes) {
        bytes += PAGE_BYTES;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_by_hand() {
        for (bytes, class) in [
            (0, 8),
            (16, 16),
            (20, 24),
            (64, 64),
            (65, 80),
            (128, 128),
            (129, 160),
            (14_337, 16_384),
            (16_384, 16_384),
            (16_390, 20_480), // 16KB with a header: the class is 4KB larger
            (20_481, 24_576),
            (32 << 20, 32 << 20),
        ] {
            assert_eq!(round_up(bytes), class, "{bytes}");
        }
    }

    #[test]
    fn slabs_are_filled_exactly() {
        assert_eq!(slab_bytes(16), 4096);
        assert_eq!(slab_bytes(24), 3 * 4096);
        assert_eq!(slab_bytes(80), 5 * 4096);
        assert_eq!(slab_bytes(14_336), 7 * 4096);
    }
}
