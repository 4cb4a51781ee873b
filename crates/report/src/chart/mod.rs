//! Charts as Vega-Lite specifications with their data.
//!
//! Colours are the page's CSS variables, so that one picture serves light and dark ground and paper.
//! The page's script sets `width`, at most `usermeta.widest`, makes switches of `usermeta.legend`, and
//! adds two parameters: `room`, the width in pixels, and `hidden`, the series that are switched off.

mod areas;
mod bars;
mod dots;
mod heat;
mod holes;
mod lines;
mod memory_map;
mod stacks;
mod tornado;
mod waterfall;

use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use areas::{Areas, Sample, changes, furthest};
pub(crate) use bars::{Band, Bars};
pub(crate) use dots::Dots;
pub(crate) use heat::{Heat, HeatCell};
pub(crate) use holes::holes;
pub(crate) use lines::{Ground, Lines};
pub(crate) use memory_map::{CellRun, Maps, Picture, coarse, common_scale, inner_squares};
pub(crate) use stacks::Stacks;
pub(crate) use tornado::{Swing, Tornado};
pub(crate) use waterfall::{Side, Waterfall};

use crate::palette;

/// Vega-Lite configuration that all charts share: fonts, axes, legends.
pub(crate) fn config() -> Value {
    serde_json::from_str(include_str!("config.json")).expect("the file is JSON")
}

/// A specification from its template, in which the texts that `values` name stand for values.
fn filled(template: &str, values: &[(&str, Value)]) -> Value {
    fn fill(node: Value, values: &[(&str, Value)]) -> Value {
        let value = |text: &str| values.iter().find(|(name, _)| *name == text);
        match node {
            Value::String(text) => {
                value(&text).map_or_else(|| text.clone().into(), |(_, value)| value.clone())
            }
            Value::Array(items) => items.into_iter().map(|item| fill(item, values)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, item)| (name, fill(item, values))).collect()
            }
            other => other,
        }
    }
    fill(serde_json::from_str(template).expect("templates are JSON"), values)
}

/// One series: a curve, a part of a stack, a class of memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    /// Name in the results.
    pub key: String,
    /// Label in legends and tooltips.
    pub label: String,
    /// Palette name of the series' colour.
    pub colour: &'static str,
    /// Number among the curves of an experiment, from which dashes and shapes follow.
    pub number: usize,
    /// Number of earlier series with the same colour; the filling of bars depends on it.
    pub round: usize,
}

/// One value of a chart.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Mark {
    /// Place on an axis of names, or on one of numbers.
    pub place: String,
    pub x: Option<f64>,
    /// Label of its series.
    pub series: String,
    pub value: Option<f64>,
    /// Ends of the value's interval or range.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Value and interval as a reader sees them.
    pub text: String,
    pub interval: String,
    /// The value alone, where there is no room for more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub brief: String,
    /// Number of a paper for this value.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Claimed>,
}

impl Mark {
    /// The shortest text for the value.
    fn briefly(&self) -> &str {
        if self.brief.is_empty() { &self.text } else { &self.brief }
    }
}

/// A paper's number beside a value, and how far the value depends on what the paper leaves open.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Claimed {
    pub paper: f64,
    pub open_low: Option<f64>,
    pub open_high: Option<f64>,
    /// Paper's number and open range as a reader sees them.
    pub paper_text: String,
    pub open_text: String,
}

/// Layers that draw what papers have: a line over what they leave open, and a diamond. `value` makes
/// the encoding of a field on the axis of values, which is `x` or `y`.
fn claimed(channel: &str, value: impl Fn(&str) -> Value) -> [Value; 2] {
    let ends =
        json!({(channel): value("open_low"), (format!("{channel}2")): {"field": "open_high"}});
    let mut diamond = json!({"tooltip": [
        {"field": "series", "title": "what"},
        {"field": "paper_text", "title": "paper"},
        {"field": "text", "title": "ours"},
        {"field": "open_text", "title": "over what is left open"},
    ]});
    diamond[channel] = value("paper");
    let ink = json!({"value": "var(--ink)"});
    let mut line = ends;
    line["color"] = ink.clone();
    diamond["stroke"] = ink;
    diamond["fill"] = json!({"value": "var(--card)"});
    // What all layers of a chart share has a colour in some, which these two leave nothing to do.
    diamond["color"] = Value::Null;
    [
        json!({
            "transform": [{"filter": "isValid(datum.open_low)"}],
            "mark": {"type": "rule", "strokeWidth": 3.5, "opacity": 0.35}, "encoding": line,
        }),
        json!({
            "transform": [{"filter": "isValid(datum.paper)"}],
            "mark": {"type": "point", "shape": "diamond", "size": 50, "strokeWidth": 1.3, "opacity": 1},
            "encoding": diamond,
        }),
    ]
}

