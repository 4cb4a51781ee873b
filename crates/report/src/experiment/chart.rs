//! Charts of an experiment's curves.

use std::collections::BTreeSet;

use perforate_records::{
    ChartForm, ChartRecord, ClaimRecord, CurveRecord, ExperimentRecord, PointRecord, Show,
    Vocabulary,
};

use super::claim::{band, between, claimed};
use super::show::{Written, of_axis};
use super::{charts, data, has_places, place_label, place_text};
use crate::chart::{Axis, Band, Bars, Ground, Lines, Mark, Series, Stacks, broken};
use crate::html::Figure;
use crate::palette;

/// A curve of a chart with its style, which is the same in all charts of an experiment.
pub(super) struct Drawn<'r> {
    pub curve: &'r CurveRecord,
    look: Series,
}

/// A chart of an experiment with everything needed to draw it.
struct Canvas<'r> {
    result: &'r ExperimentRecord,
    chart: &'r ChartRecord,
    curves: Vec<Drawn<'r>>,
    /// Notation of the first curve's values; determines the unit of the axis.
    show: Show,
    /// Ranges of the values in those other charts of the experiment whose value axes have this chart's label
    /// and notation.
    alike: Vec<(f64, f64)>,
}

/// Maximum ratio of a shared value axis to a chart's own range. Above it, the chart gets its own axis,
/// because its curves would look flat.
const FLAT: f64 = 4.0;

/// Returns the charts of an experiment that show any value. `id` is the prefix of their anchors.
pub(super) fn figures(result: &ExperimentRecord, vocabulary: &Vocabulary, id: &str) -> Vec<Figure> {
    let charts = charts(result);
    let canvases = charts.iter().enumerate();
    let mut canvases: Vec<(usize, Canvas<'_>)> = canvases
        .filter_map(|(index, chart)| Some((index, canvas(result, vocabulary, chart)?)))
        .collect();
    let ranges: Vec<(f64, f64)> = canvases.iter().map(|(_, canvas)| canvas.own_range()).collect();
    for place in 0..canvases.len() {
        let axes = canvases[place].1.axes();
        let others = canvases.iter().zip(&ranges).enumerate();
        let alike = others.filter(|(other, ((_, one), _))| *other != place && one.axes() == axes);
        let alike = alike.map(|(_, (_, range))| *range).collect();
        canvases[place].1.alike = alike;
    }
    let figures = canvases.iter();
    figures.map(|(index, canvas)| canvas.figure(format!("{id}-chart-{index}"))).collect()
}

fn canvas<'r>(
    result: &'r ExperimentRecord,
    vocabulary: &Vocabulary,
    chart: &'r ChartRecord,
) -> Option<Canvas<'r>> {
    let labels = labels(result);
    let named = labels.iter().map(|curve| (curve.name.as_str(), curve.label.as_str()));
    let looks = palette::of_curves(vocabulary, named);
    let drawn = |name: &String| {
        let curve = result.curves.iter().find(|curve| curve.name == *name)?;
        let number = labels.iter().position(|one| one.label == curve.label)?;
        let (colour, round) = looks[number];
        let look =
            Series { key: curve.name.clone(), label: curve.label.clone(), colour, number, round };
        let has_values = curve.points.iter().any(|point| point.known().is_some());
        has_values.then_some(Drawn { curve, look })
    };
    let curves: Vec<Drawn<'_>> = chart.curves.iter().filter_map(drawn).collect();
    let show = curves.first()?.curve.show;
    Some(Canvas { result, chart, curves, show, alike: Vec::new() })
}

/// Returns one curve for each distinct label, because curves with equal labels have the same style
/// in all charts.
fn labels(result: &ExperimentRecord) -> Vec<&CurveRecord> {
    let mut found: Vec<&CurveRecord> = Vec::new();
    for name in charts(result).iter().flat_map(|chart| chart.curves.clone()) {
        let curve = result.curves.iter().find(|curve| curve.name == name);
        let is_new = |curve: &&CurveRecord| found.iter().all(|one| one.label != curve.label);
        found.extend(curve.filter(is_new));
    }
    found
}

