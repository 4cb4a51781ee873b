//! Terminal output for a snapshot of memory.

use super::{Section, Shown, Value};
use crate::format::{MISSING, bytes};
use crate::labels::BLOCK_CLASSES;
use crate::text::{Column, wrapped};
use perforate_records::{MemoryMap, Snapshot};

/// Largest width of the memory map, in letters, and of what stands beside each of its rows, in characters;
/// `PICTURE_ROWS` is the maximum number of rows.
const PICTURE_COLUMNS: usize = 80;
const PICTURE_MARGIN: usize = 12;
const PICTURE_ROWS: f64 = 20.0;
/// Size of a 2MB block in bytes.
const BLOCK_BYTES: f64 = 2_097_152.0;

/// Returns the snapshot as text, at most `columns` (at least 40) characters wide.
pub fn snapshot_table(snapshot: &Snapshot, columns: usize) -> String {
    let shown = Shown::of(snapshot);
    let mut text = format!("{}\n", shown.title);
    text += &wrapped("", &shown.verdict.join(" "), columns);
    for section in shown.sections {
        text += &format!("\n{}\n", &section.title);
        text += &wrapped("", &section.lead, columns);
        text += &table(&section, columns);
    }
    text += &shown.memory_map.map_or_else(String::new, |map| picture(map, columns));
    text.push('\n');
    for note in shown.notes {
        text += &wrapped("note: ", &note, columns);
    }
    text
}

fn written(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(Some(number), write) => write(*number),
        Value::Number(None, _) => MISSING.into(),
    }
}

fn table(section: &Section, columns: usize) -> String {
    let column = |(index, heading): (usize, &String)| {
        let values = || section.rows.iter().filter_map(move |row| row.get(index));
        let cells = values().map(written).collect();
        match values().all(|value| matches!(value, Value::Text(_))) {
            true => Column::texts(heading, cells),
            false => Column::numbers(heading, cells),
        }
    };
    let all: Vec<Column> = section.head.iter().enumerate().map(column).collect();
    crate::text::columns(&all, columns)
}

/// Draws the memory map with a letter for each cell, lowest addresses first.
fn picture(map: &MemoryMap, columns: usize) -> String {
    let width = columns.saturating_sub(PICTURE_MARGIN).clamp(1, PICTURE_COLUMNS);
    let per_cell = map.blocks_per_cell.max(1) as f64;
    let runs = map.cells.iter().filter_map(|run| Some((run.cells as f64, run.class?)));
    let runs: Vec<(f64, usize)> = runs.collect();
    let cells: f64 = runs.iter().map(|run| run.0).sum();
    if !cells.is_finite() || cells < 1.0 {
        return String::new();
    }
    let per_letter = (cells / (width as f64 * PICTURE_ROWS)).ceil().max(1.0);
    let mut letters =
        Letters { map, letters: String::new(), counts: Vec::new(), filled: 0.0, per_letter };
    runs.iter().for_each(|&(cells, class)| letters.add(cells, class));
    if letters.filled > 0.0 {
        letters.close();
    }
    let row_bytes = width as f64 * per_letter * per_cell * BLOCK_BYTES;
    let title = format!(
        "Memory, {} a letter, in the class that most of its 2MB blocks have",
        bytes(per_letter * per_cell * BLOCK_BYTES)
    );
    let mut text = format!("\n{}", wrapped("", &title, columns));
    let letters: Vec<char> = letters.letters.chars().collect();
    let mut gap = false;
    for (row, cells) in letters.chunks(width).enumerate() {
        let line: String = cells.iter().collect();
        // Only the first of consecutive rows without memory is shown.
        let is_empty = line.trim().is_empty();
        if !(is_empty && gap) {
            text += &format!("{:>9} |{line}|\n", bytes(row as f64 * row_bytes));
        }
        gap = is_empty;
    }
    let used = BLOCK_CLASSES.iter().filter(|(_, letter, _)| letters.contains(letter));
    let key: Vec<String> =
        used.map(|(_, letter, meaning)| format!("'{letter}' {meaning}")).collect();
    text + &wrapped("          ", &key.join(", "), columns)
}

/// Letters of the memory map that is being drawn. Each letter represents several cells.
struct Letters<'a> {
    map: &'a MemoryMap,
    letters: String,
    /// Number of cells of each class for the next letter.
    counts: Vec<f64>,
    filled: f64,
    per_letter: f64,
}

impl Letters<'_> {
    fn add(&mut self, cells: f64, class: usize) {
        let mut left = cells;
        // Class indices that are out of range are drawn as unknown.
        let class = class.min(self.map.classes.len());
        while left > 0.0 && self.letters.len() < 1 << 16 {
            let part = left.min(self.per_letter - self.filled);
            if self.counts.len() <= class {
                self.counts.resize(class + 1, 0.0);
            }
            self.counts[class] += part;
            self.filled += part;
            left -= part;
            if self.filled >= self.per_letter {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        let most =
            (0..self.counts.len()).max_by(|&a, &b| self.counts[a].total_cmp(&self.counts[b]));
        let name = most.and_then(|class| self.map.classes.get(class));
        let known = name.and_then(|name| BLOCK_CLASSES.iter().find(|known| known.0.0 == name));
        self.letters.push(known.map_or('?', |known| known.1));
        self.counts.clear();
        self.filled = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of text are left-aligned; a column with any number is right-aligned.
    #[test]
    fn a_column_with_a_number_is_aligned_to_the_right() {
        let number = |value| Value::Number(Some(value), |value| format!("{value:.0}"));
        let mut section = Section::new("", "", &["texts", "mixed"]);
        section.rows = vec![
            vec![Value::text("a"), number(1.0)],
            vec![Value::text("bbbbb"), Value::text("none")],
            vec![Value::text("c"), Value::Number(None, |_| String::new())],
        ];
        let text = table(&section, 100);
        let rows: Vec<&str> = text.lines().skip(2).map(str::trim_end).collect();
        assert_eq!(rows, ["a          1", "bbbbb   none", "c          –"], "{text}");
    }
}
