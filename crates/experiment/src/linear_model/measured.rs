//! Measurements of runs on which the linear models are based.

use super::MissCosts;
use crate::statistics::median;

/// Measurements of one run, or the median of each over several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Execution time of the run in cycles.
    pub cycles: f64,
    /// Number of TLB misses that caused a page walk.
    pub misses: f64,
    /// Number of cycles spent in page walks.
    pub walk_cycles: f64,
}

impl Measured {
    /// Returns the walk cycles per TLB miss (C_n or C_v); 0 without misses.
    pub fn cycles_per_miss(&self) -> f64 {
        if self.misses > 0.0 { self.walk_cycles / self.misses } else { 0.0 }
    }

    /// Returns the execution time without page walks, in cycles, assuming that walks do not overlap with
    /// other work (D §VIII).
    pub fn cycles_without_walks(&self) -> f64 {
        self.cycles - self.walk_cycles
    }
}

/// Measured runs on which a prediction is based; all execute the same program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Runs {
    /// Native run with 4KB pages.
    pub native: Measured,
    /// Virtualized run with 4KB pages in guest and host.
    pub virtualized: Measured,
    /// Native run with 2MB pages; `None` if there is no such run.
    pub native_2m: Option<Measured>,
}

impl Runs {
    /// Returns the inputs of the models in D Table IV.
    pub fn costs(&self) -> MissCosts {
        MissCosts {
            native_cycles: self.native.cycles_per_miss(),
            virtualized_cycles: self.virtualized.cycles_per_miss(),
            native_misses: self.native.misses,
        }
    }

    /// Returns the cycles of the ideal run, T_2Mideal (D §VIII): the native run with 2MB pages, less its walk
    /// cycles. If there is no such run, it is the native run with 4KB pages, less its walk cycles. `None` if
    /// walks take all the time, which is possible when they overlap.
    pub fn ideal_cycles(&self) -> Option<f64> {
        let cycles = self.native_2m.unwrap_or(self.native).cycles_without_walks();
        (cycles > 0.0).then_some(cycles)
    }
}

/// Returns the median of each measurement over several runs; `None` if there are no runs.
pub(crate) fn medians(runs: &[Measured]) -> Option<Measured> {
    let of = |figure: fn(&Measured) -> f64| median(&runs.iter().map(figure).collect::<Vec<_>>());
    Some(Measured {
        cycles: of(|run| run.cycles)?,
        misses: of(|run| run.misses)?,
        walk_cycles: of(|run| run.walk_cycles)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ideal_is_the_2mb_run_without_walks() {
        let run = |cycles, walk_cycles| Measured { cycles, misses: 10.0, walk_cycles };
        let mut runs =
            Runs { native: run(130.0, 20.0), virtualized: run(200.0, 80.0), native_2m: None };
        assert_eq!(runs.ideal_cycles(), Some(110.0));
        runs.native_2m = Some(run(105.0, 5.0));
        assert_eq!(runs.ideal_cycles(), Some(100.0));
        runs.native_2m = Some(run(105.0, 105.0));
        assert_eq!(runs.ideal_cycles(), None);
        let costs = runs.costs();
        assert_eq!((costs.native_cycles, costs.virtualized_cycles), (2.0, 8.0));
    }
}
