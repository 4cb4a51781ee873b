//! Averages over random draws, and how far off they may be.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use perforate_config::Count;
use perforate_os::Random;

use crate::kind::Measurement;
use crate::kind::case_study::named;

/// Random draws for each point; G drew 16PB, which are 4300M slices.
pub type Samples = Count<1, 1_000_000_000_000>;

/// Default number of draws.
pub const SAMPLES: Samples = Count::new(1_000_000);

/// Draws made in one go by one thread, from a random stream of their own.
const BATCH: u64 = 1 << 14;

/// The 97.5 % point of the normal distribution.
const DEVIATIONS_95: f64 = 1.959_964;

/// An average of values between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Average of the draws.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval around it.
    pub half_width_95: f64,
    /// Number of independent values.
    pub draws: u64,
}

#[cfg(test)]
impl Estimate {
    /// True if `exact` lies within twice the interval, that is within four standard deviations:
    /// of the many points of a figure, one in twenty lies outside the interval itself.
    pub fn agrees_with(&self, exact: f64) -> bool {
        (self.mean - exact).abs() <= 2.0 * self.half_width_95
    }
}

/// The closed form, where there is one, and what was drawn. `share` is the first of both.
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

/// Number of draws, and their seed.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Slices or blocks drawn for each point.
    pub samples: u64,
    /// The seed; different points have different streams all the same.
    pub seed: u64,
}

impl Sampling {
    /// Draws of a point; every subject and place has a stream of its own.
    pub fn for_point(samples: Samples, seed: u64, subject: &str, x: f64) -> Self {
        let stream = xxhash_rust::xxh3::xxh3_64(subject.as_bytes());
        Self { samples: samples.get(), seed }.of(stream, x)
    }

    /// Draws from a random stream that belongs to one point of one curve.
    pub fn of(self, curve: u64, x: f64) -> Self {
        let seed = Random::new(self.seed, curve, x.to_bits()).next();
        Self { seed, ..self }
    }

    /// The average of `draws` values, which `make()` counts in parts of `whole`. All processors
    /// draw; the sums are whole numbers, so that nobody's turn shows in the result.
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
                let mut random = Random::new(self.seed, 0, batch);
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
            // Where no thread can be started, this one does the work.
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
    // 3/n, the rule of three, is for draws that are all alike and yet not certain.
    let half_width = DEVIATIONS_95 * (variance / count).sqrt() / scale + 3.0 / count;
    Estimate { mean: mean / scale, half_width_95: half_width.min(1.0), draws }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values 0, 1, 1, 2 of 2, a hundred times: their variance is ½.
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

    /// A share of draws is what it should be, and the same however many threads there are: three
    /// batches and a bit, each drawn from its own stream.
    #[test]
    fn batches_do_not_depend_on_threads() {
        let sampling = Sampling { samples: 0, seed: 5 };
        let draws = 3 * BATCH + 100;
        let drawn = sampling.average(draws, 9, || |random: &mut Random| random.below(10));
        let (mut sum, mut squares) = (0, 0);
        for batch in 0..4 {
            let mut random = Random::new(5, 0, batch);
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
