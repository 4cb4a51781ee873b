//! Tables and paragraphs for terminals.

mod comparison;
mod matrices;
mod words;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};
use textwrap::{Options, WordSeparator};
use unicode_width::UnicodeWidthStr;

pub use comparison::{Rows, table};
pub use words::{printable, quoted};

use crate::chart::pieces;
pub use crate::format::{bytes, compact};

/// Distance in characters between neighbouring columns of a table.
const GAP: usize = 2;
/// Width in characters from which headings are broken, if their cells are narrower.
const HEADING: usize = 12;
/// Maximum number of lines of a heading; further lines are cut off.
const HEADING_LINES: usize = 6;

/// A column of a table for the terminal.
pub struct Column {
    /// Lines of the column's heading.
    heading: Vec<String>,
    cells: Vec<String>,
    width: usize,
    /// True if the column is aligned to the left.
    is_text: bool,
}

impl Column {
    /// Creates a right-aligned column. A long heading is broken after hyphens, plus signs and spaces.
    pub fn numbers(heading: &str, cells: Vec<String>) -> Self {
        Self::broken_at(HEADING, heading, cells)
    }

    /// Creates a right-aligned column whose heading is broken at `width`, or at the width of the
    /// cells if larger.
    pub(crate) fn broken_at(width: usize, heading: &str, cells: Vec<String>) -> Self {
        let widest = cells.iter().map(|cell| cell.width()).max().unwrap_or(0);
        let options = Options::new(widest.max(width)).word_separator(WordSeparator::Custom(pieces));
        let lines = textwrap::wrap(heading, options);
        let lines = lines.iter().map(|line| line.trim().to_owned()).take(HEADING_LINES).collect();
        Self::new(lines, cells, false)
    }

    /// Creates a left-aligned column, whose cells may wrap.
    pub fn texts(heading: &str, cells: Vec<String>) -> Self {
        Self::new(vec![heading.to_owned()], cells, true)
    }

    /// Creates a left-aligned column whose heading is broken at `width` characters.
    pub(crate) fn texts_under(width: usize, heading: &str, cells: Vec<String>) -> Self {
        Self { is_text: true, ..Self::broken_at(width, heading, cells) }
    }

    fn new(heading: Vec<String>, cells: Vec<String>, is_text: bool) -> Self {
        let width = heading.iter().chain(&cells).map(|text| text.width()).max().unwrap_or(0);
        Self { heading, cells, width, is_text }
    }
}

/// Draws a table with these columns, at most `width` characters wide. The table has no header if all headings
/// are empty.
pub fn columns<'c>(all: impl IntoIterator<Item = &'c Column>, width: usize) -> String {
    let all: Vec<&Column> = all.into_iter().collect();
    let height = all.iter().map(|column| column.heading.len()).max().unwrap_or(0);
    let rows = all.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(LineStyle::none().fill('─')))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.try_into().unwrap_or(u16::MAX));
    if all.iter().any(|column| column.heading.iter().any(|line| !line.is_empty())) {
        // Headings of different heights are aligned at the bottom.
        table.set_header(
            all.iter().map(|column| {
                "\n".repeat(height - column.heading.len()) + &column.heading.join("\n")
            }),
        );
    }
    for row in 0..rows {
        table.add_row(all.iter().map(|column| column.cells.get(row).map_or("", String::as_str)));
    }
    for (index, (column, style)) in all.iter().zip(table.column_iter_mut()).enumerate() {
        style.set_padding((if index == 0 { 0 } else { GAP as u16 }, 0));
        if !column.is_text {
            style.set_cell_alignment(CellAlignment::Right);
            let least = Width::Fixed((column.width + GAP).min(width / 2) as u16);
            style.set_constraint(ColumnConstraint::LowerBoundary(least));
        }
    }
    table.trim_fmt() + "\n"
}

/// A column of a table: its heading, and the function that writes the cell for an item.
pub type ColumnOf<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

