//! Results of experiments: curves over an axis, and a paper's claims with a verdict each.

mod chart;
mod claim;
mod compared;
mod data;
mod headline;
mod page;
mod record;
mod show;
mod summary;
mod tally;
mod text;
mod unstated;
mod verdicts;

use perforate_types::counted;
use serde_json::Value;

use claim::Claim;
use record::{AxisForm, Chart, Header, Point};
use show::Show;

pub use page::{experiments_figures, experiments_html};
pub use record::read_experiments;
pub use tally::Tally;
pub use text::experiments_table;

/// One experiment: its records in a results file, put together.
#[derive(Clone, Debug)]
pub struct ExperimentResult {
    header: Header,
    curves: Vec<Curve>,
    claims: Vec<Claim>,
}

/// A curve with its points, in the order of the records.
#[derive(Clone, Debug)]
struct Curve {
    name: String,
    label: String,
    show: Show,
    points: Vec<Point>,
}

impl ExperimentResult {
    /// What it shows.
    pub fn title(&self) -> &str {
        &self.header.title
    }

    /// Verdicts on its claims.
    pub fn tally(&self) -> Tally {
        Tally::of(&self.claims)
    }

    /// Its charts; one of all curves where its records name none.
    fn charts(&self) -> Vec<Chart> {
        let has_points = self.curves.iter().any(|curve| !curve.points.is_empty());
        if !self.header.charts.is_empty() || !has_points {
            return self.header.charts.clone();
        }
        let form = if self.has_places() { "bars" } else { "lines" };
        vec![Chart {
            title: self.header.title.clone(),
            form: form.into(),
            value_label: String::new(),
            curves: self.curves.iter().map(|curve| curve.name.clone()).collect(),
        }]
    }

    fn has_places(&self) -> bool {
        self.header.axis_form == AxisForm::Places
    }

    /// What a reader calls the point's place on the axis.
    fn place_text(&self, point: &Point) -> String {
        match (&point.place, point.x) {
            (Some(place), _) => self.place_label(place).to_owned(),
            (None, Some(x)) => self.header.axis_form.show().text(x),
            (None, None) => crate::format::MISSING.to_owned(),
        }
    }

    fn place_label<'a>(&'a self, name: &'a str) -> &'a str {
        let place = self.header.places.iter().find(|place| place.0 == name);
        place.map_or(name, |place| &place.1)
    }

    /// Points where the closed form and the draws agree, and all points that have both.
    fn agreement(&self) -> (usize, usize) {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let both: Vec<bool> = points.filter_map(|point| point.agrees).collect();
        (both.iter().filter(|&&agrees| agrees).count(), both.len())
    }

    /// What closed forms and draws have to do with each other, in a sentence.
    fn agreement_text(&self) -> Option<String> {
        let (agreeing, all) = self.agreement();
        (all > 0).then(|| {
            format!(
                "Monte Carlo agrees with the closed form at {agreeing} of {} (within twice the 95 % \
                 interval).",
                counted(all, "point")
            )
        })
    }

    /// What a value and its interval are, in a sentence; none where every point is one run.
    fn statistics_text(&self) -> Option<String> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let most = points().filter_map(|point| point.runs).fold(0.0, f64::max);
        if most < 2.0 {
            return None;
        }
        let least = points().filter_map(|point| point.confidence).reduce(f64::min);
        let confidence = least.map_or_else(String::new, |least| {
            format!(", which hold the true median with at least {} confidence", percent(least))
        });
        Some(format!(
            "Medians of {most} runs with different seeds; least and greatest{confidence}."
        ))
    }

    fn config_text(&self) -> Option<String> {
        match &self.header.config {
            Value::Null => None,
            config => serde_json::to_string_pretty(config).ok(),
        }
    }
}

/// A confidence without more digits than it needs.
fn percent(share: f64) -> String {
    let percent = (share * 1000.0).floor() / 10.0;
    format!("{percent} %")
}
