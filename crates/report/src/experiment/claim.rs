//! Claims of the papers, our values and verdicts as text.

use perforate_records::{ClaimRecord, Show, Verdict};

use super::show::Written;
use super::unstated;
use crate::chart::Claimed;
use crate::format::MISSING;

/// Returns a verdict's name, a symbol for it (which works without colour), and the name of its colour in the
/// palette.
pub(super) fn look(verdict: Verdict) -> (&'static str, &'static str, &'static str) {
    match verdict {
        Verdict::Reproduced => ("reproduced", "✓", "perforated"),
        Verdict::SameDirection => ("same direction", "≈", "bitmap"),
        Verdict::NotReproduced => ("not reproduced", "✗", "hole"),
    }
}

/// Returns the lower and the upper end of the range in which the paper's values at all places lie; for a
/// claim on a mean over places, the mean as both ends. In the units that charts show; `None` for other
/// claims.
pub(super) fn band(claim: &ClaimRecord) -> Option<(f64, f64)> {
    let low = claim.paper?;
    let high = match (claim.relation.as_str(), claim.over.as_deref()?) {
        ("range", "every") => claim.paper_high?,
        ("=", "mean" | "geometric-mean") => low,
        _ => return None,
    };
    Some((claim.show.shown(low), claim.show.shown(high)))
}

/// Returns the relative difference of our value from the paper's, or from the nearer end of the paper's
/// range. Gains are compared as gains, without the 1 (1.25 as 25 %). `None` if unknown or infinite.
pub(super) fn miss(claim: &ClaimRecord) -> Option<f64> {
    let shown = |value: Option<f64>| value.map(|value| claim.show.shown(value));
    let (ours, low) = (shown(claim.ours)?, shown(claim.paper)?);
    let high = shown(claim.paper_high).unwrap_or(low);
    let paper = if (ours - low).abs() < (ours - high).abs() { low } else { high };
    let miss = (ours - paper).abs() / paper.abs();
    miss.is_finite().then_some(miss)
}

/// Returns, for a chart and in its units, the paper's value and the range of ours over parameters that the
/// paper does not state. `None` if the paper gives no number.
pub(super) fn claimed(claim: &ClaimRecord) -> Option<Claimed> {
    let shown = |value| claim.show.shown(value);
    let open = claim.unstated.as_ref();
    Some(Claimed {
        paper: shown(claim.paper?),
        open_low: open.map(|range| shown(range.least)),
        open_high: open.map(|range| shown(range.greatest)),
        paper_text: paper_text(claim),
        open_text: open.map_or_else(String::new, |range| {
            format!("{} to {}", claim.show.text(range.least), claim.show.text(range.greatest))
        }),
    })
}

/// Writes the paper's value with its relation (such as ≥), or its range.
pub(super) fn paper_text(claim: &ClaimRecord) -> String {
    let paper = claim.show.text_or_missing(claim.paper);
    match (claim.relation.as_str(), claim.paper_high) {
        ("range", Some(high)) | ("=" | "", Some(high)) => {
            format!("{paper} to {}", claim.show.text(high))
        }
        ("=" | "" | "range", None) => paper,
        (relation, _) => format!("{relation} {paper}"),
    }
}

/// Writes our value: the median over the seeds, or the smallest and the largest value if the claim covers
/// several places.
pub(super) fn ours_text(claim: &ClaimRecord) -> String {
    match (claim.ours_least, claim.ours_greatest) {
        (Some(least), Some(greatest)) => {
            format!("{} to {}", claim.show.text(least), claim.show.text(greatest))
        }
        _ => claim.show.text_or_missing(claim.ours),
    }
}

/// Returns the interval around our value as text; `None` if it is unknown, or if both ends look equal as
/// text.
pub(super) fn interval_text(claim: &ClaimRecord) -> Option<String> {
    between(claim.show, claim.ours_low, claim.ours_high)
}

/// Writes the range of our value over plausible values of parameters that the papers do not state; `None` if
/// it was not measured.
pub(super) fn range_text(claim: &ClaimRecord) -> Option<String> {
    claim.unstated.as_ref().map(|range| unstated::text(range, claim.show))
}

