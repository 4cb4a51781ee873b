//! Claims of the papers and what became of them.

use serde::Deserialize;

use super::record::{Point, or_default};
use super::show::Show;
use super::unstated::Range;
use crate::chart::Claimed;
use crate::format::MISSING;

/// A paper's number beside ours.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Claim {
    pub id: String,
    pub statement: String,
    #[serde(default, deserialize_with = "or_default")]
    pub source: String,
    /// What it tests: `number`, `threshold`, `sign`, `closed-form`, `by-construction`, `input`,
    /// `restated` or `test`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Curve and place that it is about, where that is one place.
    #[serde(default, deserialize_with = "or_default")]
    pub curve: String,
    pub x: Option<f64>,
    pub place: Option<String>,
    /// Treatment of the values of several places: `every`, or the name of an average.
    pub over: Option<String>,
    /// The places, if they are not all of the axis.
    #[serde(default, deserialize_with = "or_default")]
    pub places: Vec<String>,
    #[serde(default)]
    pub show: Show,
    pub paper: Option<f64>,
    /// Upper end of a range.
    pub paper_high: Option<f64>,
    /// `=`, `≤`, `≥` or `range`.
    #[serde(default, deserialize_with = "or_default")]
    pub relation: String,
    pub ours: Option<f64>,
    pub ours_low: Option<f64>,
    pub ours_high: Option<f64>,
    /// Least and greatest over the places of a range.
    pub ours_least: Option<f64>,
    pub ours_greatest: Option<f64>,
    pub verdict: Verdict,
    pub note: Option<String>,
    pub explanation: Option<String>,
    /// What tested that.
    pub tested_by: Option<String>,
    /// How far our number depends on what the sources leave open.
    pub unstated: Option<Range>,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Reproduced,
    SameDirection,
    NotReproduced,
}

impl Verdict {
    pub fn text(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::SameDirection => "same direction",
            Self::NotReproduced => "not reproduced",
        }
    }

    /// Name of its colour.
    pub fn colour(self) -> &'static str {
        match self {
            Self::Reproduced => "perforated",
            Self::SameDirection => "bitmap",
            Self::NotReproduced => "hole",
        }
    }

    /// A sign that says the same without the colour.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Reproduced => "✓",
            Self::SameDirection => "≈",
            Self::NotReproduced => "✗",
        }
    }
}

impl Claim {
    /// Whether simulation may or may not bear it out.
    pub fn is_tested(&self) -> bool {
        matches!(self.kind.as_deref(), Some("number" | "threshold"))
    }

    /// Whether it is about this point of a curve.
    pub fn is_at(&self, curve: &str, point: &Point) -> bool {
        let is_place = match (&self.place, self.x) {
            (Some(place), _) => point.place.as_ref() == Some(place),
            (None, Some(x)) => point.x == Some(x),
            (None, None) => false,
        };
        is_place && self.curve == curve
    }

    /// The paper's range for each of several places, or its number for their average, in shown units:
    /// lower and upper end, which are equal for a number.
    pub fn band(&self) -> Option<(f64, f64)> {
        let low = self.paper?;
        let high = match (self.relation.as_str(), self.over.as_deref()?) {
            ("range", "every") => self.paper_high?,
            ("=", "mean" | "geometric-mean") => low,
            _ => return None,
        };
        Some((self.show.shown(low), self.show.shown(high)))
    }

    /// True if the claim is about this place among others.
    pub fn is_over(&self, place: &str) -> bool {
        self.places.is_empty() || self.places.iter().any(|one| one == place)
    }

    /// How far our number is from the paper's, as a part of the paper's; from the nearer end of a
    /// range. Both as they are shown: a gain is what exceeds 1.
    pub fn miss(&self) -> Option<f64> {
        let shown = |value: Option<f64>| value.map(|value| self.show.shown(value));
        let (ours, low) = (shown(self.ours)?, shown(self.paper)?);
        let high = shown(self.paper_high).unwrap_or(low);
        let paper = if (ours - low).abs() < (ours - high).abs() { low } else { high };
        let miss = (ours - paper).abs() / paper.abs();
        miss.is_finite().then_some(miss)
    }

    /// What charts have beside our number, in shown units.
    pub fn claimed(&self) -> Option<Claimed> {
        let shown = |value| self.show.shown(value);
        let open = self.unstated.as_ref();
        Some(Claimed {
            paper: shown(self.paper?),
            open_low: open.map(|range| shown(range.least)),
            open_high: open.map(|range| shown(range.greatest)),
            paper_text: self.paper_text(),
            open_text: open.map_or_else(String::new, |range| {
                format!("{} to {}", self.show.text(range.least), self.show.text(range.greatest))
            }),
        })
    }

