//! Charts as Vega-Lite specifications with their data.
//!
//! Colours are CSS variables of the page, so the same picture works in light mode, in dark mode and
//! in print. The page's script sets `width` (at most `usermeta.widest`) and makes a legend with
//! switches from `usermeta.legend`. It adds two parameters: `room`, the available width in pixels,
//! and `hidden`, the series that are switched off.

mod address_map;
mod areas;
mod bars;
mod dots;
mod heat;
mod holes;
mod lines;
mod memory_map;
mod scatter;
mod stacks;
mod tornado;
mod waterfall;

use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use address_map::{AddressMap, MapCell};
pub(crate) use areas::{Areas, Sample, changes, furthest};
pub(crate) use bars::{Band, Bars};
pub(crate) use dots::Dots;
pub(crate) use heat::{Heat, HeatCell};
pub(crate) use holes::holes;
pub(crate) use lines::{Ground, Lines};
pub(crate) use memory_map::{CellRun, Maps, Picture, coarse, common_scale, inner_squares};
pub(crate) use scatter::Scatter;
pub(crate) use stacks::Stacks;
pub(crate) use tornado::{Swing, Tornado};
pub(crate) use waterfall::{Side, Waterfall};

use crate::palette;

/// Returns the Vega-Lite configuration that all charts share: fonts, axes, legends.
pub(crate) fn config() -> Value {
    serde_json::from_str(include_str!("config.json")).expect("the file is JSON")
}

/// Builds a specification from a JSON template by replacing placeholder strings with the given
/// values.
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

/// One series of a chart: a curve, a component of a stack, or a class of memory blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    /// Name of the series in the records, such as a curve or counter.
    pub key: String,
    /// Label in legends and tooltips.
    pub label: String,
    /// Name of the series' colour in the palette.
    pub colour: &'static str,
    /// Index of the curve in its experiment, which determines its dashes and its point shape.
    pub number: usize,
    /// Number of earlier series with the same colour, which determines the opacity of bars.
    pub round: usize,
}

/// One data point of a chart.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Mark {
    /// Name of the point's place, on an axis of named places; `x` is the position on a numeric axis.
    pub place: String,
    pub x: Option<f64>,
    /// Label of the series that the point belongs to.
    pub series: String,
    pub value: Option<f64>,
    /// Lower end of the value's interval or range (`high` is the upper end); `None` if unknown.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Value as text for readers; `interval` is its interval as text.
    pub text: String,
    pub interval: String,
    /// Value as a shorter text without interval, for narrow charts; empty if `text` is short enough.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub brief: String,
    /// Published value for this point; `None` if no paper states one.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Claimed>,
}

impl Mark {
    /// Returns the shortest text for the point's value.
    fn briefly(&self) -> &str {
        if self.brief.is_empty() { &self.text } else { &self.brief }
    }
}

/// A published value for a data point, and the range of our value over parameters that the paper does not
/// state.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Claimed {
    pub paper: f64,
    pub open_low: Option<f64>,
    pub open_high: Option<f64>,
    /// Published value as text; `open_text` is the range of our value over parameters that the paper does not
    /// state.
    pub paper_text: String,
    pub open_text: String,
}

/// Returns the layers that draw published values: a line over the range of our value for plausible values of
/// unstated parameters, and a diamond for the published value. `value` encodes a field on the value axis,
/// which is `channel` (`x` or `y`).
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
    // Removes the colour encoding that some charts share among their layers.
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

/// Label and unit of a numeric axis of a chart.
#[derive(Clone, Copy, Default)]
pub(crate) struct Axis<'a> {
    /// Title of the axis; empty for none.
    pub label: &'a str,
    /// Unit that follows each number on the axis; empty for none.
    pub suffix: &'static str,
}

impl Axis<'_> {
    fn title(&self) -> Value {
        if self.label.is_empty() { Value::Null } else { json!(spoken(&fit(self.label, 60))) }
    }

    /// Returns the Vega-Lite specification of the axis with one label per 80 pixels. `aside` is the part of
    /// the chart's width, in pixels, that names and values beside the axis take.
    fn spec(&self, aside: usize) -> Value {
        let ticks = format!("clamp(floor((room - {aside}) / 80), 1, 6)");
        json!({
            "labelExpr": number("datum.value", self.suffix), "labelOverlap": false,
            "tickCount": {"expr": ticks},
        })
    }

    /// Returns the Vega-Lite specification of the axis with about four labels, for a vertical axis or a narrow
    /// chart.
    fn sparse(&self) -> Value {
        let mut axis = self.spec(0);
        axis["tickCount"] = 4.into();
        axis
    }
}

/// Replaces characters that Vega-Lite cannot have in a title. Vega-Lite makes titles part of expressions,
/// where it escapes quotes, but neither backslashes nor line separators.
fn spoken(title: &str) -> String {
    title.replace('\\', "\u{2216}").replace(['\u{2028}', '\u{2029}'], " ")
}

/// Largest odd factor of a number that is labelled in units of 1024: 1,536 = 3 × 512 is, but 1,500 = 375 × 4
/// is not.
const GREATEST_ODD: u64 = 15;

