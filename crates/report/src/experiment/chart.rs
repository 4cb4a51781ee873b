//! Charts of experiments, with the data they were drawn from.

use std::collections::BTreeSet;

use super::claim::interval_text;
use super::record::{AxisForm, Chart, Point};
use super::show::Show;
use super::{Curve, ExperimentResult};
use crate::chart::{
    Axis, Ground, Group, GroupBar, GroupSeries, Grouped, Line, LinePoint, Lines, Look, Row, Series,
    Stacked,
};
use crate::format::compact;
use crate::page::figure::{Cell, Figure, Grid, Heading};
use crate::palette;

/// A curve of a chart and how it looks, which is the same on all charts of an experiment.
struct Drawn<'r> {
    curve: &'r Curve,
    look: Look,
}

/// A chart before it is drawn.
struct Canvas<'r> {
    result: &'r ExperimentResult,
    chart: &'r Chart,
    curves: Vec<Drawn<'r>>,
    /// How the values of its first curve are written; its axis is in these units.
    show: Show,
}

/// The figures of an experiment whose curves have any value; `id` begins their anchors.
pub(super) fn figures(result: &ExperimentResult, id: &str) -> Vec<Figure> {
    let charts = result.charts();
    charts
        .iter()
        .enumerate()
        .filter_map(|(index, chart)| figure(result, chart, id, index))
        .collect()
}

fn figure(result: &ExperimentResult, chart: &Chart, id: &str, index: usize) -> Option<Figure> {
    let series = series(result);
    let looks = palette::of_curves(series.iter().map(|curve| curve.name.as_str()));
    let drawn = |name: &String| {
        let curve = result.curves.iter().find(|curve| curve.name == *name)?;
        let number = series.iter().position(|one| one.label == curve.label)?;
        let (colour, round) = looks[number];
        let has_values = curve.points.iter().any(|point| point.known().is_some());
        has_values.then_some(Drawn { curve, look: Look { colour, number, round } })
    };
    let curves: Vec<Drawn<'_>> = chart.curves.iter().filter_map(drawn).collect();
    let show = curves.first()?.curve.show;
    let canvas = Canvas { result, chart, curves, show };
    let picture = match chart.form.as_str() {
        "stacked" => canvas.stacks(),
        "bars" => canvas.bars(),
        _ => canvas.lines(),
    };
    Some(Figure {
        id: format!("{id}-chart-{index}"),
        name: format!("{} {}", result.header.experiment, chart.title),
        title: chart.title.clone(),
        caption: canvas.caption(),
        picture,
        data: canvas.data(),
    })
}

/// One curve for each label in the experiment's charts: what has one label looks the same in all of
/// them.
fn series(result: &ExperimentResult) -> Vec<&Curve> {
    let mut series: Vec<&Curve> = Vec::new();
    for name in result.charts().iter().flat_map(|chart| chart.curves.clone()) {
        let curve = result.curves.iter().find(|curve| curve.name == name);
        let is_new = |curve: &&Curve| series.iter().all(|one| one.label != curve.label);
        series.extend(curve.filter(is_new));
    }
    series
}

