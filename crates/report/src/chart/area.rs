//! Stacked areas over instructions.

use super::horizontal::{Axis, TICK, draw_axis};
use super::scale::{Scale, tick_text};
use super::svg::{Anchor, Ink, Svg, length, text_width};
use super::{Series, WIDTH, legend};
use crate::format::escape;
use crate::palette;

/// Height of the plot.
pub(super) const HEIGHT: f64 = 170.0;
/// More samples than this cannot be told apart at this width.
const MOST_SAMPLES: usize = 200;

/// A chart of stacked areas.
pub(crate) struct Area<'a> {
    pub title: &'a str,
    pub series: Vec<Series>,
    /// Place on the horizontal axis and one value per series.
    pub samples: Vec<(f64, Vec<f64>)>,
    /// Largest values of both axes, so that charts beside each other can be compared.
    pub top: (f64, f64),
}

impl Area<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new();
        let samples = thinned(&self.samples);
        let top = legend::draw(&mut svg, &self.series) + 4.0;
        let floor = top + HEIGHT;
        let vertical = Scale::new(self.top.1, 4, 0.0, HEIGHT);
        let step = vertical.ticks.get(1).copied().unwrap_or(1.0);
        let texts: Vec<String> =
            vertical.ticks.iter().map(|&tick| tick_text(tick, step, "")).collect();
        let left = texts.iter().map(|text| text_width(text, TICK)).fold(20.0, f64::max) + 8.0;
        let horizontal = Scale::new(self.top.0, 5, left, WIDTH - left - 18.0);
        let places = places(&samples, &horizontal);
        self.draw_areas(&mut svg, &samples, &places, &vertical, floor);
        for (&tick, text) in vertical.ticks.iter().zip(&texts) {
            let y = floor - vertical.units(tick);
            svg.line(if tick == 0.0 { "axis" } else { "over" }, (left, y), (WIDTH - 18.0, y));
            svg.text(left - 6.0, y + 4.0, TICK, Anchor::End, Ink::Muted, text);
        }
        draw_axis(&mut svg, &horizontal, floor, &Axis::INSTRUCTIONS);
        let data = format!(
            " data-scale=\"{:e}\" data-floor=\"{}\" data-places=\"{}\" data-instructions=\"{}\"",
            HEIGHT / vertical.top,
            length(floor),
            join(places.iter().copied()),
            join(
                (0..places.len())
                    .filter_map(|place| samples.get(place.min(samples.len() - 1)))
                    .map(|sample| sample.0)
            ),
        );
        svg.finish(floor + 38.0, self.title, &data)
    }

    fn draw_areas(
        &self,
        svg: &mut Svg,
        samples: &[(f64, Vec<f64>)],
        places: &[f64],
        vertical: &Scale,
        floor: f64,
    ) {
        let mut base = vec![floor; places.len()];
        for (index, series) in self.series.iter().enumerate() {
            let values: Vec<f64> = samples.iter().map(|sample| value(sample, index)).collect();
            // The last sample is drawn twice when there is only one, hence the clamp.
            let at = |place: usize| values[place.min(values.len() - 1)];
            let upper: Vec<f64> = base
                .iter()
                .enumerate()
                .map(|(place, &low)| low - vertical.units(at(place)))
                .collect();
            svg.raw(&format!(
                "<path class=\"f-{0} layer\" fill=\"{1}\" data-series=\"{2}\" data-label=\"{3}\" data-values=\"{4}\" d=\"{5}\"/>",
                series.colour, palette::light(series.colour), escape(&series.key), escape(&series.label),
                join((0..places.len()).map(at)), outline(places, &base, &upper),
            ));
            base = upper;
        }
    }
}

fn value(sample: &(f64, Vec<f64>), index: usize) -> f64 {
    sample.1.get(index).copied().filter(|value| value.is_finite() && *value > 0.0).unwrap_or(0.0)
}

/// Horizontal places of the samples; a single sample spans the whole width.
fn places(samples: &[(f64, Vec<f64>)], scale: &Scale) -> Vec<f64> {
    match samples {
        [_] => vec![scale.place(0.0), scale.place(scale.top)],
        _ => samples.iter().map(|sample| scale.place(sample.0)).collect(),
    }
}

fn outline(places: &[f64], lower: &[f64], upper: &[f64]) -> String {
    let there = places.iter().zip(upper);
    let back = places.iter().zip(lower).rev();
    let points: Vec<String> =
        there.chain(back).map(|(&x, &y)| format!("{} {}", length(x), length(y))).collect();
    if points.is_empty() { "M0 0".to_string() } else { format!("M{}Z", points.join("L")) }
}

fn join(values: impl Iterator<Item = f64>) -> String {
    values.map(length).collect::<Vec<_>>().join(" ")
}

/// Averages of neighbouring samples, at most [`MOST_SAMPLES`] of them.
fn thinned(samples: &[(f64, Vec<f64>)]) -> Vec<(f64, Vec<f64>)> {
    let group = samples.len().div_ceil(MOST_SAMPLES).max(1);
    let average = |group: &[(f64, Vec<f64>)]| {
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
    fn thinning_averages_neighbours() {
        // 400 samples: pairs (0,1), (2,3), …: the first average is 0.5 at place 1.
        let samples: Vec<(f64, Vec<f64>)> =
            (0..400).map(|index| (index as f64, vec![index as f64])).collect();
        let thin = thinned(&samples);
        assert_eq!(thin.len(), 200);
        assert_eq!(thin[0], (1.0, vec![0.5]));
        assert!(thinned(&[]).is_empty());
    }
}
