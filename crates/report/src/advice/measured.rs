//! Measurement of advice, beside its prediction.

use maud::{Markup, html};
use perforate_records::{
    AdviceRecord, Clock, GainRatio, Judgement, Verification, VerifiedArea, Worth,
};

use crate::format::percent;
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
            (Heading::bytes("resident"), &|&(index, _)| {
                Cell::bytes(found.pages(true, index).resident_bytes as f64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_told_with_its_judgement() {
        let gain = |ratio, low, high| GainRatio { ratio, low, high };
        let predicted = gain(1.1, 1.05, 1.2);
        let told = |measured, judgement, effect_error, clock| {
            measured_verdict(&Verification {
                measured,
                predicted: Some(predicted),
                judgement,
                effect_error,
                clock,
                ..Verification::default()
            })
        };
        let (right, wrong) = (Some(Judgement::Right), Some(Judgement::Wrong));
        assert_eq!(
            told(gain(1.1, 1.05, 1.15), right, Some(0.125), Clock::User),
            "Worth it: measured 1.100× (1.050 to 1.150) by time in user mode (as it is ÷ with advice). Predicted: \
             1.100× (1.050 to 1.200): right, off by 12 % of the effect."
        );
        let loss = told(gain(0.9, 0.85, 0.95), wrong, None, Clock::Wall);
        assert!(loss.starts_with("Not worth it, a loss: measured 0.900×"), "{loss}");
        assert!(
            loss.contains(" by elapsed time ") && loss.ends_with("(1.050 to 1.200): wrong."),
            "{loss}"
        );
        let none = told(gain(1.0, 0.99, 1.01), None, Some(0.5), Clock::Processor);
        assert_eq!(
            none,
            "Not worth it, no difference: measured 1.000× (0.990 to 1.010) by processor time (as it is ÷ with advice)."
        );
        let noise = told(gain(1.0, 0.8, 1.2), Some(Judgement::WithinError), None, Clock::Processor);
        assert!(
            noise.starts_with("Not clear, too much noise") && noise.ends_with("within the error.")
        );
    }
}
