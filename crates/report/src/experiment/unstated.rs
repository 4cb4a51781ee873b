//! Sensitivity of our values to parameters that the papers do not state.

use perforate_records::{ClaimRecord, ExperimentRecord, PartRange, Reading, Show, UnstatedRange};
use perforate_types::counted;

use super::claim::paper_text;
use super::show::Written;
use crate::chart::{Axis, Swing, Tornado, broken};
use crate::html::{Cell, Figure, Grid};

/// Returns the words for a reading: whether a claim holds with the default parameters, with some plausible
/// ones, or with none.
fn reading_text(reading: Reading) -> &'static str {
    match reading {
        Reading::AtTheDefault => "at the default",
        Reading::InsideTheRange => "inside the range",
        Reading::InNone => "in no plausible reading",
    }
}

/// Maximum number of bars in a chart. Parameters with less effect appear only in the data table.
const MOST_BARS: usize = 8;

/// Returns a claim's smallest and largest value over the alternative values of one parameter. `default` is
/// the value with the default parameters, which counts as well.
fn ends(part: &PartRange, default: f64) -> (f64, f64) {
    let values = part.values.iter().filter_map(|(_, value)| *value);
    values.fold((default, default), |(low, high), value| (low.min(value), high.max(value)))
}

fn has_effect(part: &PartRange, default: f64, show: Show) -> bool {
    let (low, high) = ends(part, default);
    show.text(low) != show.text(high)
}

/// Summarises the sensitivity of a claim's value, as in “+32.0 % to +74.0 % over 43 readings of what is left
/// open: inside the range; most by MSHRs of the L1D (+32.0 % to +64.0 %), …”.
pub(super) fn text(range: &UnstatedRange, show: Show) -> String {
    let (least, greatest) = (show.text(range.least), show.text(range.greatest));
    let mut text = format!(
        "{least} to {greatest} over {} of what is left open: {}",
        counted(range.variants, "reading"),
        reading_text(range.reading)
    );
    let Some(default) = range.default else { return text };
    let parts = range.parts.iter().filter(|part| has_effect(part, default, show));
    let decided: Vec<String> = parts
        .take(2)
        .map(|part| {
            let (low, high) = ends(part, default);
            format!("{} ({} to {})", part.name, show.text(low), show.text(high))
        })
        .collect();
    if !decided.is_empty() {
        text += &format!("; most by {}", decided.join(", "));
    }
    text
}

/// Returns a chart for each claim whose value depends on unstated parameters, with the range of the value for
/// each parameter. `id` is the prefix of the charts' anchors.
pub(super) fn figures(result: &ExperimentRecord, id: &str) -> Vec<Figure> {
    let claims = result.claims.iter().enumerate();
    let figures = claims.filter_map(|(number, claim)| {
        figure(result, claim, claim.unstated.as_ref()?, &format!("{id}-open-{number}"))
    });
    figures.collect()
}

fn figure(
    result: &ExperimentRecord,
    claim: &ClaimRecord,
    range: &UnstatedRange,
    id: &str,
) -> Option<Figure> {
    let (default, show) = (range.default?, claim.show);
    let parts = range.parts.iter().filter(|part| has_effect(part, default, show));
    let swing = |part: &PartRange| {
        let (low, high) = ends(part, default);
        let value = |(value, ours): &(String, Option<f64>)| {
            format!("{value}: {}", show.text_or_missing(*ours))
        };
        Swing {
            place: broken(&part.name),
            low: show.shown(low),
            high: show.shown(high),
            values: part.values.iter().map(value).collect::<Vec<_>>().join("; "),
        }
    };
    let swings: Vec<Swing> = parts.take(MOST_BARS).map(swing).collect();
    if swings.is_empty() {
        return None;
    }
    let tornado = Tornado {
        swings,
        value: Axis { label: "", suffix: show.notation().suffix },
        default: show.shown(default),
        reference: claim.paper.map(|paper| show.shown(paper)),
    };
    Some(Figure {
        id: id.to_owned(),
        name: format!("{} {} left open", result.experiment, claim.id),
        title: format!("{}: {}", claim.id, claim.statement),
        caption: format!(
            "What is left open, one at a time, against our number ({}, line) and the paper's ({}, \
             dashed). Many together: {} to {}.",
            show.text(default),
            paper_text(claim),
            show.text(range.least),
            show.text(range.greatest),
        ),
        data: data(range, show),
        chart: tornado.spec(),
    })
}

/// Returns a table of the claim's value for every plausible value of every unstated parameter.
fn data(range: &UnstatedRange, show: Show) -> Grid {
    let values = range.parts.iter().flat_map(|part| part.values.iter().map(move |one| (part, one)));
    Grid::of(
        values,
        [
            ("left open".into(), &|(part, _)| Cell::text(&part.name)),
            ("value".into(), &|(part, (value, _))| Cell::prose(value, &part.reason)),
            (show.heading("ours"), &|(_, (_, ours))| show.cell(*ours)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_words() {
        let range: UnstatedRange = serde_json::from_str(
            r#"{"default":1.64,"least":1.32,"greatest":1.74,"variants":43,"reproduced":7,
                "reading":"inside_the_range","parts":[
                {"name":"MSHRs","reason":"r","values":[["8",1.42],["16",1.5]]},
                {"name":"no matter","reason":"r","values":[["1",1.64]]}]}"#,
        )
        .unwrap();
        assert_eq!(
            text(&range, Show::Gain),
            "+32.0 % to +74.0 % over 43 readings of what is left open: inside the range; most by \
             MSHRs (+42.0 % to +64.0 %)"
        );
        let parts = range.parts[1..].to_vec();
        let text = text(&UnstatedRange { parts, ..range }, Show::Gain);
        assert!(text.ends_with("of what is left open: inside the range"), "{text}");
    }
}
