//! Writing SVG: escaped text, finite numbers, colours by class with a light default.

use crate::format::escape;
use crate::palette;

use super::WIDTH;

/// A picture under construction.
pub(crate) struct Svg {
    body: String,
}

/// Where a text is anchored.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Look of a text.
#[derive(Clone, Copy)]
pub(crate) enum Ink {
    Strong,
    Plain,
    Muted,
    /// A value that may stand on a line.
    Value,
}

/// A length in chart units with at most two decimals; 0 for anything not finite.
pub(crate) fn length(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" || text.is_empty() { "0".to_string() } else { text.to_string() }
}

/// Estimated width of a text in chart units; wide enough for common sans-serif fonts.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let units = |character: char| match character {
        'i' | 'l' | 'j' | '.' | ',' | ' ' | '\'' => 0.32,
        't' | 'f' | 'r' | '-' | '(' | ')' => 0.41,
        'm' | 'w' | 'M' | 'W' | '%' | '÷' | '×' => 0.92,
        character if character.is_ascii_uppercase() => 0.71,
        character if character.is_ascii() => 0.63,
        _ => 0.9,
    };
    text.chars().map(units).sum::<f64>() * size
}

/// Text shortened to an estimated width.
pub(crate) fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_string();
    }
    let mut short = String::new();
    for character in text.chars() {
        short.push(character);
        if text_width(&short, size) + 0.9 * size > width {
            short.pop();
            break;
        }
    }
    short.push('…');
    short
}

/// A name in one line, or in two where it is long and can be broken after a hyphen.
pub(crate) fn two_lines(text: &str, size: f64, width: f64) -> Vec<String> {
    if text_width(text, size) <= width {
        return vec![text.to_string()];
    }
    let breaks = text.match_indices(['-', '+', ' ']).map(|(place, _)| place + 1);
    let wider = |place: usize| {
        text_width(&text[..place], size).max(text_width(text[place..].trim_end(), size))
    };
    match breaks.min_by(|&a, &b| wider(a).total_cmp(&wider(b))) {
        Some(place) => {
            [&text[..place], &text[place..]].map(|line| fit(line.trim(), size, width)).to_vec()
        }
        None => vec![fit(text, size, width)],
    }
}

impl Svg {
    pub fn new() -> Self {
        Self { body: String::new() }
    }

    /// Adds ready-made markup.
    pub fn raw(&mut self, markup: &str) {
        self.body.push_str(markup);
    }

    /// Writes a tick's label below `x`, moved aside where it would leave the chart.
    pub fn tick_label(&mut self, x: f64, y: f64, size: f64, text: &str) {
        let half = (text_width(text, size) / 2.0).min(WIDTH / 2.0);
        self.text(x.clamp(half, WIDTH - half), y, size, Anchor::Middle, Ink::Muted, text);
    }

    pub fn text(&mut self, x: f64, y: f64, size: f64, anchor: Anchor, ink: Ink, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (class, fill, weight) = match ink {
            Ink::Strong => ("ink", "#1b2128", " font-weight=\"600\""),
            Ink::Plain => ("ink", "#1b2128", ""),
            Ink::Muted => ("muted", "#5a6570", ""),
            Ink::Value => (
                "ink value",
                "#1b2128",
                " font-weight=\"600\" paint-order=\"stroke\" stroke=\"#fff\" stroke-width=\"4\" stroke-linejoin=\"round\"",
            ),
        };
        self.body.push_str(&format!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{anchor}\" fill=\"{fill}\"{weight}>{}</text>",
            length(x), length(y), length(size), escape(text)
        ));
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let stroke = match class {
            "grid" => "stroke=\"#e1e6eb\" stroke-width=\"1\"",
            "reference" => "stroke=\"#5a6570\" stroke-width=\"1.2\" stroke-dasharray=\"4 3\"",
            "whisker" => "stroke=\"#1b2128\" stroke-width=\"1.4\"",
            _ => "stroke=\"#9aa5b0\" stroke-width=\"1\"",
        };
        self.body.push_str(&format!(
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {stroke}/>",
            length(from.0),
            length(from.1),
            length(to.0),
            length(to.1)
        ));
    }

    /// A filled rectangle; `tip` is what a reader sees when pointing at it.
    pub fn bar(
        &mut self,
        colour: &str,
        place: (f64, f64),
        size: (f64, f64),
        radius: f64,
        data: &str,
        tip: &str,
    ) {
        self.body.push_str(&format!(
            "<rect class=\"f-{colour}\" fill=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"{data}><title>{}</title></rect>",
            palette::light(colour), length(place.0), length(place.1), length(size.0.max(0.0)),
            length(size.1.max(0.0)), length(radius), escape(tip)
        ));
    }

    /// The whole picture, `height` units high.
    pub fn finish(self, height: f64, title: &str, data: &str) -> String {
        self.finish_sized(WIDTH, height, title, data)
    }

    /// The whole picture, `width` × `height` units.
    pub fn finish_sized(self, width: f64, height: f64, title: &str, data: &str) -> String {
        format!(
            "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 {} {}\" aria-label=\"{}\" font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\"{data}>{}</svg>",
            length(width),
            length(height),
            escape(title),
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_finite_and_short() {
        assert_eq!(length(1.0 / 3.0), "0.33");
        assert_eq!(length(-0.0001), "0");
        assert_eq!(length(f64::NAN), "0");
        assert_eq!(length(f64::INFINITY), "0");
        assert_eq!(length(120.0), "120");
    }

    #[test]
    fn long_labels_are_cut_to_their_room() {
        let short = fit("perforated-with-a-very-long-name", 13.0, 100.0);
        assert!(short.ends_with('…') && text_width(&short, 13.0) <= 101.0, "{short}");
        assert_eq!(fit("thp", 13.0, 100.0), "thp");
        assert_eq!(two_lines("perforated-on-demand", 13.0, 110.0), ["perforated-", "on-demand"]);
        assert_eq!(two_lines("thp", 13.0, 110.0), ["thp"]);
    }
}
