//! Figures with their data, and tables.

use serde_json::Number;

use crate::comparison::Spread;
use crate::format::{MISSING, escape, exact};
use crate::palette;

/// One cell: what is shown, and the full value for sorting and for CSV.
pub(crate) struct Cell {
    shown: String,
    full: String,
    is_number: bool,
}

impl Cell {
    /// A text; what begins with spaces belongs to the row above and is indented.
    pub fn text(text: &str) -> Self {
        let inner = text.trim_start_matches(' ');
        let shown = if inner.len() < text.len() {
            format!("<span class=\"sub\">{}</span>", escape(inner))
        } else {
            escape(text)
        };
        Self { shown, full: text.to_string(), is_number: false }
    }

    /// A text of one sentence or more, which may be broken.
    pub fn prose(text: &str) -> Self {
        Self { shown: format!("<div class=\"prose\">{}</div>", escape(text)), ..Self::text(text) }
    }

    /// Prose with a remark below it.
    pub fn remarked(text: &str, remark: &str) -> Self {
        if remark.is_empty() {
            return Self::prose(text);
        }
        let shown = format!(
            "<div class=\"prose\">{}<p class=\"remark\">{}</p></div>",
            escape(text),
            escape(remark)
        );
        Self { shown, full: format!("{text} ({remark})"), is_number: false }
    }

    /// A text that leads to another place of the page.
    pub fn link(text: &str, anchor: &str) -> Self {
        let shown = format!("<a href=\"#{}\">{}</a>", escape(anchor), escape(text));
        Self { shown, full: text.to_string(), is_number: false }
    }

    /// A number as text, which is sorted by another value.
    pub fn sorted_by(shown: &str, value: Option<f64>) -> Self {
        let value = value.filter(|value| value.is_finite());
        let full = value.map_or_else(String::new, |value| value.to_string());
        Self { shown: escape(shown), full, is_number: true }
    }

    /// A counter's name, which may be broken after underscores.
    pub fn counter_name(name: &str) -> Self {
        let shown = escape(name).replace('_', "_<wbr/>");
        Self { shown, full: name.to_string(), is_number: false }
    }

    /// A scheme's name with its colour; that of a pair may be broken.
    pub fn scheme(name: &str) -> Self {
        let shown = format!(
            "<i class=\"dot f-{}\"></i>{}",
            palette::of_scheme(name),
            escape(name).replace('+', "+<wbr/>")
        );
        Self { shown, full: name.to_string(), is_number: false }
    }

    /// A word with a sign on a coloured ground.
    pub fn verdict(text: &str, sign: &str, colour: &str) -> Self {
        let shown = format!("<span class=\"verdict v-{colour}\">{sign} {}</span>", escape(text));
        Self { shown, full: text.to_string(), is_number: false }
    }

    pub fn missing() -> Self {
        Self { shown: MISSING.to_string(), full: String::new(), is_number: true }
    }

    /// A value written by `format`.
    pub fn value(value: Option<f64>, format: impl Fn(f64) -> String) -> Self {
        match value.filter(|value| value.is_finite()) {
            Some(value) => {
                Self { shown: escape(&format(value)), full: value.to_string(), is_number: true }
            }
            None => Self::missing(),
        }
    }

    /// A counter as it stands in the results.
    pub fn number(number: &Number) -> Self {
        let (shown, full) = (exact(number), number.to_string());
        let is_rounded = shown.contains('e');
        let shown =
            if is_rounded { format!("<abbr title=\"{full}\">{shown}</abbr>") } else { shown };
        Self { shown, full, is_number: true }
    }

    /// A median, with the range where there are several runs.
    pub fn spread(spread: Option<Spread>, format: impl Fn(f64) -> String) -> Self {
        let mut cell = Self::value(spread.map(|spread| spread.median), &format);
        if let Some(spread) = spread.filter(|spread| spread.runs > 1 && spread.least < spread.most)
        {
            let (least, most) = (escape(&format(spread.least)), escape(&format(spread.most)));
            if least != most {
                cell.shown.push_str(&format!(" <small>({least} – {most})</small>"));
            }
        }
        cell
    }

    fn html(&self, tag: &str) -> String {
        let class = if self.is_number { " class=\"n\"" } else { "" };
        format!("<{tag}{class} data-value=\"{}\">{}</{tag}>", escape(&self.full), self.shown)
    }
}

/// What stands above a column.
pub(crate) struct Heading {
    shown: String,
    /// What a saved file has instead: the same with the unit of the saved numbers.
    full: Option<String>,
}