impl Canvas<'_> {
    fn figure(&self, id: String) -> Figure {
        Figure {
            id,
            name: format!("{} {}", self.result.experiment, self.chart.title),
            title: self.chart.title.clone(),
            caption: match self.chart.form {
                ChartForm::Stacked | ChartForm::Bars => self.caption(),
                ChartForm::Lines => {
                    (self.caption() + &self.lines().coincidence()).trim_start().to_owned()
                }
            },
            data: data::table(self.result, &self.curves, self.show),
            chart: match self.chart.form {
                ChartForm::Stacked => self.stacks(),
                ChartForm::Bars => self.bars(),
                ChartForm::Lines => self.lines().spec(),
            },
        }
    }

    /// Returns the chart's form, the label of its value axis, and the notation of its values. Charts that
    /// agree in all three share a value axis.
    fn axes(&self) -> (ChartForm, &str, Show) {
        (self.chart.form, &self.chart.value_label, self.show)
    }

    fn points(&self) -> impl Iterator<Item = &PointRecord> {
        self.curves.iter().flat_map(|drawn| &drawn.curve.points)
    }

    fn caption(&self) -> String {
        // Line charts name the axis in the picture, so only captions of bar charts mention it.
        let axis = match (self.chart.form, self.result.axis_label.as_str()) {
            (ChartForm::Bars | ChartForm::Stacked, axis) if !axis.is_empty() => {
                format!("By {axis}.")
            }
            _ => String::new(),
        };
        let has_intervals = self.points().any(|point| point.interval().is_some());
        let intervals = match self.chart.form {
            ChartForm::Stacked => "",
            _ if !has_intervals => "",
            ChartForm::Bars => " Whiskers: least to greatest over the seeds.",
            ChartForm::Lines => " Bands or whiskers: least to greatest over the seeds.",
        };
        let claims = || self.claims().filter(|_| self.chart.form != ChartForm::Stacked);
        let papers = if claims().next().is_some() { " Diamonds: the paper's numbers." } else { "" };
        let has_ranges = claims().any(|claim| claim.unstated.is_some());
        let open =
            if has_ranges { " Grey lines: ours over what the paper leaves open." } else { "" };
        let is_cut = self.chart.form == ChartForm::Lines && self.range().0 > 0.0;
        let cut = if is_cut { " The vertical axis does not start at 0." } else { "" };
        let bands = self.bands();
        let of_bands = |is_one: fn(&Band) -> bool| bands.iter().any(is_one);
        let range = if of_bands(|band| !band.is_line()) { " Grey: the paper's range." } else { "" };
        let mean = if of_bands(Band::is_line) { " Dashed: the paper's mean." } else { "" };
        format!("{axis}{intervals}{papers}{range}{mean}{open}{cut}").trim_start().to_owned()
    }

    /// Returns the range of the value axis: that of all charts with equal axes, or the chart's own range if
    /// the chart would look flat otherwise.
    fn range(&self) -> (f64, f64) {
        let own = self.own_range();
        let (least, most) = self
            .alike
            .iter()
            .fold(own, |(least, most), other| (least.min(other.0), most.max(other.1)));
        if (own.1 - own.0) * FLAT < most - least { own } else { (least, most) }
    }

    /// Returns the smallest and the largest value of this chart, intervals included, in the units that charts
    /// show (such as percent). The range includes 0, unless all values are close together and far from 0.
    fn own_range(&self) -> (f64, f64) {
        let ends = self.marks().into_iter().flat_map(|mark| {
            let claimed = mark.claimed.unwrap_or_default();
            let paper = Some(claimed.paper).filter(|_| !claimed.paper_text.is_empty());
            [mark.value, mark.low, mark.high, paper, claimed.open_low, claimed.open_high]
        });
        let bands = self.bands().into_iter().flat_map(|band| [band.low, band.high]);
        let ends = ends.flatten().chain(bands).filter(|end| end.is_finite());
        let (least, most) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), end| {
            (least.min(end), most.max(end))
        });
        if least > 0.0 && least > 0.6 * most {
            return (least, most);
        }
        // Percentages above 50 get an axis up to 100 %.
        let most =
            if self.show == Show::Percent && (50.0..100.0).contains(&most) { 100.0 } else { most };
        (least.min(0.0), most)
    }

    /// Returns the data points of all curves, in the units that the chart shows, such as percent.
    fn marks(&self) -> Vec<Mark> {
        let points = self.curves.iter().flat_map(|drawn| {
            let mut points: Vec<&PointRecord> = drawn.curve.points.iter().collect();
            points.sort_by(|a, b| a.x.partial_cmp(&b.x).unwrap_or(std::cmp::Ordering::Equal));
            points.into_iter().map(move |point| (drawn.curve, point))
        });
        points.map(|(curve, point)| self.mark(curve, point)).collect()
    }

    fn mark(&self, curve: &CurveRecord, point: &PointRecord) -> Mark {
        let show = curve.show;
        let (low, high) = point.interval().unzip();
        let interval = between(show, point.low, point.high).map(|interval| {
            let confidence = point.confidence.map(super::percent);
            interval + &confidence.map_or_else(String::new, |text| format!(" ({text})"))
        });
        Mark {
            place: broken(&place_text(self.result, point)),
            x: point.x.map(|x| of_axis(self.result.axis_form).shown(x)),
            series: curve.label.clone(),
            value: point.known().map(|value| show.shown(value)),
            low: low.map(|low| show.shown(low)),
            high: high.map(|high| show.shown(high)),
            text: show.text_or_missing(point.value),
            interval: interval.unwrap_or_default(),
            claimed: self.claim_at(curve, point).and_then(claimed),
            brief: String::new(),
        }
    }

    /// Returns the claims about a single value of a curve in this chart.
    fn claims(&self) -> impl Iterator<Item = &ClaimRecord> {
        self.result.claims.iter().filter(|claim| {
            self.curves.iter().any(|drawn| {
                drawn.curve.points.iter().any(|point| claim.is_at(&drawn.curve.name, point))
            })
        })
    }

    /// Returns the claim about the value at a point; a claim that states a number is preferred to a bound.
    /// `None` if there is no claim about the point.
    fn claim_at(&self, curve: &CurveRecord, point: &PointRecord) -> Option<&ClaimRecord> {
        let claims = || self.result.claims.iter().filter(|claim| claim.is_at(&curve.name, point));
        claims().find(|claim| claim.relation == "=").or_else(|| claims().next())
    }

    /// Returns the ranges and means that the paper states for the curves of a bar chart, one for each place
    /// that they cover.
    fn bands(&self) -> Vec<Band> {
        if self.chart.form != ChartForm::Bars || !has_places(self.result) {
            return Vec::new();
        }
        let is_drawn =
            |claim: &&ClaimRecord| self.curves.iter().any(|drawn| drawn.curve.name == claim.curve);
        let mut bands: Vec<Band> = Vec::new();
        for claim in self.result.claims.iter().filter(is_drawn) {
            let Some((low, high)) = band(claim) else { continue };
            for (name, label) in &self.result.places {
                let band = Band { place: broken(label), low, high };
                if claim.is_over(name) && !bands.contains(&band) {
                    bands.push(band);
                }
            }
        }
        bands
    }

    /// Returns label and unit of the value axis.
    fn value(&self) -> Axis<'_> {
        Axis { label: &self.chart.value_label, suffix: self.show.notation().suffix }
    }

    fn series(&self) -> Vec<Series> {
        self.curves.iter().map(|drawn| drawn.look.clone()).collect()
    }

    fn lines(&self) -> Lines<'_> {
        let marks = self.marks();
        let ground = if has_places(self.result) {
            Ground::Names(self.places())
        } else {
            Ground::of_numbers(marks.iter().filter_map(|mark| mark.x).collect())
        };
        let result = self.result;
        Lines {
            series: self.series(),
            marks,
            ground,
            range: self.range(),
            axis: Axis {
                label: &result.axis_label,
                suffix: of_axis(result.axis_form).notation().suffix,
            },
            value: self.value(),
        }
    }

    fn bars(&self) -> serde_json::Value {
        let chart = Bars {
            series: self.series(),
            places: self.places(),
            marks: self.on_axis(),
            is_grouped: true,
            range: (!self.alike.is_empty()).then(|| self.range()),
            value: self.value(),
            place: &self.result.axis_label,
            bands: self.bands(),
            ..Bars::default()
        };
        chart.spec()
    }

    fn stacks(&self) -> serde_json::Value {
        let chart = Stacks {
            series: self.series(),
            places: self.places(),
            marks: self.on_axis(),
            value: self.value(),
            place: &self.result.axis_label,
        };
        chart.spec()
    }

    /// Returns the data points on the axis, without those that were only simulated because a claim needs
    /// their values.
    fn on_axis(&self) -> Vec<Mark> {
        let places: BTreeSet<String> = self.places().into_iter().collect();
        self.marks().into_iter().filter(|mark| places.contains(&mark.place)).collect()
    }

    /// Returns the labels of the places on the axis that have points. Names are in the order of the file,
    /// numbers ascend.
    fn places(&self) -> Vec<String> {
        if has_places(self.result) {
            let present: BTreeSet<&str> =
                self.points().filter_map(|point| point.place.as_deref()).collect();
            let listed: Vec<&str> =
                self.result.places.iter().map(|place| place.0.as_str()).collect();
            let others = present.iter().filter(|name| !listed.contains(name));
            let all = listed.iter().filter(|name| present.contains(*name)).chain(others);
            return all.map(|name| broken(place_label(self.result, name))).collect();
        }
        let on_axis = self.points().filter(|point| point.on_axis);
        let mut numbers: Vec<f64> = on_axis.filter_map(|point| point.x).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        let show = of_axis(self.result.axis_form);
        numbers.into_iter().map(|x| broken(&show.text(x))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captions and ranges of the value axes of line charts of one curve each, whose values are given.
    fn drawn(show: &str, charts: &[&[f64]]) -> Vec<(f64, f64, String)> {
        let curve = |number: usize| serde_json::json!({"name": format!("c{number}"), "label": format!("l{number}"), "show": show});
        let chart = |number: usize| serde_json::json!({"title": "T", "form": "lines", "value_label": "v", "curves": [format!("c{number}")]});
        let all = || 0..charts.len();
        let mut lines = vec![
            serde_json::json!({"record": "experiment", "experiment": "x", "title": "t", "axis_form": "number",
                "curves": all().map(curve).collect::<Vec<_>>(), "charts": all().map(chart).collect::<Vec<_>>()})
            .to_string(),
        ];
        for (number, values) in charts.iter().enumerate() {
            for (x, value) in values.iter().enumerate() {
                let point = serde_json::json!({"record": "point", "experiment": "x", "curve": format!("c{number}"),
                    "x": x, "value": value});
                lines.push(point.to_string());
            }
        }
        let results = perforate_records::read_experiments(&lines.join("\n")).unwrap();
        let figures = figures(&results.experiments[0], &Vocabulary::default(), "e");
        let range = |figure: &Figure| {
            let domain = &figure.chart["layer"][1]["encoding"]["y"]["scale"]["domain"];
            let end = |place: usize| (domain[place].as_f64().unwrap() * 1000.0).round() / 1000.0;
            (end(0), end(1), figure.caption.clone())
        };
        figures.iter().map(range).collect()
    }

    /// An axis starts at 0 unless all values are above 60 % of the largest; percentages from 50 on end at 100.
    #[test]
    fn axes_start_at_0_and_end_at_100_percent_where_that_is_near() {
        let cut = "The vertical axis does not start at 0.";
        for (show, values, least, most) in [
            ("ratio", [6.0, 10.0], 0.0, 10.0),
            ("ratio", [6.1, 10.0], 6.1, 10.0),
            ("ratio", [-1.0, 10.0], -1.0, 10.0),
            ("percent", [0.1, 0.499], 0.0, 49.9),
            ("percent", [0.1, 0.5], 0.0, 100.0),
            ("percent", [0.1, 0.999], 0.0, 100.0),
            ("percent", [0.1, 1.0], 0.0, 100.0),
            ("percent", [0.1, 1.2], 0.0, 120.0),
            ("gain", [1.1, 1.8], 0.0, 80.0),
            ("percent", [0.4, 0.6], 40.0, 60.0),
        ] {
            let caption = if least > 0.0 { cut } else { "" };
            assert_eq!(
                drawn(show, &[&values]),
                [(least, most, caption.to_owned())],
                "{show} {values:?}"
            );
        }
    }

    /// Charts with one label and notation share an axis unless one would fill less than a quarter of it.
    #[test]
    fn charts_share_an_axis_unless_one_would_be_flat() {
        let ranges = |charts: &[&[f64]]| {
            drawn("ratio", charts)
                .into_iter()
                .map(|(least, most, _)| (least, most))
                .collect::<Vec<_>>()
        };
        assert_eq!(ranges(&[&[0.0, 10.0], &[0.0, 40.0]]), [(0.0, 40.0); 2]);
        assert_eq!(ranges(&[&[0.0, 9.9], &[0.0, 40.0]]), [(0.0, 9.9), (0.0, 40.0)]);
        assert_eq!(
            ranges(&[&[7.5, 10.0], &[0.0, 8.0], &[-1.0, 9.0]]),
            [(7.5, 10.0), (-1.0, 10.0), (-1.0, 10.0)]
        );
    }
}
