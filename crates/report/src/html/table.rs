//! HTML tables. Each cell has the displayed text, and the full value for sorting and for CSV files.

use maud::{Markup, PreEscaped, html};
use serde_json::Number;

use crate::comparison::Spread;
use crate::format::{MISSING, bytes, exact};
use crate::palette;

/// One cell of an HTML table.
pub(crate) struct Cell {
    shown: Markup,
    /// Full value for sorting; `None` if it equals the displayed text. The text may differ from it by
    /// thousands separators, for example.
    full: Option<String>,
    /// Value of the cell in saved CSV files.
    saved: String,
    is_number: bool,
}

fn plain(text: &str) -> Markup {
    html! { (text) }
}

impl Cell {
    /// Creates a text cell. Text with leading spaces is indented, because its row is a detail of the row
    /// above.
    pub fn text(text: &str) -> Self {
        let inner = text.trim_start_matches(' ');
        let is_part = inner.len() < text.len();
        let shown = html! { @if is_part { span.sub { (inner) } } @else { (text) } };
        Self { shown, full: is_part.then(|| text.to_owned()), saved: text.into(), is_number: false }
    }

    /// Creates a cell of one or more sentences, which may wrap, with `remark` on a new line unless it is
    /// empty.
    pub fn prose(text: &str, remark: &str) -> Self {
        let shown = html! { div.prose { (text) @if !remark.is_empty() { p.remark { (remark) } } } };
        let full = (!remark.is_empty()).then(|| format!("{text} ({remark})"));
        let saved = full.clone().unwrap_or_else(|| text.to_owned());
        Self { shown, full, saved, is_number: false }
    }

    /// Creates a cell with a link to an anchor of the page; the text may wrap after slashes.
    pub fn link(text: &str, anchor: &str) -> Self {
        let shown = html! { a href={ "#" (anchor) } { (breakable(text, '/')) } };
        Self { shown, full: None, saved: text.into(), is_number: false }
    }

    /// Creates a cell with a counter's name, which may wrap after underscores.
    pub fn counter_name(name: &str) -> Self {
        Self { shown: breakable(name, '_'), full: None, saved: name.into(), is_number: false }
    }

    /// Creates a cell with a scheme's name and a dot in its colour. Names of pairs (guest and host) may wrap.
    pub fn scheme(name: &str, colour: &str) -> Self {
        let shown = html! { (dot(colour)) (breakable(name, '+')) };
        Self { shown, full: None, saved: name.into(), is_number: false }
    }

    /// Creates a cell with a word and a symbol (`sign`) on a background of this colour.
    pub fn verdict(text: &str, sign: &str, colour: &str) -> Self {
        let shown = html! { span class={ "verdict v-" (colour) } { (sign) " " (text) } };
        Self { shown, full: Some(text.to_owned()), saved: text.into(), is_number: false }
    }

    /// Creates a cell for a missing value.
    pub fn missing() -> Self {
        Self::number_as(MISSING, None)
    }

    /// Creates a cell with a number that is displayed as `shown`, but sorted and saved as `value`.
    pub fn number_as(shown: &str, value: Option<f64>) -> Self {
        let full = value.filter(|value| value.is_finite()).map(|value| value.to_string());
        let full = full.unwrap_or_default();
        let differs = shown.replace(',', "") != full;
        let saved = full.clone();
        Self { shown: plain(shown), full: differs.then_some(full), saved, is_number: true }
    }

    /// Creates a cell with a number that `format` writes.
    pub fn value(value: Option<f64>, format: impl Fn(f64) -> String) -> Self {
        let value = value.filter(|value| value.is_finite());
        Self::number_as(&value.map_or_else(|| MISSING.to_owned(), format), value)
    }

    /// Creates a cell with a size in bytes; see [`Heading::bytes`].
    pub fn bytes(size: f64) -> Self {
        Self::value(Some(size), bytes)
    }

    /// Creates a cell with an integer, with thousands separators.
    pub fn count(count: u64) -> Self {
        Self::number(&count.into())
    }

