//! One colour for one meaning, on every chart, in light and in dark.
//!
//! Hues are those of Okabe and Ito, which people with colour-vision deficiencies tell apart; the
//! levels of a walk are one hue in four lightnesses. Charts never rely on colour alone: segments
//! are separated by gaps, and every value stands in the table below its chart.

/// What a colour stands for, with its value on light and on dark ground.
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
    colour("page-2m", "#0072b2", "#2b8fd0"),
    colour("page-1g", "#22303c", "#d5dde5"),
    colour("perforated", "#009e73", "#12b886"),
    colour("hole", "#d55e00", "#e8741b"),
    colour("bitmap", "#e69f00", "#f0b429"),
    colour("empty", "#e4e8ec", "#2b323a"),
    colour("ideal", "#8a949e", "#9aa5b0"),
    colour("other", "#6b7681", "#aab4be"),
    // Levels of a walk.
    colour("level4", "#dcd6f0", "#3f3763"),
    colour("level3", "#b7abdf", "#5f5394"),
    colour("level2", "#8a78c4", "#8a78c4"),
    colour("level1", "#5b4699", "#b9abe8"),
    colour("shadow", "#cc79a7", "#d98bb5"),
    // Where else translation cycles go.
    colour("tlb", "#7d8a97", "#8b98a5"),
    colour("bitmap-lookup", "#f7d488", "#8f6f1e"),
    colour("walk-cache", "#bcc5cd", "#56616c"),
    colour("queue", "#3a3f45", "#e3e7eb"),
    colour("wait", "#99794b", "#b9976a"),
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
    // Series nobody has given a meaning yet, in turn.
    colour("extra0", "#f0e442", "#f0e442"),
    colour("extra1", "#8c564b", "#b07a6e"),
    colour("extra2", "#17807e", "#35a8a5"),
    colour("extra3", "#a05195", "#c178b8"),
];

/// The colour on light ground.
pub(crate) fn light(name: &str) -> &'static str {
    COLOURS.iter().find(|colour| colour.name == name).map_or("#6b7681", |colour| colour.light)
}

/// A colour for the `index`-th series without a meaning of its own.
pub(crate) fn extra(index: usize) -> &'static str {
    ["extra0", "extra1", "extra2", "extra3"][index % 4]
}

/// The colour of a scheme: that of the pages it is named after.
pub(crate) fn of_scheme(name: &str) -> &'static str {
    let name = name.to_lowercase();
    let has = |part: &str| name.contains(part);
    match () {
        () if has("ideal") => "ideal",
        () if has("perforated") => "perforated",
        () if has("1g") => "page-1g",
        () if has("thp") || has("2m") || has("conventional") => "page-2m",
        () if has("4k") || has("base") => "page-4k",
        () => "other",
    }
}
