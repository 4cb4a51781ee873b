//! Measurement of advice, beside its prediction.

use maud::{Markup, html};
use perforate_records::{
    AdviceRecord, Clock, GainRatio, Judgement, Verification, VerifiedArea, Worth,
};

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
        p.lead {
            (found.runs.len()) " runs in turns, as it is and with advice. " (measured_verdict(found))
        }
        (ratios.scrolling("Measured and predicted", "main"))
        (areas.scrolling("Pages of the measured runs", "main"))
    }
}

/// Returns the measured and the predicted ratio with the judgement; or the reason why nothing was measured.
pub fn measured_verdict(found: &Verification) -> String {
    if let Some(reason) = &found.unmeasured {
        return format!("Not measured: {reason}.");
    }
    let worth = match found.measured.worth() {
        Worth::Gain => "Worth it",
        Worth::Loss => "Not worth it, a loss",
        Worth::Nothing => "Not worth it, no difference",
        Worth::Unclear => "Not clear, too much noise",
    };
    let measured = ratio(&found.measured);
    let time = clock_name(found.clock);
    let mut text = format!("{worth}: measured {measured} by {time} (as it is ÷ with advice).");
    if let (Some(predicted), Some(judgement)) = (&found.predicted, found.judgement) {
        let judged = match judgement {
            Judgement::Right => "right",
            Judgement::Wrong => "wrong",
            Judgement::WithinError => "within the error",
        };
        text += &format!(" Predicted: {}: {judged}", ratio(predicted));
        if let Some(error) = found.effect_error {
            text += &format!(", off by {:.0} % of the effect", 100.0 * error);
        }
        text += ".";
    }
    text
}

fn ratio(ratio: &GainRatio) -> String {
    let GainRatio { ratio, low, high } = ratio;
    format!("{ratio:.3}× ({low:.3} to {high:.3})")
}

/// Name of a kind of time for readers.
pub fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Processor => "processor time",
        Clock::User => "time in user mode",
        Clock::Wall => "elapsed time",
    }
}
