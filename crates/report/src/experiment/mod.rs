//! Reports on experiments: curves over an axis, and verdicts on a paper's claims.

mod chart;
mod claim;
mod compared;
mod data;
mod headline;
mod joint;
mod page;
mod show;
mod summary;
mod tally;
mod text;
mod unstated;
mod verdicts;

use perforate_records::{AxisForm, ChartForm, ChartRecord, ExperimentRecord, PointRecord};
use perforate_types::counted;
use serde_json::Value;

use show::Written;

pub use page::{experiments_figures, experiments_html};
pub use tally::Tally;
pub use text::experiments_table;

/// Returns the charts of an experiment, or one chart of all curves if its file defines none.
fn charts(result: &ExperimentRecord) -> Vec<ChartRecord> {
    let has_points = result.curves.iter().any(|curve| !curve.points.is_empty());
    if !result.charts.is_empty() || !has_points {
        return result.charts.clone();
    }
    let form = if has_places(result) { ChartForm::Bars } else { ChartForm::Lines };
    vec![ChartRecord {
        title: result.title.clone(),
        form,
        value_label: String::new(),
        curves: result.curves.iter().map(|curve| curve.name.clone()).collect(),
    }]
}

fn has_places(result: &ExperimentRecord) -> bool {
    result.axis_form == AxisForm::Places
}

/// Returns the label of a point's place on the axis; “–” if the record lacks it.
fn place_text(result: &ExperimentRecord, point: &PointRecord) -> String {
    match (&point.place, point.x) {
        (Some(place), _) => place_label(result, place).to_owned(),
        (None, Some(x)) => show::of_axis(result.axis_form).text(x),
        (None, None) => crate::format::MISSING.to_owned(),
    }
}

fn place_label<'a>(result: &'a ExperimentRecord, name: &'a str) -> &'a str {
    let place = result.places.iter().find(|place| place.0 == name);
    place.map_or(name, |place| &place.1)
}

/// Returns a sentence on the agreement of closed forms with Monte Carlo estimates; `None` if no point has
/// both.
fn agreement_text(result: &ExperimentRecord) -> Option<String> {
    let points = result.curves.iter().flat_map(|curve| &curve.points);
    let agreed: Vec<bool> = points.filter_map(|point| point.drawn?.agrees).collect();
    let agreeing = agreed.iter().filter(|agrees| **agrees).count();
    (!agreed.is_empty()).then(|| {
        format!(
            "Monte Carlo agrees with the closed form at {agreeing} of {} (within twice the 95 % \
             interval).",
            counted(agreed.len(), "point")
        )
    })
}

/// Returns a sentence on the meaning of the experiment's values and intervals; `None` if every point is a
/// single run.
fn statistics_text(result: &ExperimentRecord) -> Option<String> {
    let points = || result.curves.iter().flat_map(|curve| &curve.points);
    let most = points().filter_map(|point| point.runs).max().unwrap_or(0);
    if most < 2 {
        return None;
    }
    let least = points().filter_map(|point| point.confidence).reduce(f64::min);
    let confidence = least.map_or_else(String::new, |least| {
        format!(", which hold the true median with at least {} confidence", percent(least))
    });
    Some(format!("Medians of {most} runs with different seeds; least and greatest{confidence}."))
}

fn config_text(result: &ExperimentRecord) -> Option<String> {
    let config: Value = serde_json::from_str(result.config.get()).ok()?;
    (!config.is_null()).then(|| serde_json::to_string_pretty(&config).ok())?
}

/// Writes a confidence level, 0–1, in percent, rounded down to one decimal.
fn percent(share: f64) -> String {
    let percent = (share * 1000.0).floor() / 10.0;
    format!("{percent} %")
}