/// Label and unit of an axis of numbers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Axis<'a> {
    /// Title of the axis; empty for an axis without title.
    pub label: &'a str,
    /// Unit behind each number.
    pub suffix: &'static str,
}

impl Axis<'_> {
    fn title(&self) -> Value {
        if self.label.is_empty() { Value::Null } else { json!(spoken(&fit(self.label, 60))) }
    }

    /// Labels have 80 pixels each; `aside` are taken by other things.
    fn spec(&self, aside: usize) -> Value {
        let ticks = format!("clamp(floor((room - {aside}) / 80), 1, 6)");
        json!({
            "labelExpr": number("datum.value", self.suffix), "labelOverlap": false,
            "tickCount": {"expr": ticks},
        })
    }

    /// Specification of the axis at the left of a chart.
    fn upright(&self) -> Value {
        let mut axis = self.spec(0);
        axis["tickCount"] = 4.into();
        axis
    }
}

/// A title without the letters that Vega-Lite cannot take in one: it makes each a part of an expression,
/// in which it escapes quotes but neither backslashes nor line separators.
fn spoken(title: &str) -> String {
    title.replace('\\', "\u{2216}").replace(['\u{2028}', '\u{2029}'], " ")
}

/// Greatest odd factor of a number that is written with units of 1024.
const GREATEST_ODD: u64 = 15;

/// True of numbers that a reader counts in powers of two, such as 64, 1,536 and 131,072.
fn are_binary(mut numbers: impl Iterator<Item = f64>) -> bool {
    let is_binary = |number: f64| {
        let whole = number as u64;
        let odd = whole >> whole.trailing_zeros().min(63);
        whole as f64 == number && odd <= GREATEST_ODD
    };
    numbers.all(is_binary)
}

/// An expression that writes a number in units of 1024 if it is so many: 128k is 131,072, but 1536 stays.
/// Only counts and sizes in MB are written so; others as [`number`] has them.
fn binary(value: &str, suffix: &str) -> String {
    let units: &[&str] = match suffix {
        "" => &["", "k", "M", "G", "T"],
        "M" => &["M", "G", "T"],
        _ => return number(value, suffix),
    };
    let write = |power: usize| {
        let (size, unit) = (1_u64 << (10 * power), units[power]);
        format!("format({value} / {size}, '.4~r') + '{unit}'")
    };
    let steps = (1..units.len()).rev();
    let steps = steps.map(|power| {
        let size = 1_u64 << (10 * power);
        format!("abs({value}) >= {size} && {value} % {size} == 0 ? {} : ", write(power))
    });
    steps.collect::<String>() + &write(0)
}

/// An expression that writes a number with up to four digits; large ones are shortened (20k, 1.5M).
fn number(value: &str, suffix: &str) -> String {
    let size = format!("abs({value})");
    let form = format!(
        "{size} >= 1e15 || {size} < 1e-4 && {size} > 0 ? '.2~e' : {size} < 1e4 ? '.4~r' : '.3~s'"
    );
    format!("format({value}, {form}) + '{suffix}'")
}

/// Keeps the series that are not switched off.
fn visible() -> Value {
    json!({"filter": "indexof(hidden, datum.series) < 0"})
}

fn labels(series: &[Series]) -> Vec<&str> {
    series.iter().map(|one| one.label.as_str()).collect()
}

/// The colours of series.
fn colour(series: &[Series]) -> Value {
    let colours: Vec<String> = series.iter().map(|one| palette::css(one.colour)).collect();
    json!({
        "field": "series", "type": "nominal",
        "scale": {"domain": labels(series), "range": colours},
    })
}