    /// Creates a cell with the exact value of a counter.
    pub fn number(number: &Number) -> Self {
        let (text, full) = (exact(number), number.to_string());
        let differs = text.replace(',', "") != full;
        let shown = match text.contains('e') {
            true => html! { abbr title=(full) { (text) } },
            false => plain(&text),
        };
        Self { shown, saved: full.clone(), full: differs.then_some(full), is_number: true }
    }

    /// Creates a cell with a median over the seeds, and with the range if there are several runs.
    pub fn spread(spread: Option<Spread>, format: impl Fn(f64) -> String) -> Self {
        let mut cell = Self::value(spread.map(|spread| spread.median), &format);
        let range = spread.map(|spread| (format(spread.least), format(spread.most)));
        if let Some((least, most)) = range.filter(|(least, most)| least != most) {
            let full = spread.map(|spread| spread.median.to_string());
            let shown = html! { (&cell.shown) " " small { "(" (least) " – " (most) ")" } };
            cell = Self { shown, full, is_number: true, ..cell };
        }
        cell
    }

    fn html(&self, is_first: bool) -> Markup {
        let (class, full) = (self.is_number.then_some("n"), self.full.as_ref());
        html! {
            @if is_first {
                th scope="row" class=[class] data-value=[full] { (self.shown) }
            } @else {
                td class=[class] data-value=[full] { (self.shown) }
            }
        }
    }
}

/// Returns a dot in this colour of the palette.
pub(crate) fn dot(colour: &str) -> Markup {
    html! { i.dot style={ "background:" (palette::css(colour)) } {} }
}

/// Returns a name that may wrap after the character `after`.
fn breakable(name: &str, after: char) -> Markup {
    html! { @for part in name.split_inclusive(after) { (part) @if part.ends_with(after) { wbr; } } }
}

/// Heading of a table column.
pub(crate) struct Heading {
    shown: String,
    /// Colour of the scheme that the column is about; `None` for other columns.
    colour: Option<&'static str>,
    /// Heading with its unit for saved files; `None` if it equals the displayed text.
    full: Option<String>,
}

impl Heading {
    /// Creates a heading with the unit of the values that this column's [`Cell`]s save to files.
    pub fn with_unit(name: &str, unit: &str) -> Self {
        Self { shown: name.to_owned(), colour: None, full: Some(format!("{name} ({unit})")) }
    }

    /// Creates a heading for sizes in bytes.
    pub fn bytes(name: &str) -> Self {
        Self::with_unit(name, "bytes")
    }

    /// Creates a heading with a scheme's name and colour.
    pub fn scheme(name: &str, colour: &'static str) -> Self {
        Self { shown: name.to_owned(), colour: Some(colour), full: None }
    }
}

impl<T: Into<String>> From<T> for Heading {
    fn from(name: T) -> Self {
        Self { shown: name.into(), colour: None, full: None }
    }
}

/// Creates column headings without units.
pub(crate) fn headings<const N: usize>(names: [&str; N]) -> Vec<Heading> {
    names.map(Heading::from).into()
}

/// A table: a heading for each column, and rows of cells.
pub(crate) struct Grid {
    pub head: Vec<Heading>,
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table: its heading, and the function that creates the cell for an item.
type ColumnOf<'a, T> = (Heading, &'a dyn Fn(&T) -> Cell);

