//! A snapshot for the terminal.

use unicode_width::UnicodeWidthStr;

use super::{Section, Snapshot, Value};
use crate::MemoryMap;
use crate::format::{MISSING, bytes, plain_text};

/// Cells of a row of the picture, and rows at most.
const PICTURE_COLUMNS: f64 = 80.0;
const PICTURE_ROWS: f64 = 20.0;
/// Bytes of a block.
const BLOCK_BYTES: f64 = 2_097_152.0;
/// Letters of classes, and what they mean.
const LETTERS: [(&str, char, &str); 14] = [
    ("free", '.', "free"),
    ("partly_free", ':', "partly free, nothing stays"),
    ("movable", 'm', "4KB pages"),
    ("page_cache", 'c', "page cache"),
    ("reclaimable", 's', "slab"),
    ("mixed", 'x', "mixed"),
    ("unmovable", '#', "unmovable"),
    ("retired", '!', "retired"),
    ("absent", ' ', "no memory"),
    ("segment", 'S', "segment"),
    ("huge", 'G', "hugetlbfs"),
    ("superpage", 'P', "superpage"),
    ("large", 'L', "2MB page"),
    ("perforated", 'p', "perforated"),
];

/// The snapshot as text, at most `columns` characters wide (100 or more).
pub fn snapshot_table(snapshot: &Snapshot, columns: usize) -> String {
    let mut text = format!("{}\n", plain_text(&snapshot.title()));
    for section in snapshot.sections() {
        text += &format!("\n{}\n", plain_text(&section.title));
        text += &wrapped("", &section.lead, columns);
        text += &table(&section, columns);
    }
    if let Snapshot::Host(record) = snapshot
        && let Some(map) = &record.memory_map
    {
        text += &picture(map);
    }
    text.push('\n');
    for note in snapshot.notes() {
        text += &wrapped("note: ", &note, columns);
    }
    text
}

fn written(value: &Value) -> String {
    match value {
        Value::Text(text) => plain_text(text),
        Value::Number(Some(number), write) => write(*number),
        Value::Number(None, _) => MISSING.into(),
    }
}

fn table(section: &Section, columns: usize) -> String {
    let rows: Vec<Vec<String>> =
        section.rows.iter().map(|row| row.iter().map(written).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
        cells.chain([section.head[column].width()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..section.head.len()).map(width).collect();
    let is_text = |column: usize| {
        let cells = section.rows.iter().filter_map(|row| row.get(column));
        cells.clone().all(|cell| matches!(cell, Value::Text(_)))
    };
    let line = |cells: &[String]| {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let pad = " ".repeat(widths[column].saturating_sub(cell.width()));
            let cell =
                if is_text(column) { format!("{cell}{pad}") } else { format!("{pad}{cell}") };
            line += if column == 0 { "" } else { "  " };
            line += &cell;
        }
        let short: String = line.trim_end().chars().take(columns).collect();
        short + "\n"
    };
    let rule = "─".repeat((widths.iter().sum::<usize>() + 2 * (widths.len() - 1)).min(columns));
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{rule}\n{body}", line(&section.head))
}

/// The memory as letters, lowest addresses first.
fn picture(map: &MemoryMap) -> String {
    let per_cell = map.blocks_per_cell.unwrap_or(1.0).max(1.0);
    let place = |cell: &Vec<f64>| Some((cell.first()?.max(0.0), *cell.get(1)? as usize));
    let runs: Vec<(f64, usize)> = map.cells.iter().filter_map(place).collect();
    let cells: f64 = runs.iter().map(|run| run.0).sum();
    if !cells.is_finite() || cells < 1.0 {
        return String::new();
    }
    let per_letter = (cells / (PICTURE_COLUMNS * PICTURE_ROWS)).ceil().max(1.0);
    let mut letters =
        Letters { map, letters: String::new(), counts: Vec::new(), filled: 0.0, per_letter };
    runs.iter().for_each(|&(cells, class)| letters.add(cells, class));
    if letters.filled > 0.0 {
        letters.close();
    }
    let row_bytes = PICTURE_COLUMNS * per_letter * per_cell * BLOCK_BYTES;
    let mut text = format!(
        "\nMemory, {} a letter, in the class that most of its 2MB blocks have\n",
        bytes(per_letter * per_cell * BLOCK_BYTES)
    );
    let letters: Vec<char> = letters.letters.chars().collect();
    let mut gap = false;
    for (row, cells) in letters.chunks(PICTURE_COLUMNS as usize).enumerate() {
        let line: String = cells.iter().collect();
        // Rows without memory are left out but for the first.
        let is_empty = line.trim().is_empty();
        if !(is_empty && gap) {
            text += &format!("{:>9} |{line}|\n", bytes(row as f64 * row_bytes));
        }
        gap = is_empty;
    }
    let used = LETTERS.iter().filter(|(_, letter, _)| letters.contains(letter));
    let key: Vec<String> =
        used.map(|(_, letter, meaning)| format!("'{letter}' {meaning}")).collect();
    text + &wrapped("          ", &key.join(", "), 100)
}

/// Letters being collected from cells.
struct Letters<'a> {
    map: &'a MemoryMap,
    letters: String,
    /// Cells by class.
    counts: Vec<f64>,
    filled: f64,
    per_letter: f64,
}

impl Letters<'_> {
    fn add(&mut self, cells: f64, class: usize) {
        let mut left = cells;
        // Places of classes that there are not are drawn as unknown.
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
        let known = name.and_then(|name| LETTERS.iter().find(|known| known.0 == name));
        self.letters.push(known.map_or('?', |known| known.1));
        self.counts.clear();
        self.filled = 0.0;
    }
}

/// Words in lines of at most `columns` characters.
fn wrapped(start: &str, text: &str, columns: usize) -> String {
    if text.is_empty() {
        return String::new();
    }
    let (mut made, mut line) = (String::new(), start.to_owned());
    let mut is_empty = true;
    for word in plain_text(text).split_whitespace() {
        if !is_empty && line.width() + 1 + word.width() > columns {
            made += line.trim_end();
            made.push('\n');
            line = " ".repeat(start.width());
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    made + line.trim_end() + "\n"
}
