//! Data table below a chart of an experiment, with a row for each point.

use perforate_records::{CurveRecord, ExperimentRecord, PointRecord, Show};

use super::chart::Drawn;
use super::place_text;
use super::show::{Written, of_axis};
use crate::html::{Cell, Grid, Heading};

/// A column of the data table, to the right of curve and place.
struct Column {
    name: &'static str,
    form: Form,
    value: fn(&PointRecord) -> Option<f64>,
}

/// Kind of the numbers in a column, which determines their notation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A value of the curve, in its notation.
    Value,
    /// A difference of two values, such as the width of an interval.
    Width,
    Share,
    Count,
}

const COLUMNS: &[Column] = &[
    Column { name: "value", form: Form::Value, value: |point| point.known() },
    Column { name: "low", form: Form::Value, value: |point| point.low },
    Column { name: "high", form: Form::Value, value: |point| point.high },
    Column { name: "confidence", form: Form::Share, value: |point| point.confidence },
    Column { name: "runs", form: Form::Count, value: |point| Some(point.runs? as f64) },
    Column { name: "drawn", form: Form::Value, value: |point| Some(point.drawn?.drawn) },
    Column { name: "± 95 %", form: Form::Width, value: |point| point.drawn?.drawn_half_width_95 },
    Column { name: "draws", form: Form::Count, value: |point| point.drawn?.draws },
];

impl Column {
    /// Returns the notation of the column's values for a curve whose values have the notation `show`.
    fn show(&self, show: Show) -> Show {
        match self.form {
            // The width of a gain is a plain percentage, because a difference has no 1 to subtract.
            Form::Width if show == Show::Gain => Show::Percent,
            Form::Value | Form::Width => show,
            Form::Share => Show::Percent,
            Form::Count => Show::Number,
        }
    }

    /// Returns the heading of the column, with a unit if all curves have the notation `all`.
    fn heading(&self, all: Option<Show>) -> Heading {
        match (self.form, all) {
            (Form::Value | Form::Width, Some(show)) => show.heading(self.name),
            (Form::Value | Form::Width, None) => self.name.into(),
            _ => self.show(Show::Number).heading(self.name),
        }
    }
}

/// Returns a table of all points of these curves, without columns that are empty in every row. `first` is the
/// notation of the first curve.
pub(super) fn table(result: &ExperimentRecord, curves: &[Drawn<'_>], first: Show) -> Grid {
    let points = || curves.iter().flat_map(|drawn| &drawn.curve.points);
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| points().any(|point| (column.value)(point).is_some()))
        .collect();
    // Common notation of all curves; `None` if their notations differ.
    let unit = curves.iter().all(|drawn| drawn.curve.show == first).then_some(first);
    let has_verdicts = points().any(|point| agrees(point).is_some());
    let mut head = vec!["curve".into(), axis(result)];
    head.extend(columns.iter().map(|column| column.heading(unit)));
    head.extend(has_verdicts.then(|| "agree".into()));
    head.extend(unit.is_none().then(|| "unit".into()));
    let row = |curve: &CurveRecord, point: &PointRecord| {
        let mut row = vec![Cell::text(&curve.label), place(result, point)];
        row.extend(
            columns.iter().map(|column| column.show(curve.show).cell((column.value)(point))),
        );
        let words = agrees(point).map_or("", |agrees| if agrees { "yes" } else { "no" });
        row.extend(has_verdicts.then(|| Cell::text(words)));
        row.extend(unit.is_none().then(|| Cell::text(curve.show.notation().unit)));
        row
    };
    let rows = curves.iter().map(|drawn| drawn.curve);
    let rows = rows.flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
    Grid { head, rows: rows.map(|(curve, point)| row(curve, point)).collect() }
}

fn agrees(point: &PointRecord) -> Option<bool> {
    point.drawn?.agrees
}

fn axis(result: &ExperimentRecord) -> Heading {
    let label = result.axis_label.as_str();
    let label = if label.is_empty() { "place" } else { label };
    of_axis(result.axis_form).heading(label)
}

fn place(result: &ExperimentRecord, point: &PointRecord) -> Cell {
    match (&point.place, point.x) {
        (None, Some(x)) => of_axis(result.axis_form).cell(Some(x)),
        _ => Cell::text(&place_text(result, point)),
    }
}
