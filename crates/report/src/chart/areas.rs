//! Stacked-area charts over executed instructions.

use serde_json::{Value, json};

use super::{Axis, Series, colour, filled, labels, legend};
use crate::format::{compact, ratio};

/// Maximum number of samples that a chart shows; a reader could not tell more apart.
const MOST_SAMPLES: usize = 200;

/// One sample: its position on the horizontal axis, and a value for each series.
pub(crate) type Sample = (f64, Vec<f64>);

/// A stacked-area chart of a quantity's components, such as kinds of TLB entries, over executed instructions.
pub(crate) struct Areas<'a> {
    pub series: &'a [Series],
    pub samples: Vec<Sample>,
    /// Upper ends of the horizontal and the vertical axis. Charts that are shown side by side have equal
    /// axes.
    pub top: (f64, f64),
    pub value: Axis<'a>,
}

impl Areas<'_> {
    pub fn spec(&self) -> Value {
        let samples = thinned(&self.samples);
        let end = self.top.0.max(1.0);
        // The only sample spans the whole width.
        let step = match samples.len() {
            1 => 2.0 * end,
            _ => samples.windows(2).map(|pair| pair[1].0 - pair[0].0).fold(0.0, f64::max),
        };
        let rows: Vec<Value> = samples.iter().map(|sample| self.row(sample)).collect();
        // The strips around samples are visible only under the pointer.
        filled(
            include_str!("spec/areas.json"),
            &[
                ("$legend", legend(self.series, |_| Value::Null)),
                ("$rows", rows.into()),
                ("$labels", json!(labels(self.series))),
                ("$x axis", Axis::default().spec(60)),
                ("$end", end.into()),
                ("$title", self.value.title()),
                ("$y axis", self.value.sparse()),
                ("$top", self.top.1.into()),
                ("$colour", colour(self.series)),
                ("$from", format!("max(0, datum.x - {:e})", step / 2.0).into()),
                ("$to", format!("min({end:e}, datum.x + {:e})", step / 2.0).into()),
            ],
        )
    }

    /// Returns the chart's data for one sample. The tooltip lists the series from the top of the stack to the
    /// bottom.
    fn row(&self, sample: &Sample) -> Value {
        let values: Vec<f64> = (0..self.series.len()).map(|index| value(sample, index)).collect();
        let line =
            |(series, value): (&Series, &f64)| format!("\n{}: {}", series.label, ratio(*value));
        let lines = self.series.iter().zip(&values).rev().map(line);
        let sum: f64 = values.iter().sum();
        json!({
            "x": sample.0, "values": values, "at": compact(sample.0),
            "text": std::iter::once(format!("{} {}", ratio(sum), self.value.label)).chain(lines).collect::<String>(),
        })
    }
}

/// Returns the largest horizontal position and the highest stack of all samples, for common axes.
pub(crate) fn furthest<'s>(samples: impl IntoIterator<Item = &'s Sample>) -> (f64, f64) {
    let ends = samples.into_iter().map(|(place, values)| (*place, values.iter().sum::<f64>()));
    ends.fold((0.0, 0.0), |top, end| (f64::max(top.0, end.0), f64::max(top.1, end.1)))
}

/// True if a series changes by more than a tenth of the vertical axis, which ends at `top`. The first tenth
/// of the samples does not count, because caches fill during it.
pub(crate) fn changes(samples: &[Sample], top: f64) -> bool {
    let settled = &samples[samples.len() / 10..];
    let Some(first) = settled.first() else { return false };
    (0..first.1.len()).any(|series| {
        let values = settled.iter().map(|sample| value(sample, series));
        let (least, most) = values.fold((f64::INFINITY, 0.0), |(least, most), value| {
            (f64::min(least, value), f64::max(most, value))
        });
        most - least > 0.1 * top
    })
}

fn value(sample: &Sample, index: usize) -> f64 {
    sample.1.get(index).copied().filter(|value| value.is_finite() && *value > 0.0).unwrap_or(0.0)
}

