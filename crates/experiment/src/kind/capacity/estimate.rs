//! Monte Carlo estimates with confidence intervals.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use perforate_config::Count;
use perforate_types::Random;

use crate::kind::Measurement;
use crate::kind::case_study::named;

/// Number of slices or blocks drawn at random for each point. The paper's 16PB of memory are 4300 million
/// slices (G).
pub type Samples = Count<1, 1_000_000_000_000>;

/// Default number of random draws for each point.
pub const SAMPLES: Samples = Count::new(1_000_000);

/// Number of consecutive draws that a thread makes from one random stream.
const BATCH: u64 = 1 << 14;

/// 97.5 % quantile of the normal distribution.
const DEVIATIONS_95: f64 = 1.959_964;

/// Monte Carlo estimate of the mean of a value from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean of the random draws.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval around the mean.
    pub half_width_95: f64,
    /// Number of independent random draws.
    pub draws: u64,
}

#[cfg(test)]
impl Estimate {
    /// True if `exact` is within twice the confidence interval, which is four standard deviations. The
    /// interval itself would be too strict, because 5 % of a figure's points are outside it.
    pub fn agrees_with(&self, exact: f64) -> bool {
        (self.mean - exact).abs() <= 2.0 * self.half_width_95
    }
}

/// Returns the figures of a point: the closed form, if there is one, and the Monte Carlo estimate. The figure
/// `share` is the closed form if it exists, otherwise the estimate.
pub fn figures(closed_form: Option<f64>, drawn: Estimate) -> Measurement {
    let mut figures = named([
        ("share", closed_form.unwrap_or(drawn.mean)),
        ("drawn_share", drawn.mean),
        ("drawn_half_width_95", drawn.half_width_95),
        ("draws", drawn.draws as f64),
    ]);
    figures.extend(closed_form.map(|share| ("closed_form_share".into(), share)));
    figures
}

/// Number and seed of the random draws for an estimate.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Number of slices or blocks that are generated at random for each point.
    pub samples: u64,
    /// Seed of the random draws; every point derives a random stream of its own.
    pub seed: u64,
}

impl Sampling {
    /// Returns the number of draws and the seed for a point. Each subject and each `x` on the axis has a
    /// random stream of its own.
    pub fn for_point(samples: Samples, seed: u64, subject: &str, x: f64) -> Self {
        let stream = xxhash_rust::xxh3::xxh3_64(subject.as_bytes());
        Self { samples: samples.get(), seed }.of(stream, x)
    }

    /// Replaces the seed by one for the point at `x` of the curve with the number `curve`.
    pub fn of(self, curve: u64, x: f64) -> Self {
        let seed = Random::keyed(self.seed, curve, x.to_bits()).next();
        Self { seed, ..self }
    }

    /// Estimates the mean of `draws` random integers, each divided by `whole`. `make()` returns a function
    /// that generates an integer from 0 to `whole`. All processors take part; because the sums are integers,
    /// the result does not depend on the order of threads.
    pub(super) fn average<D: FnMut(&mut Random) -> u64>(
        self,
        draws: u64,
        whole: u64,
        make: impl Fn() -> D + Sync,
    ) -> Estimate {
        let draws = draws.max(1);
        let next = AtomicU64::new(0);
        let batches = draws.div_ceil(BATCH);
        let work = || {
            let mut draw = make();
            let (mut sum, mut squares) = (0_u64, 0_u128);
            loop {
                let batch = next.fetch_add(1, Ordering::Relaxed);
                if batch >= batches {
                    return (sum, squares);
                }
                let mut random = Random::keyed(self.seed, 0, batch);
                let mut batch_squares = 0;
                for _ in 0..BATCH.min(draws - batch * BATCH) {
                    let value = draw(&mut random);
                    sum += value;
                    batch_squares += value * value;
                }
                squares += u128::from(batch_squares);
            }
        };
        let threads = thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let (sum, squares) = thread::scope(|scope| {
            let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let workers: Vec<_> = (0..threads.min(batches)).filter_map(start).collect();
            // If no thread can be started, this thread does the work.
            let own = if workers.is_empty() { work() } else { (0, 0) };
            workers.into_iter().fold(own, |(sum, squares), worker| {
                let part = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (sum + part.0, squares + part.1)
            })
        });
        estimate(sum, squares, draws, whole)
    }
}

fn estimate(sum: u64, squares: u128, draws: u64, whole: u64) -> Estimate {
    let (count, scale) = (draws as f64, whole as f64);
    let mean = sum as f64 / count;
    let variance = (squares as f64 / count - mean * mean).max(0.0);
    // The term 3/n (rule of three) gives identical draws an interval, because they do not prove
    // certainty.
    let half_width = DEVIATIONS_95 * (variance / count).sqrt() / scale + 3.0 / count;
    Estimate { mean: mean / scale, half_width_95: half_width.min(1.0), draws }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hundred times the values 0, 1, 1 and 2 out of `whole` = 2: their variance is ½.
    #[test]
    fn values_by_hand() {
        let drawn = estimate(400, 600, 400, 2);
        assert_eq!((drawn.mean, drawn.draws), (0.5, 400));
        let expected = 1.959_964 * (0.5_f64 / 400.0).sqrt() / 2.0 + 3.0 / 400.0;
        assert!((drawn.half_width_95 - expected).abs() < 1e-12);
        let alike = estimate(0, 0, 1000, 1);
        assert_eq!(alike.half_width_95, 0.003);
        assert!(alike.agrees_with(0.006) && !alike.agrees_with(0.007));
    }

    /// The mean is as expected and independent of the number of threads. The draws fill three batches and
    /// part of a fourth.
    #[test]
    fn batches_do_not_depend_on_threads() {
        let sampling = Sampling { samples: 0, seed: 5 };
        let draws = 3 * BATCH + 100;
        let drawn = sampling.average(draws, 9, || |random: &mut Random| random.below(10));
        let (mut sum, mut squares) = (0, 0);
        for batch in 0..4 {
            let mut random = Random::keyed(5, 0, batch);
            for _ in 0..BATCH.min(draws - batch * BATCH) {
                let value = random.below(10);
                sum += value;
                squares += u128::from(value * value);
            }
        }
        assert_eq!(drawn, estimate(sum, squares, draws, 9));
        assert!(drawn.agrees_with(0.5) && drawn.half_width_95 < 0.005);
        assert_ne!(sampling.of(0, 0.1).seed, sampling.of(0, 0.2).seed);
        assert_ne!(sampling.of(0, 0.1).seed, sampling.of(1, 0.1).seed);
    }
}
