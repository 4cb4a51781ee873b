//! Figures of a page: each is a chart with its caption and the data that it shows.

use maud::{Markup, html};
use serde_json::Value;

use super::page::Page;
use super::table::{Grid, all};

/// Maximum number of figures of one kind that are visible at first. If there are more, all are in a closed
/// section.
const MOST_OPEN: usize = 12;

/// A chart with its caption and the data that it shows.
pub(crate) struct Figure {
    /// Anchor of the figure on the page.
    pub id: String,
    /// Name of the files to which a reader saves the figure; it is converted to a valid file name.
    pub name: String,
    pub title: String,
    pub caption: String,
    /// Vega-Lite specification of the chart.
    pub chart: Value,
    pub data: Grid,
}

impl Figure {
    /// Returns the figure's HTML. The chart and the data are added to `page`, whose script draws the chart.
    pub fn place(&self, page: &mut Page) -> Markup {
        page.add_figure(self);
        // Reserves the chart's height until it is drawn.
        let height = self.chart["height"].as_f64().unwrap_or(200.0);
        html! {
            figure id=(self.id) data-name=(file_name(&self.name)) {
                figcaption { h3 { (self.title) } p { (self.caption) } }
                div.chart role="group" tabindex="0" aria-label=(self.title) style={ "min-height:" (height) "px" }
                    aria-description="Arrow keys show the values." {}
                details.data id={ "data-" (self.id) } {
                    summary { "Data" }
                    div.scroll role="region" tabindex="0" aria-label={ "Data: " (self.title) } {}
                }
            }
        }
    }
}

/// Returns the HTML of figures that are placed side by side.
pub(crate) fn figures(figures: impl IntoIterator<Item = Figure>, page: &mut Page) -> Markup {
    html! { div.figures { (places(figures, page)) } }
}

/// Returns the HTML of figures with linked legends: a legend switches a series in all figures. If there are
/// many figures, they are in a closed section.
pub(crate) fn linked(figures: Vec<Figure>, page: &mut Page) -> Markup {
    let count = figures.len();
    let all = html! { div.figures.linked { (places(figures, page)) } };
    html! {
        @if count <= MOST_OPEN { (all) } @else {
            details.more { summary { "Show " (count) " pictures" } (all) }
        }
    }
}

pub(crate) fn places(figures: impl IntoIterator<Item = Figure>, page: &mut Page) -> Markup {
    all(figures.into_iter().map(|figure| figure.place(page)).collect::<Vec<_>>())
}

/// Converts a text to a file name of letters, digits and hyphens.
pub(crate) fn file_name(text: &str) -> String {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").to_lowercase().chars().take(80).collect();
    if name.is_empty() { "figure".to_string() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pictures_are_folded_away() {
        let pictures = |count| {
            let figure = |index: usize| Figure {
                id: index.to_string(),
                name: String::new(),
                title: String::new(),
                caption: String::new(),
                chart: Value::Null,
                data: Grid { head: Vec::new(), rows: Vec::new() },
            };
            linked((0..count).map(figure).collect(), &mut Page::default()).into_string()
        };
        assert!(pictures(12).starts_with("<div class=\"figures linked\"><figure "));
        let folded = pictures(13);
        assert!(folded.starts_with("<details class=\"more\"><summary>Show 13 pictures<"));
        assert_eq!(folded.matches("<figure").count(), 13);
    }

    #[test]
    fn file_names_are_plain() {
        assert_eq!(file_name("random L2 TLB: 4k/../x"), "random-l2-tlb-4k-x");
        assert_eq!(file_name("…"), "figure");
    }
}