/// Returns our value as the sort key of tables, in the units that tables show; the smallest one if the claim
/// covers several places.
pub(super) fn ours_shown(claim: &ClaimRecord) -> Option<f64> {
    claim.ours_least.or(claim.ours).map(|value| claim.show.shown(value))
}

/// Says by how much our value misses the bound or range of a claim that counts as reproduced only because of
/// its tolerance; `None` for other claims, and if the values look equal as text.
pub(super) fn slack_text(claim: &ClaimRecord) -> Option<String> {
    let (ours, bound) = (claim.ours?, claim.paper?);
    let (low, high) = match claim.relation.as_str() {
        "≥" => (Some(bound), None),
        "≤" => (None, Some(bound)),
        "range" => (Some(bound), claim.paper_high),
        _ => return None,
    };
    let (bound, side) = match (low, high) {
        (Some(low), _) if ours < low => (low, "below"),
        (_, Some(high)) if ours > high => (high, "above"),
        _ => return None,
    };
    let is_told =
        claim.verdict == Verdict::Reproduced && claim.show.text(ours) != claim.show.text(bound);
    let tolerance = claim.tolerance.filter(|_| is_told)?;
    let [by, tolerance] = [(ours - bound).abs(), tolerance].map(|size| claim.show.size_text(size));
    Some(format!("{by} {side} {}, within the tolerance of {tolerance}", claim.show.text(bound)))
}

