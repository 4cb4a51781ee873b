//! Quotient and remainder of a number by a fixed divisor.

/// Divisor fixed when the simulation starts; a power of two, the usual case, is split by shift and mask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    value: u64,
    shift: u32,
    is_power_of_two: bool,
}

impl Divisor {
    pub(crate) fn new(value: u64) -> Self {
        Self { value, shift: value.trailing_zeros(), is_power_of_two: value.is_power_of_two() }
    }

    /// `(number / divisor, number % divisor)`.
    #[inline]
    pub(crate) fn split(self, number: u64) -> (u64, u64) {
        if self.is_power_of_two {
            (number >> self.shift, number & (self.value - 1))
        } else {
            divide(number, self.value)
        }
    }

    /// Inverse of [`Divisor::split`]: `quotient × divisor + remainder`.
    #[inline]
    pub(crate) fn join(self, quotient: u64, remainder: u64) -> u64 {
        quotient * self.value + remainder
    }
}

/// Quotient and remainder; not inlined, as most divisors are powers of two.
#[inline(never)]
fn divide(number: u64, by: u64) -> (u64, u64) {
    (number / by, number % by)
}
