//! Location of a virtual block's B-block in a selection bitmap, with the prefix sums that a
//! walk-cache entry stores (G §3.7, Fig. 10(b)).

/// Prefix sums S₀ to S₆ of a gap-tolerant entry's selection bitmap, which has a bit for each
/// B-block (64th) of a slice: Sᵢ is the number of selected B-blocks in its first *i* + 1 bytes. The
/// hardware does not need S₇.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PrefixSums([u8; 7]);

impl PrefixSums {
    /// Computes the prefix sums of a selection bitmap, when its page-directory entry is loaded.
    pub(super) fn of(selection: u64) -> Self {
        let mut sum = 0;
        Self(std::array::from_fn(|byte| {
            sum += selection.to_le_bytes()[byte].count_ones() as u8;
            sum
        }))
    }

    /// Position of set bit `index` (0 for the lowest) in `selection`, the bitmap that the sums were
    /// computed from. The sums select the byte, and the bit sums of that byte select the bit. Each
    /// step compares all sums at once, as hardware does.
    #[inline]
    pub(super) fn select(&self, selection: u64, index: u32) -> u32 {
        let [s0, s1, s2, s3, s4, s5, s6] = self.0;
        let byte = not_above([s0, s1, s2, s3, s4, s5, s6, NEVER], index);
        let before = if byte == 0 { 0 } else { u32::from(self.0[byte as usize - 1]) };
        let bits = selection.to_le_bytes()[byte as usize];
        byte * 8 + not_above(bit_sums(bits), index.saturating_sub(before))
    }
}

/// Stands for the eighth prefix sum in comparisons: greater than the index of any set bit.
const NEVER: u8 = 127;
/// A 64-bit word with value 1 in each byte.
const ONES: u64 = u64::MAX / 255;
/// A 64-bit word with the top bit of each byte set.
const TOP: u64 = ONES << 7;

/// Counts how many of the eight `sums` are at most `index`, by one comparison of a 64-bit word. No
/// sum exceeds 127.
#[inline]
fn not_above(sums: [u8; 8], index: u32) -> u32 {
    let above = (u64::from_le_bytes(sums) + ONES * u64::from(127 - index)) & TOP;
    8 - above.count_ones()
}

/// Counts the set bits in the first *i* + 1 bits of a byte, for each *i* from 0 to 7.
#[inline]
fn bit_sums(bits: u8) -> [u8; 8] {
    // Byte i keeps only bit i, normalized to 1; the multiplication adds up the lower bytes.
    let spread = (ONES * u64::from(bits)) & 0x8040_2010_0804_0201;
    let set = ((spread + ONES * 127) >> 7) & ONES;
    set.wrapping_mul(ONES).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Definition that the decoder is tested against: position of the set bit with `index` set bits
    /// below it.
    fn by_counting(selection: u64, index: u32) -> Option<u32> {
        (0..64).filter(|bit| selection >> bit & 1 != 0).nth(index as usize)
    }

    #[test]
    fn sums_by_hand() {
        // Numbers of set bits of the bytes, lowest byte first: 8, 0, 1, 4, 4, 4, 3 and 8.
        let selection = 0xff_07_0f_f0_0f_80_00_ff;
        assert_eq!(PrefixSums::of(selection).0, [8, 8, 9, 13, 17, 21, 24]);
        let select = |index| PrefixSums::of(selection).select(selection, index);
        assert_eq!([0, 7, 8, 9, 12, 13, 16].map(select), [0, 7, 23, 24, 27, 36, 39]);
        assert_eq!([17, 20, 21, 23, 24, 31].map(select), [40, 43, 48, 50, 56, 63]);
    }

    #[test]
    fn sums_of_bits_by_hand() {
        assert_eq!(bit_sums(0b1010_0110), [0, 1, 2, 2, 2, 3, 3, 4]);
        assert_eq!(bit_sums(0xff), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(not_above([0, 1, 2, 2, 2, 3, 3, 4], 2), 5);
        assert_eq!(not_above([NEVER; 8], 63), 0);
    }

    #[test]
    fn a_byte_holds_any_number_of_bits() {
        for byte in 0..8 {
            for bits in 1..=0xff_u64 {
                let selection = bits << (8 * byte);
                let sums = PrefixSums::of(selection);
                for index in 0..bits.count_ones() {
                    assert_eq!(Some(sums.select(selection, index)), by_counting(selection, index));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_selection_is_decoded_as_defined(selection in any::<u64>()) {
            let sums = PrefixSums::of(selection);
            for index in 0..selection.count_ones() {
                prop_assert_eq!(
                    Some(sums.select(selection, index)),
                    by_counting(selection, index)
                );
            }
        }
    }
}
