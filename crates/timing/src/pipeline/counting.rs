//! Counting in parts of a run (sampling): the rest is simulated in full, but not counted.

use super::*;
use crate::hierarchy::MemoryCounts;

/// All counts of a core at one moment.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    core: CoreStatistics,
    translation: TranslationStatistics,
    memory: MemoryCounts,
    branches: BranchCounts,
    pub(super) cycles: u64,
    /// Cycle stack: the cycles by cause.
    pub(super) stack: [u64; CAUSES],
}

impl Core {
    /// Stops counting until [`Core::resume_counting`]; the simulation goes on in full.
    pub fn pause_counting(&mut self) {
        self.catch_up();
        self.paused = Some(Box::new(self.counts()));
    }

    /// Continues counting after a pause: counts and cycles go on from their values then, at the last
    /// retirement so far.
    pub fn resume_counting(&mut self) {
        self.catch_up();
        if let Some(counts) = self.paused.take() {
            self.set_counts(&counts);
        }
    }

    /// Scales all counts and cycles as if this many instructions had been counted. Counts are rounded such
    /// that parts still add up to their sum. To be called at the end of a run.
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

/// Rational factor by which counts are multiplied.
pub(crate) struct Factor {
    to: u64,
    from: u64,
}

impl Factor {
    /// Factor that turns a sum of `count` values into their mean.
    pub(crate) fn mean_of(count: u64) -> Self {
        Self { to: 1, from: count }
    }

    fn of(&self, count: u64) -> u64 {
        let (to, from) = (u128::from(self.to), u128::from(self.from));
        ((u128::from(count) * to + from / 2) / from) as u64
    }

    /// Scales counts independently, each rounded to the nearest integer.
    pub(crate) fn scale<'a>(&self, counts: impl IntoIterator<Item = &'a mut u64>) {
        counts.into_iter().for_each(|count| *count = self.of(*count));
    }

    /// Scales counts that add up to a sum, rounding such that they add up to the scaled sum.
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