/// Returns the experiment file's note on the interpretation of the claim; `None` if there is no note.
pub(super) fn note_text(claim: &ClaimRecord) -> Option<&str> {
    claim.note.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

/// Returns the experiment file's explanation of the deviation of our value, and the experiment that tests the
/// explanation.
pub(super) fn explanation_text(claim: &ClaimRecord) -> Option<String> {
    let text = claim.explanation.as_deref().map(str::trim).filter(|text| !text.is_empty())?;
    let tested = match &claim.tested_by {
        Some(what) => format!("(Tested by {what}.)"),
        None => "(Not tested.)".to_owned(),
    };
    Some(format!("{text} {tested}"))
}

/// Writes an interval as “low – high”; `None` unless both ends are known and look different.
pub(super) fn between(show: Show, low: Option<f64>, high: Option<f64>) -> Option<String> {
    let (low, high) = (show.text_or_missing(low), show.text_or_missing(high));
    (low != high && low != MISSING && high != MISSING).then(|| format!("{low} – {high}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(more: &str) -> ClaimRecord {
        let text = format!(
            r#"{{"id":"P-C1","statement":"s","verdict":"reproduced","show":"gain"{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn relations_ranges_and_missing_values_are_said() {
        assert_eq!(paper_text(&claim(r#","paper":1.594,"relation":"=""#)), "+59.4 %");
        assert_eq!(paper_text(&claim(r#","paper":1.2,"relation":"≥""#)), "≥ +20.0 %");
        let range = r#","paper":1.02,"paper_high":1.115,"relation":"range","ours_least":1.01,"ours_greatest":1.2"#;
        assert_eq!(paper_text(&claim(range)), "+2.00 % to +11.5 %");
        assert_eq!(ours_text(&claim(range)), "+1.00 % to +20.0 %");
        assert_eq!(paper_text(&claim(r#","paper":null"#)), MISSING);
        assert_eq!(ours_text(&claim("")), MISSING);
    }

    /// A bound that is kept only within the claim's tolerance says so, in points for shares and gains.
    #[test]
    fn a_bound_that_is_missed_says_by_how_much() {
        let slack = |more: &str| slack_text(&claim(more));
        let least = r#","relation":"≥","paper":1.0,"tolerance":0.01,"ours":0.994"#;
        let expected = "0.60 points below 0 %, within the tolerance of 1.00 points";
        assert_eq!(slack(least).as_deref(), Some(expected));
        let most = r#","relation":"≤","paper":1.0,"tolerance":0.01,"ours":1.002"#;
        let expected = "0.20 points above 0 %, within the tolerance of 1.00 points";
        assert_eq!(slack(most).as_deref(), Some(expected));
        let range =
            r#","relation":"range","paper":1.1,"paper_high":1.2,"tolerance":0.05,"ours":1.21"#;
        assert!(slack(range).unwrap().starts_with("1.00 points above +20.0 %"));
        for none in [
            r#","relation":"≥","paper":1.0,"tolerance":0.01,"ours":1.0"#,
            r#","relation":"≥","paper":1.0,"tolerance":0.01,"ours":0.9999999"#,
            r#","relation":"≤","paper":1.0,"tolerance":0.01,"ours":0.9"#,
            r#","relation":"=","paper":1.0,"tolerance":0.01,"ours":0.994"#,
            r#","relation":"range","paper":1.1,"paper_high":1.2,"tolerance":0.05,"ours":1.15"#,
        ] {
            assert_eq!(slack(none), None, "{none}");
        }
        let missed = ClaimRecord { verdict: Verdict::NotReproduced, ..claim(least) };
        assert_eq!(slack_text(&missed), None, "the verdict says that it is missed");
    }

    #[test]
    fn intervals_that_say_no_more_are_left_out() {
        let interval = |more| interval_text(&claim(more));
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
            all.map(look),
            [
                ("reproduced", "✓", "perforated"),
                ("same direction", "≈", "bitmap"),
                ("not reproduced", "✗", "hole"),
            ]
        );
    }

    #[test]
    fn a_miss_is_from_the_nearer_end_and_of_the_papers_number() {
        let miss = |more: &str| super::miss(&claim(more)).map(|miss| (miss * 1000.0).round());
        for (more, expected) in [
            (r#","paper":1.5,"ours":1.4"#, Some(200.0)),
            (r#","paper":0.5,"ours":0.6"#, Some(200.0)),
            (r#","paper":1.2,"paper_high":1.4,"ours":1.5"#, Some(250.0)),
            (r#","paper":1.2,"paper_high":1.4,"ours":1.1"#, Some(500.0)),
            (r#","paper":1.0,"ours":1.1"#, None),
            (r#","paper":1.2"#, None),
            (r#","ours":1.2"#, None),
        ] {
            assert_eq!(miss(more), expected, "{more}");
        }
        let band =
            |more: &str| super::band(&claim(more)).map(|(low, high)| (low.round(), high.round()));
        for (more, expected) in [
            (
                r#","paper":1.2,"paper_high":1.4,"relation":"range","over":"every""#,
                Some((20.0, 40.0)),
            ),
            (r#","paper":1.2,"paper_high":1.4,"relation":"range","over":"mean""#, None),
            (r#","paper":1.2,"relation":"range","over":"every""#, None),
            (r#","paper":1.2,"relation":"=","over":"mean""#, Some((20.0, 20.0))),
            (r#","paper":1.2,"relation":"=","over":"geometric-mean""#, Some((20.0, 20.0))),
            (r#","paper":1.2,"relation":"=","over":"every""#, None),
            (r#","paper":1.2,"relation":"≥","over":"mean""#, None),
            (r#","paper":1.2,"relation":"=""#, None),
            (r#","relation":"=","over":"mean""#, None),
        ] {
            assert_eq!(band(more), expected, "{more}");
        }
        for (more, expected) in [
            (r#","paper":1.2,"paper_high":1.4,"relation":"=""#, "+20.0 % to +40.0 %"),
            (r#","paper":1.2,"paper_high":1.4,"relation":"""#, "+20.0 % to +40.0 %"),
            (r#","paper":1.2,"paper_high":1.4,"relation":"≤""#, "≤ +20.0 %"),
            (r#","paper":1.2,"relation":"range""#, "+20.0 %"),
        ] {
            assert_eq!(paper_text(&claim(more)), expected, "{more}");
        }
        assert_eq!(ours_text(&claim(r#","ours":1.5,"ours_least":1.1"#)), "+50.0 %");
    }
}
