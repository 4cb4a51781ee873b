//! One colour for one meaning, on every chart, in light and in dark.
//!
//! Hues are those of Okabe and Ito, which people with colour-vision deficiencies tell apart; the
//! levels of a walk are one hue in four lightnesses. Charts never rely on colour alone: segments
//! are separated by gaps, and every value stands in the table below its chart.

use perforate_records::Vocabulary;

use crate::degrees::{Degree, degrees};

/// Name of a colour, with its value on light and on dark ground.
pub(crate) struct Colour {
    pub name: &'static str,
    pub light: &'static str,
    pub dark: &'static str,
}

const fn colour(name: &'static str, light: &'static str, dark: &'static str) -> Colour {
    Colour { name, light, dark }
}

/// All colours of the charts.
pub(crate) const COLOURS: &[Colour] = &[
    // Kinds of TLB entries, and the schemes named after them.
    colour("page-4k", "#56b4e9", "#56b4e9"),
    colour("coalesced", "#8fd0c8", "#3f8f86"),
    colour("page-2m", "#0072b2", "#2b8fd0"),
    colour("page-1g", "#22303c", "#d5dde5"),
    colour("layout", "#5b7f2b", "#9cc46a"),
    colour("scripted", "#8f4fa3", "#c08ad0"),
    colour("perforated", "#009e73", "#12b886"),
    colour("hole", "#d55e00", "#e8741b"),
    colour("bitmap", "#e69f00", "#f0b429"),
    colour("empty", "#e4e8ec", "#2b323a"),
    colour("ideal", "#8a949e", "#9aa5b0"),
    colour("free", "#c4ccd4", "#59636d"),
    colour("other", "#6b7681", "#aab4be"),
    // Gap-tolerant superpages: single entries are one hue, paired ones another.
    colour("gt-pde-4m", "#7a3e00", "#d9a066"),
    colour("gt-pde-2m", "#c26a00", "#e8892b"),
    colour("gt-pde-1m", "#e6a532", "#f5c26b"),
    colour("gt-pde-process", "#9c8f2e", "#d8cc6a"),
    colour("gt-pde-native", "#4a2500", "#f0c9a0"),
    colour("p-gt-pde-4m", "#8c1f66", "#d86bb3"),
    colour("p-gt-pde-2m", "#d064a8", "#f0a6d4"),
    // Levels of a walk.
    colour("level4", "#dcd6f0", "#3f3763"),
    colour("level3", "#b7abdf", "#5f5394"),
    colour("level2", "#8a78c4", "#8a78c4"),
    colour("level1", "#5b4699", "#b9abe8"),
    colour("shadow", "#cc79a7", "#d98bb5"),
    // The same of the host.
    colour("host-level4", "#cfe9e6", "#1f4a48"),
    colour("host-level3", "#93cdc8", "#2f6f6b"),
    colour("host-level2", "#4ba39d", "#4ba39d"),
    colour("host-level1", "#14635f", "#9adcd6"),
    colour("host-shadow", "#8c3b6b", "#a85a8a"),
    colour("host-hole", "#f3ac80", "#a8521f"),
    colour("host-bitmap", "#a87900", "#caa53a"),
    // Where else translation cycles go.
    colour("tlb", "#7d8a97", "#8b98a5"),
    colour("bitmap-lookup", "#f7d488", "#8f6f1e"),
    colour("intermediate", "#5f7a8c", "#8fb0c4"),
    colour("nested-tlb", "#93a05c", "#a9b670"),
    colour("segment", "#a3354c", "#e0657d"),
    colour("selection", "#4f6d2f", "#7fa04f"),
    colour("walk-cache", "#bcc5cd", "#56616c"),
    colour("queue", "#3a3f45", "#e3e7eb"),
    colour("wait", "#99794b", "#b9976a"),
    // The cycle stack beside translation: the core, and caches from near to far in one hue.
    colour("core", "#e4e8ec", "#39424c"),
    colour("branch", "#c9b8a4", "#7d6b55"),
    colour("cache1", "#e9f0d8", "#39432a"),
    colour("cache2", "#cfdfae", "#566638"),
    colour("cache3", "#adc67a", "#77904a"),
    colour("cache4", "#7f9f45", "#a0bf66"),
    colour("mshr", "#55702a", "#cfe3a4"),
    colour("stores", "#c7a4b5", "#7d5468"),
    colour("shootdown", "#7d1f3a", "#f0a3b8"),
    colour("idle", "#f6f7f9", "#20262c"),
    colour("walk-mshr", "#2c1a57", "#e6defc"),
    // Parts of a page or of memory.
    colour("in-place", "#cfe8df", "#1c4a3c"),
    colour("touched", "#0072b2", "#2b8fd0"),
    colour("untouched", "#b9d9ec", "#1d4a66"),
    // Classes of 2MB blocks.
    colour("partly-free", "#b9d9ec", "#1d4a66"),
    colour("page-cache", "#e6c229", "#d9b92f"),
    colour("reclaimable", "#99794b", "#b9976a"),
    colour("mixed", "#9b7fb5", "#7a6296"),
    colour("unmovable", "#7a1f4b", "#f29ac4"),
    colour("retired", "#000000", "#ffffff"),
    colour("absent", "#8a949e", "#7d8a97"),
    // Cells of a matrix from best to worst, and the ink that is read on them.
    colour("heat0", "#eef6fb", "#1f2b35"),
    colour("heat1", "#d3e8f5", "#1e3d54"),
    colour("heat2", "#abd4ee", "#1f5478"),
    colour("heat3", "#80bee5", "#246c9a"),
    colour("heat4", "#539fd0", "#4f9bca"),
    colour("heat5", "#1f75ae", "#84c0e6"),
    colour("heat6", "#0b5385", "#bcdef3"),
    colour("heat-ink0", "#1b2128", "#e6ebf0"),
    colour("heat-ink1", "#1b2128", "#ffffff"),
    colour("heat-ink2", "#1b2128", "#ffffff"),
    colour("heat-ink3", "#1b2128", "#ffffff"),
    colour("heat-ink4", "#12171c", "#12171c"),
    colour("heat-ink5", "#ffffff", "#12171c"),
    colour("heat-ink6", "#ffffff", "#12171c"),
    // Curves of experiments in turn; all are lines, too, so each is seen on its ground.
    colour("series0", "#0072b2", "#4ba3e0"),
    colour("series1", "#d55e00", "#f0843c"),
    colour("series2", "#00865f", "#2fc79a"),
    colour("series3", "#b3568a", "#dd93bd"),
    colour("series4", "#a87000", "#f0b429"),
    colour("series5", "#2f8fca", "#86ccf5"),
    colour("series6", "#3a3f45", "#e3e7eb"),
    colour("series7", "#7a5195", "#b493d6"),
    // Degrees of one thing, from the least to the most.
    colour("degree-a0", "#3d94cf", "#3b78a6"),
    colour("degree-a1", "#2479b5", "#5597c9"),
    colour("degree-a2", "#145f96", "#7cb5e2"),
    colour("degree-a3", "#0b4674", "#a9d0f0"),
    colour("degree-a4", "#082d4d", "#d6e9fa"),
    colour("degree-b0", "#a06cc8", "#8a64b0"),
    colour("degree-b1", "#8550b5", "#a685cc"),
    colour("degree-b2", "#6a369c", "#c0a6e2"),
    colour("degree-b3", "#4f217d", "#d8c8f2"),
    colour("degree-b4", "#36105a", "#efe6fb"),
    // Series nobody has given a meaning yet, in turn.
    colour("extra0", "#f0e442", "#f0e442"),
    colour("extra1", "#8c564b", "#b07a6e"),
    colour("extra2", "#17807e", "#35a8a5"),
    colour("extra3", "#a05195", "#c178b8"),
];

