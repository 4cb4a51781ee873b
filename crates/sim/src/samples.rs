//! Time series with a limited number of samples.

/// Samples at roughly even intervals of a run whose length is unknown. When there are too many,
/// every second sample is dropped and the interval doubles. The first sample always stays.
pub(crate) struct Samples<T> {
    interval: u64,
    most: usize,
    next: u64,
    points: Vec<(u64, T)>,
}

impl<T> Samples<T> {
    /// Creates a series that initially samples every `interval` instructions. It keeps at most
    /// `most` samples, which must be at least 2.
    pub(crate) fn new(interval: u64, most: usize) -> Self {
        assert!(most >= 2);
        Self { interval, most, next: 0, points: Vec::new() }
    }

    /// Adds what `sample` returns if a sample is due after `instruction` instructions.
    pub(crate) fn add_if_due(&mut self, instruction: u64, sample: impl FnOnce() -> T) {
        if self.is_due(instruction) {
            self.add(instruction, sample());
        }
    }

    fn is_due(&self, instruction: u64) -> bool {
        instruction >= self.next
    }

    /// Adds a sample taken after `instruction` instructions.
    pub(crate) fn add(&mut self, instruction: u64, sample: T) {
        self.points.push((instruction, sample));
        if self.points.len() >= self.most {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.interval *= 2;
        }
        self.next = instruction + self.interval;
    }

    /// Adds the sample at the end of the run, which is always kept.
    pub(crate) fn add_last(&mut self, instruction: u64, sample: T) {
        if self.points.last().is_some_and(|&(last, _)| last == instruction) {
            self.points.pop();
        }
        self.points.push((instruction, sample));
    }

    /// Returns the samples, each with the number of instructions before it.
    pub(crate) fn into_points(self) -> impl Iterator<Item = (u64, T)> {
        self.points.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_moment_at_which_they_were_taken() {
        let mut samples = Samples::new(10, 4);
        for instruction in [0, 13, 27, 99] {
            assert!(samples.is_due(instruction));
            samples.add(instruction, ());
        }
        let instructions: Vec<u64> = samples.into_points().map(|point| point.0).collect();
        assert_eq!(instructions, [0, 27], "every second one of four");
    }

    #[test]
    fn samples_stay_few_and_about_even() {
        let mut samples = Samples::new(10, 4);
        for instruction in (0..1000).step_by(10) {
            if samples.is_due(instruction) {
                samples.add(instruction, ());
            }
        }
        samples.add_last(1000, ());
        // 0 10 20 30 are too many: 0 and 20 stay, the next are 50 and 70; 0 and 50 stay, the next are
        // 110 and 150; 0 110, then 230 310; 0 230, then 470 630; 0 470, then 950.
        let instructions: Vec<u64> = samples.into_points().map(|point| point.0).collect();
        assert_eq!(instructions, [0, 470, 950, 1000]);
    }

    #[test]
    fn the_last_sample_takes_the_place_of_one_of_the_same_moment() {
        let mut samples = Samples::new(10, 2);
        assert!(samples.is_due(0));
        samples.add(0, 'a');
        assert!(!samples.is_due(9) && samples.is_due(10));
        // Two are too many: the first stays, and the next is due after 20.
        samples.add(10, 'b');
        assert!(!samples.is_due(29) && samples.is_due(30));
        samples.add_last(0, 'c');
        assert_eq!(samples.into_points().collect::<Vec<_>>(), [(0, 'c')]);
    }
}
