//! Pseudo-random choices.

/// Pseudo-random choices, the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(perforate_types::Random);

impl Random {
    /// Creates a generator from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(perforate_types::Random::new(seed))
    }

    /// Returns a uniformly distributed 64-bit number.
    pub fn any(&mut self) -> u64 {
        self.0.next()
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.any() % end.max(1) as u64) as usize
    }

    /// Returns a random element of `choices`, which must not be empty.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns a random subrange of `0..length`. Short ranges are more likely.
    pub fn part(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let room = length - start;
        let most = if self.below(4) == 0 { room } else { room.min(16) };
        start..start + self.below(most + 1)
    }
}
