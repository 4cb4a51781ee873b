//! Finding the B-block of a virtual block in a selection bitmap, with the prefix sums that an entry
//! of the walk cache holds (G §3.7, Fig. 10(b)).

/// How many B-blocks are selected in the first *i* + 1 bytes of a selection: S₀ to S₆. S₇ is never
/// asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefixSums([u8; 7]);

impl PrefixSums {
    /// The sums of a selection, computed when an entry is loaded.
    pub(super) fn of(selection: u64) -> Self {
        let mut sum = 0;
        Self(std::array::from_fn(|byte| {
            sum += selection.to_le_bytes()[byte].count_ones() as u8;
            sum
        }))
    }

    /// A planted defect: S₃ is too small by one.
    pub(super) fn with_wrong_sum(mut self) -> Self {
        self.0[3] = self.0[3].saturating_sub(1);
        self
    }

    /// Position of set bit `index` (the lowest is 0) of the selection that the sums are of. The sums
    /// tell the byte, and the bits of that byte are counted as the sums are.
    #[inline]
    pub(super) fn select(&self, selection: u64, index: u32) -> u32 {
        let byte = self.0.iter().filter(|&&sum| u32::from(sum) <= index).count();
        let before = if byte == 0 { 0 } else { u32::from(self.0[byte - 1]) };
        let mut bits = selection.to_le_bytes()[byte];
        for _ in before..index {
            bits &= bits.wrapping_sub(1);
        }
        byte as u32 * 8 + bits.trailing_zeros()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition: the position at which `index` set bits lie below.
    fn by_counting(selection: u64, index: u32) -> Option<u32> {
        (0..64).filter(|bit| selection >> bit & 1 != 0).nth(index as usize)
    }

    #[test]
    fn sums_by_hand() {
        // Bytes, lowest first: 8, 0, 1, 4, 4, 4, 3 and 8 bits.
        let selection = 0xff_07_0f_f0_0f_80_00_ff;
        assert_eq!(PrefixSums::of(selection).0, [8, 8, 9, 13, 17, 21, 24]);
        let select = |index| PrefixSums::of(selection).select(selection, index);
        assert_eq!([0, 7, 8, 9, 12, 13, 16].map(select), [0, 7, 23, 24, 27, 36, 39]);
        assert_eq!([17, 20, 21, 23, 24, 31].map(select), [40, 43, 48, 50, 56, 63]);
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
