//! Counting in parts of a run: what happens between them is done in full, and not counted.

use super::*;
use crate::hierarchy::MemoryCounts;

/// All that was counted up to a moment.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    core: CoreStatistics,
    translation: TranslationStatistics,
    memory: MemoryCounts,
    branches: BranchCounts,
    pub(super) cycles: u64,
    /// Parts of the cycles.
    pub(super) stack: [u64; CAUSES],
}

impl Core {
    /// Nothing is counted from here on, until [`Core::resume_counting`].
    pub fn pause_counting(&mut self) {
        self.catch_up();
        self.paused = Some(Box::new(self.counts()));
    }

    /// Counting goes on where it paused. Cycles are counted from the last retirement so far on.
    pub fn resume_counting(&mut self) {
        self.catch_up();
        if let Some(counts) = self.paused.take() {
            self.set_counts(&counts);
        }
    }

    /// Has what was counted stand for so many instructions: all counts and cycles grow by the same
    /// factor, rounded, and parts of a sum still add up to it. Counts nothing more.
    pub fn extrapolate(&mut self, instructions: u64) {
        self.resume_counting();
        let mut counts = self.counts();
        let counted = counts.core.instructions.max(1);
        counts.scale(&Factor { to: instructions, from: counted });
        self.set_counts(&counts);
    }

    fn counts(&self) -> Counts {
        Counts {
            core: self.statistics,
            translation: self.translation.statistics,
            memory: self.shared.memory.counts(),
            branches: self.branches.counts,
            cycles: self.cycles(),
            stack: self.cycle_stack(),
        }
    }

    fn set_counts(&mut self, counts: &Counts) {
        self.statistics = counts.core;
        self.translation.statistics = counts.translation;
        self.shared.memory.set_counts(&counts.memory);
        self.branches.counts = counts.branches;
        (self.origin, self.earlier_cycles) = (self.retire.cycle, counts.cycles);
        self.begin_path(counts.stack);
    }
}

/// By how much counts grow.
pub(crate) struct Factor {
    to: u64,
    from: u64,
}

impl Factor {
    /// Of a sum of so many, the mean.
    pub(crate) fn mean_of(count: u64) -> Self {
        Self { to: 1, from: count }
    }

    fn of(&self, count: u64) -> u64 {
        let (to, from) = (u128::from(self.to), u128::from(self.from));
        ((u128::from(count) * to + from / 2) / from) as u64
    }

    /// Counts that each stand alone.
    pub(crate) fn scale<'a>(&self, counts: impl IntoIterator<Item = &'a mut u64>) {
        counts.into_iter().for_each(|count| *count = self.of(*count));
    }

    /// Parts of a sum: the scaled parts add up to the scaled sum.
    pub(crate) fn scale_parts(&self, parts: &mut [u64]) {
        let (mut sum, mut scaled) = (0, 0);
        for part in parts {
            sum += *part;
            *part = self.of(sum) - scaled;
            scaled += *part;
        }
    }
}

impl Counts {
    fn scale(&mut self, factor: &Factor) {
        self.core.scale(factor);
        self.translation.scale(factor);
        self.memory.caches.iter_mut().for_each(|cache| cache.scale(factor));
        self.memory.dram.scale(factor);
        self.branches.scale(factor);
        factor.scale([&mut self.cycles]);
        factor.scale_parts(&mut self.stack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_parts_add_up_to_the_scaled_sum() {
        let factor = Factor { to: 10, from: 3 };
        let mut parts = [1, 1, 1, 0, 4];
        let mut sum = 7;
        factor.scale_parts(&mut parts);
        factor.scale([&mut sum]);
        // Up to each part: 3.3, 6.7, 10, 10, 23.3.
        assert_eq!((parts, sum), ([3, 4, 3, 0, 13], 23));
    }
}