impl Canvas<'_> {
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.curves.iter().flat_map(|drawn| &drawn.curve.points)
    }

    fn caption(&self) -> String {
        // What the values are, and what a line is drawn over, stand inside the picture.
        let axis = match (self.chart.form.as_str(), self.result.header.axis_label.as_str()) {
            ("bars" | "stacked", axis) if !axis.is_empty() => format!("By {axis}."),
            _ => String::new(),
        };
        let intervals = if self.points().any(|point| point.interval().is_some()) {
            match self.chart.form.as_str() {
                "stacked" => "",
                "bars" => " Whiskers: least to greatest over the seeds.",
                _ => " Bands or whiskers: least to greatest over the seeds.",
            }
        } else {
            ""
        };
        let cut = if self.chart.form == "lines" && self.range().0 > 0.0 {
            " The vertical axis does not start at 0."
        } else {
            ""
        };
        format!("{axis}{intervals}{cut}").trim_start().to_owned()
    }

    /// Smallest and largest value, intervals included, in shown units; 0 is among them unless all
    /// lie close together far from it.
    fn range(&self) -> (f64, f64) {
        let ends = self.curves.iter().flat_map(|drawn| {
            let show = drawn.curve.show;
            drawn.curve.points.iter().flat_map(move |point| {
                let (low, high) = point.interval().unzip();
                let ends = [point.known(), low, high].into_iter().flatten();
                ends.map(move |end| show.shown(end)).filter(|end| end.is_finite())
            })
        });
        let (least, most) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), end| {
            (least.min(end), most.max(end))
        });
        if least > 0.0 && least > 0.6 * most {
            return (least, most);
        }
        // A share that comes close to the whole has the whole on its axis.
        let most =
            if self.show == Show::Percent && (50.0..100.0).contains(&most) { 100.0 } else { most };
        (least.min(0.0), most)
    }

    fn tip(&self, curve: &Curve, point: &Point) -> String {
        let mut tip = format!("{}: {}", curve.label, curve.show.text_or_missing(point.value));
        if let Some(interval) = interval_text(curve.show, point.low, point.high) {
            tip += &format!("\n{interval}");
            let confidence = point.confidence.map(super::percent);
            let confidence = confidence.map_or_else(String::new, |text| format!(" ({text})"));
            tip += &confidence;
        }
        let axis = match self.result.header.axis_label.as_str() {
            "" => "at",
            label => label,
        };
        tip + &format!("\n{axis}: {}", self.result.place_text(point))
    }

    fn lines(&self) -> String {
        let has_places = self.result.has_places();
        let places = self.places();
        let line = |drawn: &Drawn<'_>| {
            let place = |point: &Point| {
                if has_places {
                    let here = places.iter().position(|place| place.holds(point))?;
                    return Some(here as f64);
                }
                point.x
            };
            let point = |point: &Point| {
                let show = drawn.curve.show;
                Some(LinePoint {
                    x: place(point)?,
                    value: point.known().map(|value| show.shown(value)),
                    interval: point
                        .interval()
                        .map(|(low, high)| (show.shown(low), show.shown(high))),
                    tip: self.tip(drawn.curve, point),
                })
            };
            let mut points: Vec<LinePoint> = drawn.curve.points.iter().filter_map(point).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Line {
                key: drawn.curve.name.clone(),
                label: drawn.curve.label.clone(),
                look: drawn.look,
                points,
            }
        };
        let axis = self.result.header.axis_form.show();
        let (factor, write): (f64, fn(f64) -> String) = match self.result.header.axis_form {
            AxisForm::Share => (100.0, |share| Show::Percent.text(share)),
            AxisForm::Number | AxisForm::Places => (1.0, compact),
        };
        let ground = if has_places {
            Ground::Names(places.iter().map(|place| place.label.clone()).collect())
        } else {
            Ground::of_numbers(self.points().filter_map(|point| point.x).collect(), write)
        };
        Lines {
            title: &self.chart.title,
            lines: self.curves.iter().map(line).collect(),
            ground,
            range: self.range(),
            format: self.show.writer(),
            tick: (1.0, self.show.suffix()),
            axis: Axis { label: &self.result.header.axis_label, tick: (factor, axis.suffix()) },
            value_label: &self.chart.value_label,
        }
        .svg()
    }

    fn bars(&self) -> String {
        let series = |drawn: &Drawn<'_>| GroupSeries {
            key: drawn.curve.name.clone(),
            label: drawn.curve.label.clone(),
            look: drawn.look,
        };
        let group = |place: &Place| {
            let bar = |drawn: &Drawn<'_>| {
                let show = drawn.curve.show;
                let point = drawn.curve.points.iter().find(|point| place.holds(point))?;
                Some(GroupBar {
                    value: show.shown(point.known()?),
                    interval: point
                        .interval()
                        .map(|(low, high)| (show.shown(low), show.shown(high))),
                    tip: self.tip(drawn.curve, point),
                })
            };
            Group { label: place.label.clone(), bars: self.curves.iter().map(bar).collect() }
        };
        Grouped {
            title: &self.chart.title,
            series: self.curves.iter().map(series).collect(),
            groups: self.places().iter().map(group).collect(),
            format: self.show.writer(),
            suffix: self.show.suffix(),
            value_label: &self.chart.value_label,
        }
        .svg()
    }

    fn stacks(&self) -> String {
        let series = |drawn: &Drawn<'_>| Series {
            key: drawn.curve.name.clone(),
            label: drawn.curve.label.clone(),
            colour: drawn.look.colour,
        };
        let row = |place: &Place| {
            let value = |drawn: &Drawn<'_>| {
                let point = drawn.curve.points.iter().find(|point| place.holds(point))?;
                point.known().map(|value| drawn.curve.show.shown(value))
            };
            Row { label: place.label.clone(), values: self.curves.iter().map(value).collect() }
        };
        Stacked {
            title: &self.chart.title,
            series: self.curves.iter().map(series).collect(),
            rows: self.places().iter().map(row).collect(),
            format: self.show.writer(),
            unit: (1.0, self.show.suffix()),
            value_label: &self.chart.value_label,
        }
        .svg()
    }

    /// Places on the axis that have points, in the order of the file; numbers in ascending order.
    fn places(&self) -> Vec<Place> {
        if self.result.has_places() {
            let present: BTreeSet<&str> =
                self.points().filter_map(|point| point.place.as_deref()).collect();
            let listed = || self.result.header.places.iter().map(|place| place.0.as_str());
            let others =
                present.iter().copied().filter(|name| listed().all(|other| other != *name));
            let all = listed().filter(|name| present.contains(name)).chain(others);
            let place = |name: &str| Place {
                name: Some(name.to_owned()),
                x: 0.0,
                label: self.result.place_label(name).to_owned(),
            };
            return all.map(place).collect();
        }
        let on_axis = self.points().filter(|point| point.on_axis);
        let mut numbers: Vec<f64> = on_axis.filter_map(|point| point.x).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        let show = self.result.header.axis_form.show();
        numbers.into_iter().map(|x| Place { name: None, x, label: show.text(x) }).collect()
    }

    /// A row for every point; columns that are empty throughout are left out.
    fn data(&self) -> Grid {
        let header = &self.result.header;
        let axis = if header.axis_label.is_empty() { "place" } else { &header.axis_label };
        let axis = match header.axis_form {
            AxisForm::Share => Heading::with_unit(axis, "%"),
            AxisForm::Number | AxisForm::Places => axis.into(),
        };
        let columns: Vec<&Column> = COLUMNS
            .iter()
            .filter(|column| self.points().any(|point| (column.value)(point).is_some()))
            .collect();
        let mut head = vec!["curve".into(), axis];
        head.extend(columns.iter().map(|column| column.heading(self.common_unit())));
        let has_verdicts = self.points().any(|point| point.agrees.is_some());
        if has_verdicts {
            head.push("agree".into());
        }
        if self.common_unit().is_none() {
            head.push("unit".into());
        }
        let row = |curve: &Curve, point: &Point| {
            let mut row = vec![Cell::text(&curve.label), self.place_cell(point)];
            row.extend(columns.iter().map(|column| column.cell(curve.show, point)));
            if has_verdicts {
                let words = point.agrees.map(|agrees| if agrees { "yes" } else { "no" });
                row.push(Cell::text(words.unwrap_or_default()));
            }
            if self.common_unit().is_none() {
                row.push(Cell::text(curve.show.unit().unwrap_or_default()));
            }
            row
        };
        let rows = self.curves.iter().map(|drawn| drawn.curve);
        let rows = rows.flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        Grid { head, rows: rows.map(|(curve, point)| row(curve, point)).collect() }
    }

    /// How all curves are written; none where they differ.
    fn common_unit(&self) -> Option<Show> {
        self.curves.iter().all(|drawn| drawn.curve.show == self.show).then_some(self.show)
    }

    fn place_cell(&self, point: &Point) -> Cell {
        match (&point.place, point.x) {
            (None, Some(x)) => {
                let show = self.result.header.axis_form.show();
                Cell::value(Some(show.shown(x)), show.writer())
            }
            _ => Cell::text(&self.result.place_text(point)),
        }
    }
}