impl Grid {
    /// Creates a table with a row for each item.
    pub fn of<T, const N: usize>(
        items: impl IntoIterator<Item = T>,
        columns: [ColumnOf<'_, T>; N],
    ) -> Self {
        let row = |item: T| columns.iter().map(|(_, cell)| cell(&item)).collect();
        let rows = items.into_iter().map(row).collect();
        Self { head: columns.map(|(heading, _)| heading).into(), rows }
    }

    /// Returns the table as HTML, in a box with its own scroll bar.
    pub fn scrolling(&self, label: &str, class: &str) -> Markup {
        html! {
            div.scroll role="region" tabindex="0" aria-label=(label) { (self.table(class)) }
        }
    }

    /// Returns the table as HTML.
    pub fn table(&self, class: &str) -> Markup {
        let first = self.rows.first();
        let is_number = |column| {
            first.and_then(|row| row.get(column)).is_some_and(|cell: &Cell| cell.is_number)
        };
        html! {
            table class=(class) {
                thead { tr {
                    @for (column, heading) in self.head.iter().enumerate() {
                        th scope="col" class=[is_number(column).then_some("n")] data-value=[&heading.full] {
                            @if let Some(colour) = heading.colour { (dot(colour)) }
                            (heading.shown)
                        }
                    }
                } }
                tbody {
                    @for row in &self.rows {
                        tr { @for (column, cell) in row.iter().enumerate() { (cell.html(column == 0)) } }
                    }
                }
            }
        }
    }

    /// Returns the table as CSV, with full values, and with units in the headings.
    pub fn csv(&self) -> String {
        let line = |fields: Vec<&str>| {
            let fields: Vec<String> = fields.into_iter().map(field).collect();
            fields.join(",") + "\n"
        };
        let head = self.head.iter().map(|heading| heading.full.as_ref().unwrap_or(&heading.shown));
        let rows = self.rows.iter().map(|row| row.iter().map(|cell| cell.saved.as_str()).collect());
        std::iter::once(head.map(String::as_str).collect()).chain(rows).map(line).collect()
    }

    /// Returns the table as HTML, below a search box with which a reader can filter the rows.
    pub fn filtered(&self, name: &str, what: &str, label: &str, class: &str) -> Markup {
        html! {
            div.filtered data-name=(name) data-what=(what) { (self.scrolling(label, class)) }
        }
    }
}

/// Escapes a field of a CSV file, in the same way as the page's script does.
fn field(text: &str) -> String {
    // Escapes text that a spreadsheet would take for a formula.
    let is_formula = text.starts_with(['=', '+', '@', '-']) && text.parse::<f64>().is_err();
    let safe = format!("{}{text}", if is_formula { "'" } else { "" });
    match safe.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", safe.replace('"', "\"\"")),
        false => safe,
    }
}

/// Concatenates pieces of HTML.
pub(crate) fn all(parts: impl IntoIterator<Item = Markup>) -> Markup {
    PreEscaped(parts.into_iter().map(PreEscaped::into_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_below_others_are_indented() {
        assert_eq!(
            Cell::text("  mapped <twice>").html(false).into_string(),
            "<td data-value=\"  mapped &lt;twice&gt;\"><span class=\"sub\">mapped &lt;twice&gt;</span></td>"
        );
        assert_eq!(Cell::text("mapped").html(false).into_string(), "<td>mapped</td>");
    }

    #[test]
    fn saved_fields_are_full_and_stay_apart() {
        let grid = Grid {
            head: vec!["scheme".into(), Heading::with_unit("a, b", "×")],
            rows: vec![
                vec![
                    Cell::scheme("4k", "page-4k"),
                    Cell::value(Some(1.0 / 3.0), |_| "0.33".into()),
                ],
                vec![Cell::text("=1+1"), Cell::missing()],
                vec![Cell::text("say \"a\""), Cell::count(12_345)],
            ],
        };
        assert_eq!(
            grid.csv(),
            "scheme,\"a, b (×)\"\n4k,0.3333333333333333\n'=1+1,\n\"say \"\"a\"\"\",12345\n"
        );
    }

    #[test]
    fn digits_are_written_once() {
        let cell = |number: u64| Cell::count(number).html(false).into_string();
        assert_eq!(cell(12_345), "<td class=\"n\">12,345</td>");
        assert_eq!(
            cell(u64::MAX),
            "<td class=\"n\" data-value=\"18446744073709551615\"><abbr title=\"18446744073709551615\">1.84467e19</abbr></td>"
        );
        assert_eq!(
            Cell::missing().html(false).into_string(),
            "<td class=\"n\" data-value=\"\">–</td>"
        );
    }
}
