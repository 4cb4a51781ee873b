//! Colours of all charts. Each colour has one meaning, and a variant for light and for dark mode.
//!
//! The hues are those of Okabe and Ito, which people with colour-vision deficiencies can
//! distinguish. The levels of a page walk are one hue in four lightnesses. Charts do not depend on
//! colour alone: gaps separate segments, and the table below each chart has all values.

use std::sync::LazyLock;

use perforate_records::Vocabulary;

use crate::degrees::{Degree, degrees};

/// Name of a colour, with its values (`#rrggbb`) for light and dark mode.
pub(crate) struct Colour {
    pub name: &'static str,
    pub light: &'static str,
    pub dark: &'static str,
}

/// All colours of the charts, from `colours.txt`.
static COLOURS: LazyLock<Vec<Colour>> = LazyLock::new(|| {
    let lines = include_str!("colours.txt").lines().filter(|line| !line.starts_with('#'));
    let colour = |line: &'static str| {
        let mut words = line.split_whitespace();
        Some(Colour { name: words.next()?, light: words.next()?, dark: words.next()? })
    };
    lines.filter_map(colour).collect()
});

/// Returns a reference to the CSS variable of a colour, which the page's style sheet sets for each mode.
pub(crate) fn css(name: &str) -> String {
    format!("var(--c-{name})")
}

/// Returns CSS rules that define all colours. Dark mode applies to screens only, not to print.
pub(crate) fn rules() -> String {
    let values = |value: fn(&Colour) -> &str| -> String {
        COLOURS.iter().map(|colour| format!("--c-{}:{};", colour.name, value(colour))).collect()
    };
    let (light, dark) = (values(|colour| colour.light), values(|colour| colour.dark));
    format!(":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n")
}

/// Returns a colour for the `index`-th series whose name has no colour of its own.
pub(crate) fn extra(index: usize) -> &'static str {
    ["extra0", "extra1", "extra2", "extra3"][index % 4]
}

/// Returns a colour for the `index`-th of several curves, different for the first eight.
pub(crate) fn series(index: usize) -> &'static str {
    SERIES[index % SERIES.len()]
}

/// Number of shades of heat maps, `heat0` (best) to `heat6`, each with a text colour.
pub(crate) const SHADES: usize = 7;

/// Names of colours for curves without a colour of their own, each as different as possible from those
/// before.
const SERIES: [&str; 8] =
    ["series0", "series1", "series2", "series3", "series4", "series5", "series6", "series7"];

/// Names of the shades for curves whose labels differ in one number, from the smallest to the largest. There
/// are two hues, for two groups of such labels.
const DEGREES: [[&str; 5]; 2] = [
    ["degree-a0", "degree-a1", "degree-a2", "degree-a3", "degree-a4"],
    ["degree-b0", "degree-b1", "degree-b2", "degree-b3", "degree-b4"],
];

/// Returns the name of a label's shade; `None` if there are more groups of labels than hues, or more numbers
/// in the group than shades.
fn of_degree(degree: Degree) -> Option<&'static str> {
    let hues = DEGREES.get(degree.order)?;
    let last = hues.len() - 1;
    (degree.count <= hues.len()).then(|| hues[degree.place * last / (degree.count - 1)])
}

/// Returns the name of a colour for each curve, with the number of earlier curves of a similar colour. Curves
/// are given as (name, label). A curve whose label differs from others in one number gets a shade. Otherwise
/// it gets its scheme's colour, unless a similar one is taken. All other curves get the next free colour in
/// [`SERIES`].
pub(crate) fn of_curves<'a>(
    vocabulary: &Vocabulary,
    curves: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<(&'static str, usize)> {
    let (names, labels): (Vec<&str>, Vec<&str>) = curves.unzip();
    let mut given: Vec<(&'static str, usize)> = Vec::new();
    let mut next = 0;
    for (name, degree) in names.into_iter().zip(degrees(labels.into_iter())) {
        let degree = degree.filter(|_| vocabulary.scheme(name).is_none());
        if let Some(shade) = degree.and_then(of_degree) {
            given.push((shade, 0));
            continue;
        }
        let meant = of_scheme(vocabulary, name);
        let is_free = given.iter().all(|(other, _)| !are_alike(meant, other));
        let colour = if meant != "other" && is_free {
            meant
        } else {
            let looks_free =
                |colour: &&&str| given.iter().all(|(other, _)| !are_alike(colour, other));
            let fresh = SERIES.iter().find(looks_free);
            fresh.copied().unwrap_or_else(|| {
                next += 1;
                series(next - 1)
            })
        };
        let round = given.iter().filter(|(other, _)| are_alike(colour, other)).count();
        given.push((colour, round));
    }
    given
}

/// True if two colours are hard to distinguish in light mode.
fn are_alike(one: &str, other: &str) -> bool {
    let channels = |name: &str| {
        let colour = COLOURS.iter().find(|colour| colour.name == name);
        let light = colour.map_or("6b7681", |colour| &colour.light[1..]);
        let value = u32::from_str_radix(light, 16).unwrap_or(0);
        [value >> 16, value >> 8 & 0xff, value & 0xff]
    };
    let pairs = channels(one).into_iter().zip(channels(other));
    pairs.map(|(a, b)| a.abs_diff(b).pow(2)).sum::<u32>() < 45 * 45
}

/// Returns the name of a scheme's colour; a pair has the colour of its guest.
pub(crate) fn of_scheme(vocabulary: &Vocabulary, name: &str) -> &'static str {
    let guest = name.split('+').next().unwrap_or_default();
    vocabulary.named_after(guest).map_or("other", |scheme| known(&scheme.colour))
}