    /// The paper's number with its relation, or its range.
    pub fn paper_text(&self) -> String {
        let paper = self.show.text_or_missing(self.paper);
        match (self.relation.as_str(), self.paper_high) {
            ("range", Some(high)) | ("=" | "", Some(high)) => {
                format!("{paper} to {}", self.show.text(high))
            }
            ("=" | "" | "range", None) => paper,
            (relation, _) => format!("{relation} {paper}"),
        }
    }

    /// Our number: the median, or least and greatest for a range.
    pub fn ours_text(&self) -> String {
        match (self.ours_least, self.ours_greatest) {
            (Some(least), Some(greatest)) => {
                format!("{} to {}", self.show.text(least), self.show.text(greatest))
            }
            _ => self.show.text_or_missing(self.ours),
        }
    }

    /// The interval around our number as text; none where there is none or where it says no more.
    pub fn interval_text(&self) -> Option<String> {
        interval_text(self.show, self.ours_low, self.ours_high)
    }

    /// How far our number depends on what the sources leave open, in words.
    pub fn range_text(&self) -> Option<String> {
        self.unstated.as_ref().map(|range| range.text(self.show))
    }

    /// What tables are sorted by: ours, or the least of a range.
    pub fn ours_shown(&self) -> Option<f64> {
        self.ours_least.or(self.ours).map(|value| self.show.shown(value))
    }

    /// A remark on how the claim was read.
    pub fn note_text(&self) -> Option<&str> {
        self.note.as_deref().map(str::trim).filter(|text| !text.is_empty())
    }

    /// Why it is as it is, as the experiment's file says, and what tested that.
    pub fn explanation_text(&self) -> Option<String> {
        let text = self.explanation.as_deref().map(str::trim).filter(|text| !text.is_empty())?;
        let tested = match &self.tested_by {
            Some(what) => format!("(Tested by {what}.)"),
            None => "(Not tested.)".to_owned(),
        };
        Some(format!("{text} {tested}"))
    }
}

/// “least – greatest”, where these are known and look different.
pub(super) fn interval_text(show: Show, low: Option<f64>, high: Option<f64>) -> Option<String> {
    let (low, high) = (show.text_or_missing(low), show.text_or_missing(high));
    (low != high && low != MISSING && high != MISSING).then(|| format!("{low} – {high}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(more: &str) -> Claim {
        let text = format!(
            r#"{{"id":"P-C1","statement":"s","verdict":"reproduced","show":"gain"{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn relations_ranges_and_missing_values_are_said() {
        assert_eq!(claim(r#","paper":1.594,"relation":"=""#).paper_text(), "+59.4 %");
        assert_eq!(claim(r#","paper":1.2,"relation":"≥""#).paper_text(), "≥ +20.0 %");
        let range = r#","paper":1.02,"paper_high":1.115,"relation":"range","ours_least":1.01,"ours_greatest":1.2"#;
        assert_eq!(claim(range).paper_text(), "+2.00 % to +11.5 %");
        assert_eq!(claim(range).ours_text(), "+1.00 % to +20.0 %");
        assert_eq!(claim(r#","paper":null"#).paper_text(), MISSING);
        assert_eq!(claim("").ours_text(), MISSING);
    }

    #[test]
    fn intervals_that_say_no_more_are_left_out() {
        let interval = |more| claim(more).interval_text();
        assert_eq!(
            interval(r#","ours":1.5,"ours_low":1.4,"ours_high":1.6"#).as_deref(),
            Some("+40.0 % – +60.0 %")
        );
        assert_eq!(interval(r#","ours":1.5,"ours_low":1.5,"ours_high":1.5"#), None);
        assert_eq!(interval(r#","ours":1.5,"ours_low":1.4"#), None);
    }

    #[test]
    fn each_verdict_has_a_text_a_colour_and_a_sign_of_its_own() {
        use Verdict::{NotReproduced, Reproduced, SameDirection};
        let all = [Reproduced, SameDirection, NotReproduced];
        assert_eq!(
            all.map(|verdict| (verdict.text(), verdict.colour(), verdict.sign())),
            [
                ("reproduced", "perforated", "✓"),
                ("same direction", "bitmap", "≈"),
                ("not reproduced", "hole", "✗"),
            ]
        );
    }
}