/// Draws a table with a row for each item, at most `width` characters wide. The first column contains texts,
/// the others contain numbers.
pub fn rows<T>(items: &[T], all: &[ColumnOf<'_, T>], width: usize) -> String {
    let column = |(place, (heading, cell)): (usize, &ColumnOf<'_, T>)| {
        let cells = items.iter().map(cell).collect();
        if place == 0 { Column::texts(heading, cells) } else { Column::numbers(heading, cells) }
    };
    columns(&all.iter().enumerate().map(column).collect::<Vec<_>>(), width)
}

/// Draws columns in as many tables as the width requires. Each table begins with the column `labels` and has
/// at least one other column.
pub(crate) fn blocks(labels: &Column, all: &[Column], width: usize) -> Vec<String> {
    let room = width - labels.width.min(width / 2);
    let mut found = Vec::new();
    let mut rest = all;
    while !rest.is_empty() {
        let mut used = 0;
        let fitting = rest.iter().take_while(|column| {
            used += GAP + column.width;
            used <= room
        });
        let (block, others) = rest.split_at(fitting.count().max(1));
        found.push(columns(std::iter::once(labels).chain(block), width));
        rest = others;
    }
    found
}

/// Wraps text at `width` characters. The first line begins with `lead`, the other lines are indented by its
/// width. Returns an empty text for an empty text.
pub fn wrapped(lead: &str, text: &str, width: usize) -> String {
    hanging(lead, text, lead.width(), width)
}

/// Wraps text as [`wrapped`] does, but indents all lines after the first by `margin` characters.
pub fn hanging(lead: &str, text: &str, margin: usize, width: usize) -> String {
    if text.is_empty() {
        return String::new();
    }
    let margin = " ".repeat(margin);
    let options = Options::new(width)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .word_separator(WordSeparator::AsciiSpace)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
        .initial_indent(lead)
        .subsequent_indent(&margin);
    let words: Vec<&str> = text.split_whitespace().collect();
    textwrap::fill(&words.join(" "), options) + "\n"
}

/// Wraps text at `width` characters, and breaks longer words such as file names.
pub(crate) fn folded(text: &str, width: usize) -> String {
    let options = Options::new(width).word_separator(WordSeparator::AsciiSpace);
    let words: Vec<&str> = text.split_whitespace().collect();
    textwrap::fill(&words.join(" "), options) + "\n"
}

/// Shortens a name to its last characters if it has more than `most`.
pub fn end_of(name: &str, most: usize) -> String {
    match name.chars().count().checked_sub(most) {
        None | Some(0) => name.to_owned(),
        Some(more) => std::iter::once('…').chain(name.chars().skip(more + 1)).collect(),
    }
}

/// Shortens a text to `width` terminal columns.
pub fn cut(text: &str, width: usize) -> String {
    match text.width() > width {
        true if width < 2 => String::new(),
        true => {
            textwrap::wrap(text, width.max(2) - 1).first().map_or("", |line| line).to_owned() + "…"
        }
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_beginning() {
        let end = |name: &str| end_of(name, 5);
        assert_eq!(["", "abc", "abcde", "/abcde"].map(end), ["", "abc", "abcde", "…bcde"]);
    }

    #[test]
    fn long_texts_are_wrapped_and_indented() {
        assert_eq!(wrapped("", "one two three", 8), "one two\nthree\n");
        assert_eq!(wrapped("a ", "b c d", 5), "a b c\n  d\n");
        assert_eq!(wrapped("a ", "longer than", 5), "a longer\n  than\n");
        assert_eq!(hanging("name  ", "one two three", 1, 10), "name  one\n two three\n");
    }

    #[test]
    fn headings_break_after_hyphens() {
        let heading = |name: &str| Column::numbers(name, Vec::new()).heading;
        assert_eq!(heading("perforated-on-demand"), ["perforated-", "on-demand"]);
        assert_eq!(heading("thp"), ["thp"]);
        assert_eq!(heading("nohyphensinthisname"), ["nohyphensint", "hisname"]);
    }

    #[test]
    fn what_does_not_fit_continues_below() {
        let labels = Column::texts("", vec!["a".into(), "bc".into()]);
        let column = |name: &str| Column::numbers(name, vec!["1.00".into(), "–".into()]);
        let all = [column("x"), column("y"), column("long-heading-of-a-scheme")];
        assert_eq!(
            blocks(&labels, &all, 26),
            [
                "       x     y\n──────────────\na   1.00  1.00\nbc     –     –\n",
                "          long-\n    heading-of-\n       a-scheme\n───────────────\na          1.00\nbc            –\n",
            ]
        );
    }

    #[test]
    fn texts_are_cut_to_their_width() {
        let of = |width: usize| cut("abcd", width);
        assert_eq!([4, 3, 2, 1, 0].map(of), ["abcd", "ab…", "a…", "", ""]);
        assert_eq!(cut("ab cd", 4), "ab…");
        // Six lines of a heading; a column that fits to the last character.
        assert_eq!(Column::broken_at(2, "a-b-c-d-e-f-g-", Vec::new()).heading.len(), 6);
        let labels = Column::texts("", vec!["abc".into()]);
        let column = Column::numbers("xy", vec!["1".into()]);
        let count = |width: usize| {
            blocks(
                &labels,
                &[
                    Column::new(column.heading.clone(), column.cells.clone(), false),
                    Column::numbers("zw", vec!["2".into()]),
                ],
                width,
            )
            .len()
        };
        assert_eq!([11, 10, 4].map(count), [1, 2, 2]);
        assert_eq!(wrapped("a ", "", 5), "");
    }
}
