//! Measurement of advice, beside its prediction.

use maud::{Markup, html};
use perforate_records::{AdviceRecord, GainRatio, Judgement, Verification, VerifiedArea};

use crate::format::{bytes, percent};
use crate::html::{Cell, Grid, Heading};

/// Returns the section of a page; empty if nothing was measured.
pub(super) fn page(record: &AdviceRecord) -> Markup {
    let Some(found) = &record.verification else { return html! {} };
    let rows = [("measured", Some(found.measured)), ("predicted", found.predicted)];
    let of = |value: fn(&GainRatio) -> f64| {
        move |(_, ratio): &(&str, Option<GainRatio>)| {
            Cell::value(ratio.as_ref().map(value), |value| format!("{value:.3}"))
        }
    };
    let (ratio, low, high) = (of(|one| one.ratio), of(|one| one.low), of(|one| one.high));
    let ratios = Grid::of(
        rows,
        [
            ("".into(), &|(name, _): &(&str, Option<GainRatio>)| Cell::text(name)),
            ("as it is ÷ with advice".into(), &ratio),
            ("least".into(), &low),
            ("largest".into(), &high),
        ],
    );
    let share = |&(index, _): &(usize, &VerifiedArea), is_advised| {
        let pages = found.pages(is_advised, index);
        Cell::value((pages.resident_bytes > 0).then(|| pages.large_share()), percent)
    };
    let areas = Grid::of(
        found.areas.iter().enumerate(),
        [
            ("area".into(), &|(_, area): &(usize, &VerifiedArea)| Cell::text(&area.name)),
            (Heading::with_unit("resident", "bytes"), &|&(index, _)| {
                Cell::value(Some(found.pages(true, index).resident_bytes as f64), bytes)
            }),
            ("large as it is".into(), &|area| share(area, false)),
            ("large with advice".into(), &|area| share(area, true)),
        ],
    );
    html! {
        p.lead { (judgement(found)) }
        (ratios.scrolling("Measured and predicted", "main"))
        (areas.scrolling("Pages of the measured runs", "main"))
    }
}

/// Returns the judgement in a sentence.
fn judgement(found: &Verification) -> String {
    let runs = found.runs.len();
    let judged = match found.judgement {
        Some(Judgement::Right) => " The verdict of the prediction is right.",
        Some(Judgement::Wrong) => " The verdict of the prediction is wrong.",
        Some(Judgement::WithinError) => " Prediction and measurement agree within their errors.",
        None => "",
    };
    let error = found.effect_error.map_or_else(String::new, |error| {
        format!(" The effect is off by {} of the measured one.", percent(error))
    });
    format!("{runs} runs in turns, as it is and with the recommended pages.{judged}{error}")
}