/// Entries from which the page's script makes a legend, if there are several series: labels, colours
/// and signs. A saved picture has Vega's legend.
fn legend<'s>(series: &'s [Series], sign: impl Fn(&'s Series) -> Value) -> Value {
    let item = |one: &'s Series| json!({"label": one.label, "colour": palette::css(one.colour), "sign": sign(one)});
    if series.len() < 2 { json!([]) } else { series.iter().map(item).collect() }
}

/// An axis of names in this order, which may be broken into two lines; `gap` is the share of its
/// room that a name leaves free.
fn names(names: &[String], gap: f64) -> Value {
    json!({
        "field": "place", "type": "nominal", "title": null,
        "scale": {"domain": names, "paddingInner": gap, "paddingOuter": gap / 2.0},
        "axis": {
            "labelExpr": "split(datum.value, '\\n')", "labelColor": "var(--ink)",
            "labelFontSize": 12.5, "labelLimit": 150, "labelOverlap": false, "ticks": false,
            "domain": false,
            "labelOffset": {"condition": {"test": "indexof(datum.value, '\\n') > 0", "value": -6}, "value": 0},
        },
    })
}

/// Pixels that names of places and values beside bars take.
const NAMES: usize = 210;

/// A name in one line, or in two where it is long.
pub(crate) fn broken(name: &str) -> String {
    const WIDTH: usize = 21;
    let options =
        textwrap::Options::new(WIDTH).word_separator(textwrap::WordSeparator::Custom(pieces));
    let lines = textwrap::wrap(name, options);
    match lines.as_slice() {
        [first, second, _, ..] => format!("{first}\n{}…", fit(second, WIDTH - 1)),
        all => all.join("\n"),
    }
}

/// Pieces of a name, which may be broken after hyphens, plus signs and spaces.
pub(crate) fn pieces(line: &str) -> Box<dyn Iterator<Item = textwrap::core::Word<'_>> + '_> {
    Box::new(line.split_inclusive(['-', '+', ' ']).map(textwrap::core::Word::from))
}

/// A text of at most so many characters.
fn fit(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Tooltip of a mark. Vega-Lite makes titles part of expressions, in which not every name is valid.
fn tooltip(place: &str, place_field: &str) -> Value {
    let field = |field: &str, title: &str| json!({"field": field, "title": title});
    let is_plain = |letter: char| letter.is_alphanumeric() || " ,()%÷/+-".contains(letter);
    let place = if !place.is_empty() && place.chars().all(is_plain) { place } else { "at" };
    json!([
        field(place_field, place),
        field("series", "series"),
        field("text", "value"),
        field("interval", "interval"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_told_from_other_numbers() {
        let told = |numbers: &[f64]| are_binary(numbers.iter().copied());
        assert!(told(&[0.0, 1.0, 64.0, 768.0, 1536.0, 5120.0, 131_072.0]));
        for other in [1000.0, 10_000.0, 64_000.0, 131_071.0, 0.5, -1.0, 1e300, f64::NAN] {
            assert!(!told(&[64.0, other]), "{other}");
        }
    }

    #[test]
    fn long_names_take_two_lines() {
        assert_eq!(broken("thp"), "thp");
        assert_eq!(broken("perforated-on-demand-x"), "perforated-on-demand-\nx");
        let long = broken("a workload with a very long name of many words");
        assert_eq!(long.lines().count(), 2, "{long}");
        assert!(long.ends_with('…'), "{long}");
    }

    /// Numbers are shortened only if they are multiples of a unit: 64k for 65,536, but 65,537.
    #[test]
    fn units_of_1024_are_for_their_multiples() {
        assert_eq!(
            binary("v", "M"),
            "abs(v) >= 1048576 && v % 1048576 == 0 ? format(v / 1048576, '.4~r') + 'T' : \
             abs(v) >= 1024 && v % 1024 == 0 ? format(v / 1024, '.4~r') + 'G' : \
             format(v / 1, '.4~r') + 'M'"
        );
        let units = |suffix: &str| binary("v", suffix).matches(" ? ").count();
        assert_eq!([units(""), units("M")], [4, 2]);
    }
}