/// The colour as charts and styles name it; the page's style sheet says what it is on its ground.
pub(crate) fn css(name: &str) -> String {
    format!("var(--c-{name})")
}

/// All colours as style rules; dark ones apply on screens only, paper is white.
pub(crate) fn rules() -> String {
    let values = |value: fn(&Colour) -> &str| -> String {
        COLOURS.iter().map(|colour| format!("--c-{}:{};", colour.name, value(colour))).collect()
    };
    let (light, dark) = (values(|colour| colour.light), values(|colour| colour.dark));
    format!(":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n")
}

/// A colour for the `index`-th series without a meaning of its own.
pub(crate) fn extra(index: usize) -> &'static str {
    ["extra0", "extra1", "extra2", "extra3"][index % 4]
}

/// Shades of a matrix's cells, `heat0` for the best to `heat6`, and of the ink on them.
pub(crate) const SHADES: usize = 7;

/// Colours for the curves of an experiment, each as different from those before as can be.
const SERIES: [&str; 8] =
    ["series0", "series1", "series2", "series3", "series4", "series5", "series6", "series7"];

/// Hues of degrees, from the least to the most.
const DEGREES: [[&str; 5]; 2] = [
    ["degree-a0", "degree-a1", "degree-a2", "degree-a3", "degree-a4"],
    ["degree-b0", "degree-b1", "degree-b2", "degree-b3", "degree-b4"],
];

/// The colour of a degree; none where there are more orders or degrees than hues.
fn of_degree(degree: Degree) -> Option<&'static str> {
    let hues = DEGREES.get(degree.order)?;
    let last = hues.len() - 1;
    (degree.count <= hues.len()).then(|| hues[degree.place * last / (degree.count - 1)])
}

/// The colours of an experiment's curves, each given as its name and its label, and how often it, or one
/// like it, was given before: a shade for one of several degrees, else that of the scheme that a curve is
/// named after, and the next of the others for curves without a meaning and for all but the first of a
/// meaning.
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
                SERIES[(next - 1) % SERIES.len()]
            })
        };
        let round = given.iter().filter(|(other, _)| are_alike(colour, other)).count();
        given.push((colour, round));
    }
    given
}

/// True if two colours are hard to tell apart on light ground.
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

/// The colour of what is named after a scheme; of a pair, that of its guest.
pub(crate) fn of_scheme(vocabulary: &Vocabulary, name: &str) -> &'static str {
    let guest = name.split('+').next().unwrap_or_default();
    vocabulary.named_after(guest).map_or("other", |scheme| known(&scheme.colour))
}

/// The value on light ground of the colour of this name.
pub(crate) fn light(name: &str) -> &'static str {
    let is_its = |colour: &&Colour| colour.name == name;
    let other = COLOURS.iter().find(|colour| colour.name == "other");
    COLOURS.iter().find(is_its).or(other).map_or("#6b7681", |colour| colour.light)
}

/// The colour of this name, if there is one.
pub(crate) fn known(name: &str) -> &'static str {
    COLOURS.iter().find(|colour| colour.name == name).map_or("other", |colour| colour.name)
}

#[cfg(test)]
mod tests {
    use perforate_types::{SchemeFacts, SchemeRole};

    use super::*;

    /// Relative luminance, as WCAG defines it.
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
            // WCAG asks for 3:1 of graphics; cards are #fff and #191f26.
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
        // One by one they grow darker on light ground, and lighter on dark ground.
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
        // Green as it is, the third of the series is too much like the colour of perforated pages.
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