/// True if an axis with these numbers is labelled in units of 1024: all are integers with a small odd factor,
/// such as 64, 1,536 and 131,072.
fn are_binary(mut numbers: impl Iterator<Item = f64>) -> bool {
    let is_binary = |number: f64| {
        let whole = number as u64;
        let odd = whole >> whole.trailing_zeros().min(63);
        whole as f64 == number && odd <= GREATEST_ODD
    };
    numbers.all(is_binary)
}

/// Returns a Vega expression that labels multiples of 1024 with a unit: 131,072 becomes 128k, but 1500 is not
/// changed. This is for counts and sizes in MB; with any other unit it equals [`number`].
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

/// Returns a Vega expression that labels a number with up to four digits; large numbers are abbreviated (20k,
/// 1.5M).
fn number(value: &str, suffix: &str) -> String {
    let size = format!("abs({value})");
    let form = format!(
        "{size} >= 1e15 || {size} < 1e-4 && {size} > 0 ? '.2~e' : {size} < 1e4 ? '.4~r' : '.3~s'"
    );
    format!("format({value}, {form}) + '{suffix}'")
}

/// Returns the Vega-Lite filter that removes series which the reader switched off in the legend.
fn visible() -> Value {
    json!({"filter": "indexof(hidden, datum.series) < 0"})
}

fn labels(series: &[Series]) -> Vec<&str> {
    series.iter().map(|one| one.label.as_str()).collect()
}

/// Returns the Vega-Lite encoding of the series' colours.
fn colour(series: &[Series]) -> Value {
    let colours: Vec<String> = series.iter().map(|one| palette::css(one.colour)).collect();
    json!({
        "field": "series", "type": "nominal",
        "scale": {"domain": labels(series), "range": colours},
    })
}

/// Returns the entries of the page's legend: label, colour, and the dash, shape or opacity that `sign`
/// returns. Empty if there is only one series. Saved pictures have Vega's own legend instead.
fn legend<'s>(series: &'s [Series], sign: impl Fn(&'s Series) -> Value) -> Value {
    let item = |one: &'s Series| json!({"label": one.label, "colour": palette::css(one.colour), "sign": sign(one)});
    if series.len() < 2 { json!([]) } else { series.iter().map(item).collect() }
}

/// Returns the Vega-Lite encoding of a vertical axis with these names in this order. A name may contain a
/// line break. `gap` is the share of the distance between names that stays empty.
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

/// Width in pixels of a chart that the names of places, and the values to the right of bars, take.
const NAMES: usize = 210;

/// Breaks a long name into two lines; cuts off the rest.
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

/// Splits a name at hyphens, plus signs and spaces, where it may be broken.
pub(crate) fn pieces(line: &str) -> Box<dyn Iterator<Item = textwrap::core::Word<'_>> + '_> {
    Box::new(line.split_inclusive(['-', '+', ' ']).map(textwrap::core::Word::from))
}

/// Shortens a text to at most `most` characters.
fn fit(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Returns the tooltip of a data point. `place` is the title of the tooltip's line with the point's position;
/// "at" replaces a title with characters that Vega-Lite cannot have in an expression.
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

    /// Numbers are abbreviated only if they are multiples of a unit: 65,536 becomes 64k, but 65,537 is not
    /// changed.
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

    #[test]
    fn numbers_with_small_odd_factors_are_binary() {
        let told = |number: f64| are_binary([number].into_iter());
        assert_eq!(
            [15.0, 17.0, 15.0 * 1024.0, 17.0 * 1024.0].map(told),
            [true, false, true, false]
        );
        assert_eq!(binary("v", " %"), number("v", " %"), "only counts and sizes in MB");
    }

    #[test]
    fn texts_are_cut_and_broken_where_they_are_too_long() {
        let title = |length: usize| Axis { label: &"x".repeat(length), suffix: "" }.title();
        assert_eq!(title(60), json!("x".repeat(60)));
        assert_eq!(title(61), json!("x".repeat(59) + "…"));
        assert_eq!(Axis::default().title(), Value::Null);
        assert_eq!(broken("twenty-one-characters"), "twenty-one-characters");
        assert_eq!(broken("twenty-two-characters-"), "twenty-two-\ncharacters-");
        // A second line of 21 characters is cut only if there is a third.
        let (first, second) = ("a".repeat(20) + "-", "b".repeat(20) + "-");
        assert_eq!(broken(&format!("{first}{second}")), format!("{first}\n{second}"));
        assert_eq!(broken(&format!("{first}{second}c")), format!("{first}\n{}……", "b".repeat(19)));
        let titles = ["scheme (a), 1 ÷ 2 % / x+y-z", "a\"b", ""]
            .map(|place| tooltip(place, "at")[0]["title"].clone());
        assert_eq!(titles, ["scheme (a), 1 ÷ 2 % / x+y-z", "at", "at"]);
        let one = Series { label: "a".into(), ..Series::default() };
        assert_eq!(legend(std::slice::from_ref(&one), |_| Value::Null), json!([]));
        assert_eq!(legend(&[one.clone(), one], |_| Value::Null).as_array().unwrap().len(), 2);
    }
}