/// Averages groups of neighbouring samples so that at most [`MOST_SAMPLES`] remain.
fn thinned(samples: &[Sample]) -> Vec<Sample> {
    let group = samples.len().div_ceil(MOST_SAMPLES).max(1);
    let average = |group: &[Sample]| {
        let count = group.len() as f64;
        let series = group.iter().map(|sample| sample.1.len()).max().unwrap_or(0);
        let mean = |index| group.iter().map(|sample| value(sample, index)).sum::<f64>() / count;
        (group[group.len() - 1].0, (0..series).map(mean).collect())
    };
    samples.chunks(group).map(average).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_settles_does_not_change() {
        let of = |values: &[f64]| -> Vec<Sample> {
            values.iter().map(|&value| (0.0, vec![100.0 - value, value])).collect()
        };
        let settled = [0.0, 50.0, 50.5, 51.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0];
        assert!(!changes(&of(&settled), 100.0));
        let mut growing = settled;
        growing[9] = 65.0;
        assert!(changes(&of(&growing), 100.0));
        assert!(!changes(&[], 100.0));
    }

    #[test]
    fn thinning_averages_neighbours() {
        // 400 samples become the pairs (0,1), (2,3), …: the first average is 0.5 at position 1.
        let samples: Vec<Sample> =
            (0..400).map(|index| (index as f64, vec![index as f64])).collect();
        let thin = thinned(&samples);
        assert_eq!(thin.len(), 200);
        assert_eq!(thin[0], (1.0, vec![0.5]));
        assert!(thinned(&[]).is_empty());
    }

    #[test]
    fn a_change_is_more_than_a_tenth_of_the_axis() {
        let of = |values: &[f64]| -> Vec<Sample> {
            values.iter().map(|&value| (0.0, vec![5.0, value])).collect()
        };
        assert!(!changes(&of(&[0.0, 10.0]), 100.0) && changes(&of(&[0.0, 10.5]), 100.0));
        assert!(!changes(&of(&[10.0, 0.0]), 100.0) && changes(&of(&[10.5, 0.0]), 100.0));
        // The first of ten samples does not count, that of nine does.
        let mut falling = vec![0.0; 10];
        falling[0] = 50.0;
        assert!(!changes(&of(&falling), 100.0));
        assert!(changes(&of(&falling[..9]), 100.0));
        falling[1] = 50.0;
        assert!(changes(&of(&falling), 100.0));
    }

    #[test]
    fn at_most_200_samples_are_drawn() {
        let of = |count: usize| -> Vec<Sample> {
            (0..count).map(|index| (index as f64, vec![1.0, f64::NAN, -1.0])).collect()
        };
        assert_eq!((thinned(&of(200)).len(), thinned(&of(201)).len()), (200, 101));
        // The last group has one sample, and is no smaller for that. What is no amount counts as 0.
        assert_eq!(thinned(&of(201))[100], (200.0, vec![1.0, 0.0, 0.0]));
        assert_eq!(furthest(&[(3.0, vec![1.0, 2.0]), (9.0, vec![2.0])]), (9.0, 3.0));
        let spec = |samples: Vec<Sample>, end: f64| {
            let series = [Series { label: "a".into(), ..Series::default() }];
            let value = Axis { label: "entries", suffix: "" };
            Areas { series: &series, samples, top: (end, 5.0), value }.spec().to_string()
        };
        // The only sample spans the whole width; others half the widest gap on both sides.
        assert!(spec(of(1), 10.0).contains("max(0, datum.x - 1e1)"));
        let gaps = vec![(0.0, vec![1.0]), (2.0, vec![2.0]), (8.0, vec![1.0]), (9.0, vec![3.0])];
        let text = spec(gaps, 9.0);
        assert!(text.contains("max(0, datum.x - 3e0)") && text.contains("min(9e0, datum.x + 3e0)"));
        assert!(text.contains("3.00 entries\\na: 3.00"), "{text}");
        assert!(spec(of(2), 0.5).contains("min(1e0, "));
    }
}