/// Returns the value (`#rrggbb`) of a colour in light mode.
pub(crate) fn light(name: &str) -> &'static str {
    let is_its = |colour: &&Colour| colour.name == name;
    let other = COLOURS.iter().find(|colour| colour.name == "other");
    COLOURS.iter().find(is_its).or(other).map_or("#6b7681", |colour| colour.light)
}

/// Looks up a colour's name in the palette; returns the name `other` if the palette has no such colour.
pub(crate) fn known(name: &str) -> &'static str {
    COLOURS.iter().find(|colour| colour.name == name).map_or("other", |colour| colour.name)
}

#[cfg(test)]
mod tests {
    use perforate_types::{SchemeFacts, SchemeRole};

    use super::*;

    /// Returns the relative luminance of a colour (`#rrggbb`), as WCAG defines it.
    fn luminance(colour: &str) -> f64 {
        let channel = |from: usize| {
            let value = f64::from(u8::from_str_radix(&colour[from..from + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (a, b) = (luminance(one) + 0.05, luminance(other) + 0.05);
        if a > b { a / b } else { b / a }
    }

    #[test]
    fn curves_are_seen_on_both_grounds() {
        let is_curve = |colour: &&Colour| {
            SERIES.contains(&colour.name) || DEGREES.as_flattened().contains(&colour.name)
        };
        for colour in COLOURS.iter().filter(is_curve) {
            // WCAG requires a contrast of 3:1 for graphics. Charts have the backgrounds #fff and #191f26.
            assert!(contrast(colour.light, "#ffffff") >= 3.0, "{}", colour.name);
            assert!(contrast(colour.dark, "#191f26") >= 3.0, "{}", colour.name);
        }
    }

    #[test]
    fn degrees_have_shades_of_one_hue() {
        let labels = ["10 % holes", "90 % holes", "50 % holes", "ideal"];
        let colours =
            of_curves(&Vocabulary::default(), labels.map(|label| ("", label)).into_iter());
        let shades: Vec<&str> = colours.iter().map(|colour| colour.0).collect();
        assert_eq!(shades, ["degree-a0", "degree-a4", "degree-a2", "series1"]);
        // Each shade is darker than the one before in light mode, and lighter in dark mode.
        for hues in DEGREES {
            let found = hues.map(|name| COLOURS.iter().find(|colour| colour.name == name).unwrap());
            assert!(found.is_sorted_by(|a, b| luminance(a.light) > luminance(b.light)));
            assert!(found.is_sorted_by(|a, b| luminance(a.dark) < luminance(b.dark)));
        }
    }

    #[test]
    fn no_two_of_a_few_curves_look_alike() {
        let scheme = |name: &'static str, colour: &'static str| SchemeFacts {
            name: name.into(),
            other_names: Vec::new(),
            colour: colour.into(),
            role: SchemeRole::Other,
            setting: None,
        };
        let schemes = vec![scheme("4k", "page-4k"), scheme("perforated", "perforated")];
        let vocabulary = Vocabulary::new(Vec::new(), schemes);
        let names = ["4k", "perforated", "perforated-90", "x", "y"];
        let colours = of_curves(&vocabulary, names.into_iter().map(|name| (name, "")));
        // The third colour for series is skipped, because it is green and too similar to the colour of
        // perforated pages.
        let names = ["page-4k", "perforated", "series0", "series1", "series3"];
        assert_eq!(colours, names.map(|name| (name, 0)));
        let many: Vec<String> = (0..20).map(|index| format!("curve {index}")).collect();
        let mut looks =
            of_curves(&Vocabulary::default(), many.iter().map(|name| (name.as_str(), "")));
        assert_eq!((looks[7], looks[8]), (("series7", 0), ("series0", 1)));
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), 20, "colour and filling together tell 20 apart");
    }
}