impl Heading {
    /// A name, and the unit of what [`Cell`]s of this column save.
    pub fn with_unit(name: &str, unit: &str) -> Self {
        Self { shown: name.to_string(), full: Some(format!("{name} ({unit})")) }
    }

    fn html(&self, is_number: bool) -> String {
        let class = if is_number { " class=\"n\"" } else { "" };
        let full = self.full.as_ref();
        let full = full.map_or(String::new(), |full| format!(" data-value=\"{}\"", escape(full)));
        format!("<th scope=\"col\"{class}{full}>{}</th>", escape(&self.shown))
    }
}

impl<T: Into<String>> From<T> for Heading {
    fn from(name: T) -> Self {
        Self { shown: name.into(), full: None }
    }
}

/// Headings without units.
pub(crate) fn headings<const N: usize>(names: [&str; N]) -> Vec<Heading> {
    names.map(Heading::from).into()
}

/// A table: a heading per column and rows of cells.
pub(crate) struct Grid {
    pub head: Vec<Heading>,
    pub rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// The table inside a box that scrolls by itself.
    pub fn scrolling(&self, label: &str, class: &str) -> String {
        let numeric = |column: usize| {
            self.rows.first().and_then(|row| row.get(column)).is_some_and(|cell| cell.is_number)
        };
        let head: String = self
            .head
            .iter()
            .enumerate()
            .map(|(column, heading)| heading.html(numeric(column)))
            .collect();
        let row = |row: &Vec<Cell>| {
            let cells: String = row
                .iter()
                .enumerate()
                .map(|(column, cell)| match column {
                    0 => cell.html("th").replacen("<th", "<th scope=\"row\"", 1),
                    _ => cell.html("td"),
                })
                .collect();
            format!("<tr>{cells}</tr>")
        };
        let rows: String = self.rows.iter().map(row).collect();
        format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table class=\"{class}\"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>",
            escape(label)
        )
    }
}

/// A picture with a caption and the data it was drawn from.
pub(crate) struct Figure {
    /// Anchor on the page.
    pub id: String,
    /// Name of the files it is saved as, made into a plain file name.
    pub name: String,
    pub title: String,
    pub caption: String,
    /// SVG markup.
    pub picture: String,
    pub data: Grid,
}

impl Figure {
    pub fn html(&self) -> String {
        format!(
            "<figure id=\"{0}\" data-name=\"{5}\"><figcaption><h3>{1}</h3><p>{2}</p></figcaption>{3}\
             <details class=\"data\"><summary>Data</summary>{4}</details></figure>",
            escape(&self.id),
            escape(&self.title),
            escape(&self.caption),
            self.picture,
            self.data.scrolling(&format!("Data: {}", self.title), ""),
            file_name(&self.name),
        )
    }
}

/// More pictures of one kind than this are folded away.
const MOST_OPEN: usize = 12;

/// Pictures of one kind, linked with each other.
pub(crate) fn linked(figures: &[String]) -> String {
    let all = format!("<div class=\"figures linked\">{}</div>", figures.concat());
    if figures.len() <= MOST_OPEN {
        return all;
    }
    let count = figures.len();
    format!("<details class=\"more\"><summary>Show {count} pictures</summary>{all}</details>")
}

/// A file name of letters, digits and hyphens.
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
        let pictures = |count| vec!["<figure/>".to_string(); count];
        assert!(linked(&pictures(12)).starts_with("<div class=\"figures linked\"><figure/>"));
        let folded = linked(&pictures(13));
        assert!(folded.starts_with("<details class=\"more\"><summary>Show 13 pictures<"));
        assert_eq!(folded.matches("<figure/>").count(), 13);
    }

    #[test]
    fn rows_below_others_are_indented() {
        assert_eq!(
            Cell::text("  mapped <twice>").html("td"),
            "<td data-value=\"  mapped &lt;twice&gt;\"><span class=\"sub\">mapped &lt;twice&gt;</span></td>"
        );
        assert_eq!(Cell::text("mapped").html("td"), "<td data-value=\"mapped\">mapped</td>");
    }

    #[test]
    fn units_are_in_saved_headings_only() {
        let heading = Heading::with_unit("low", "%").html(true);
        assert_eq!(heading, "<th scope=\"col\" class=\"n\" data-value=\"low (%)\">low</th>");
        assert_eq!(Heading::from("low").html(false), "<th scope=\"col\">low</th>");
    }

    #[test]
    fn file_names_are_plain() {
        assert_eq!(file_name("random L2 TLB: 4k/../x"), "random-l2-tlb-4k-x");
        assert_eq!(file_name("…"), "figure");
    }
}
