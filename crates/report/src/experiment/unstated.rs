//! How far our numbers depend on what the papers leave open.

use perforate_types::counted;
use serde::Deserialize;

use super::ExperimentResult;
use super::claim::Claim;
use super::show::Show;
use crate::chart::{Axis, Swing, Tornado, broken};
use crate::html::{Cell, Figure, Grid, Heading};

/// The range of a claim's number.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Range {
    /// The number with nothing changed.
    pub default: Option<f64>,
    pub least: f64,
    pub greatest: f64,
    pub variants: usize,
    pub reading: Reading,
    /// That of the greatest effect first.
    pub parts: Vec<Part>,
}

/// Whether the claim holds in a plausible reading of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reading {
    AtTheDefault,
    InsideTheRange,
    InNone,
}

impl Reading {
    pub fn holds(self) -> bool {
        self != Self::InNone
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::AtTheDefault => "at the default",
            Self::InsideTheRange => "inside the range",
            Self::InNone => "in no plausible reading",
        }
    }
}

/// Something that is left open.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Part {
    pub name: String,
    pub reason: String,
    /// Each other value, and the number with it.
    pub values: Vec<(String, Option<f64>)>,
}

/// Most bars of a chart; what has less effect is in the data below it.
const MOST_BARS: usize = 8;

impl Part {
    /// The least and the greatest number, the default among them.
    fn ends(&self, default: f64) -> (f64, f64) {
        let values = self.values.iter().filter_map(|(_, value)| *value);
        values.fold((default, default), |(low, high), value| (low.min(value), high.max(value)))
    }

    fn has_effect(&self, default: f64, show: Show) -> bool {
        let (low, high) = self.ends(default);
        show.text(low) != show.text(high)
    }
}

impl Range {
    /// “+32.0 % to +74.0 % over 43 readings of what the paper leaves open: inside the range; decided by
    /// MSHRs of the L1D (+32.0 % to +64.0 %), …”
    pub fn text(&self, show: Show) -> String {
        let (least, greatest) = (show.text(self.least), show.text(self.greatest));
        let mut text = format!(
            "{least} to {greatest} over {} of what is left open: {}",
            counted(self.variants, "reading"),
            self.reading.text()
        );
        let Some(default) = self.default else { return text };
        let parts = self.parts.iter().filter(|part| part.has_effect(default, show));
        let decided: Vec<String> = parts
            .take(2)
            .map(|part| {
                let (low, high) = part.ends(default);
                format!("{} ({} to {})", part.name, show.text(low), show.text(high))
            })
            .collect();
        if !decided.is_empty() {
            text += &format!("; most by {}", decided.join(", "));
        }
        text
    }
}

/// A chart for each claim whose number depends on what is left open; `id` begins their anchors.
pub(super) fn figures(result: &ExperimentResult, id: &str) -> Vec<Figure> {
    let claims = result.claims.iter().enumerate();
    let figures = claims.filter_map(|(number, claim)| {
        figure(result, claim, claim.unstated.as_ref()?, &format!("{id}-open-{number}"))
    });
    figures.collect()
}

fn figure(result: &ExperimentResult, claim: &Claim, range: &Range, id: &str) -> Option<Figure> {
    let (default, show) = (range.default?, claim.show);
    let parts = range.parts.iter().filter(|part| part.has_effect(default, show));
    let swing = |part: &Part| {
        let (low, high) = part.ends(default);
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
        value: Axis { label: "", suffix: show.suffix() },
        default: show.shown(default),
        reference: claim.paper.map(|paper| show.shown(paper)),
    };
    Some(Figure {
        id: id.to_owned(),
        name: format!("{} {} left open", result.header.experiment, claim.id),
        title: format!("{}: {}", claim.id, claim.statement),
        caption: format!(
            "What is left open, one at a time, against our number ({}, line) and the paper's ({}, \
             dashed). Many together: {} to {}.",
            show.text(default),
            claim.paper_text(),
            show.text(range.least),
            show.text(range.greatest),
        ),
        data: data(range, show),
        chart: tornado.spec(),
    })
}

/// Every value of everything that is left open.
fn data(range: &Range, show: Show) -> Grid {
    let heading = |name: &str| Heading::from(name);
    let ours = show.unit().map_or_else(|| heading("ours"), |unit| Heading::with_unit("ours", unit));
    let rows = range.parts.iter().flat_map(|part| {
        part.values.iter().map(|(value, ours)| {
            vec![
                Cell::text(&part.name),
                Cell::prose(value, &part.reason),
                Cell::value(ours.map(|ours| show.shown(ours)), show.writer()),
            ]
        })
    });
    Grid { head: vec![heading("left open"), heading("value"), ours], rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_words() {
        let range: Range = serde_json::from_str(
            r#"{"default":1.64,"least":1.32,"greatest":1.74,"variants":43,"reproduced":7,
                "reading":"inside_the_range","parts":[
                {"name":"MSHRs","reason":"r","values":[["8",1.42],["16",1.5]]},
                {"name":"no matter","reason":"r","values":[["1",1.64]]}]}"#,
        )
        .unwrap();
        assert_eq!(
            range.text(Show::Gain),
            "+32.0 % to +74.0 % over 43 readings of what is left open: inside the range; most by \
             MSHRs (+42.0 % to +64.0 %)"
        );
    }
}