/// A place on the axis of bars.
struct Place {
    /// Its name; none where it is a number.
    name: Option<String>,
    x: f64,
    label: String,
}

impl Place {
    fn holds(&self, point: &Point) -> bool {
        match &self.name {
            Some(name) => point.place.as_ref() == Some(name),
            None => point.x == Some(self.x),
        }
    }
}

/// A column of a chart's data after curve and place.
struct Column {
    name: &'static str,
    /// Unit of its own; the curve's where there is none.
    form: Form,
    value: fn(&Point) -> Option<f64>,
}

/// What the numbers of a column are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A value of the curve.
    Value,
    /// A difference of such values.
    Width,
    Share,
    Count,
}

const COLUMNS: &[Column] = &[
    Column { name: "value", form: Form::Value, value: |point| point.known() },
    Column { name: "low", form: Form::Value, value: |point| point.low },
    Column { name: "high", form: Form::Value, value: |point| point.high },
    Column { name: "confidence", form: Form::Share, value: |point| point.confidence },
    Column { name: "runs", form: Form::Count, value: |point| point.runs },
    Column { name: "drawn", form: Form::Value, value: |point| point.drawn },
    Column { name: "± 95 %", form: Form::Width, value: |point| point.drawn_half_width_95 },
    Column { name: "draws", form: Form::Count, value: |point| point.draws },
];

impl Column {
    fn heading(&self, show: Option<Show>) -> Heading {
        let unit = match self.form {
            Form::Value | Form::Width => show.and_then(Show::unit),
            Form::Share => Some("%"),
            Form::Count => None,
        };
        unit.map_or_else(|| self.name.into(), |unit| Heading::with_unit(self.name, unit))
    }

    fn cell(&self, show: Show, point: &Point) -> Cell {
        let value = (self.value)(point);
        match self.form {
            Form::Value => Cell::value(value.map(|value| show.shown(value)), show.writer()),
            // A width has no 1 to start from.
            Form::Width if show == Show::Gain => {
                Cell::value(value.map(|value| value * 100.0), Show::Percent.writer())
            }
            Form::Width => Cell::value(value.map(|value| show.shown(value)), show.writer()),
            Form::Share => Cell::value(value.map(|value| value * 100.0), Show::Percent.writer()),
            Form::Count => Cell::value(value, Show::Number.writer()),
        }
    }
}
