//! Maps of physical memory as grids of cells, lowest addresses first.
//!
//! A cell is one 2MB block, or several blocks if the maps of a comparison would otherwise take too
//! many rows; all maps of a comparison have cells of one size. A cell's colour shows the class of most of its
//! blocks. A square inside shows the share of frames that matters for the class: holes of
//! perforated blocks, unmovable frames of mixed blocks, free frames of others. Long free ranges are
//! replaced by a line of text.

use serde_json::{Value, json};

use super::{Series, colour, filled, legend};
use crate::format::{bytes, percent};
use crate::palette::css;

const COLUMNS: u64 = 48;
/// Height of a row of cells in pixels.
const HEIGHT: f64 = 9.0;
/// Maximum number of rows of all maps of one scheme together, unless this leaves a map fewer than
/// [`LEAST_ROWS`].
const MOST_ROWS: u64 = 28;
const LEAST_ROWS: u64 = 10;
/// Minimum number of consecutive free cells that are replaced by a line of text.
const LONG: u64 = 3 * COLUMNS;
const BLOCK_FRAMES: f64 = 512.0;
/// Size of a block of physical memory in bytes (2MB).
const BLOCK_BYTES: f64 = 2097152.0;
/// Maximum number of equal cells in a run. Like the next two limits (2MB blocks in a cell, and in a coarse
/// cell), it is larger than in any real memory, and prevents overflow for hostile files: products stay below
/// 2^64. At the largest scale a run is a single cell.
const MOST_CELLS: u64 = 1 << 36;
const MOST_BLOCKS_PER_CELL: u64 = 1 << 26;
const LARGEST_SCALE: u64 = 1 << 62;
/// Minimum share of a cell's frames that the square inside the cell must stand for to be drawn.
const LEAST_SHARE: f64 = 0.02;

/// A run of neighbouring map cells with equal contents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CellRun {
    pub cells: u64,
    /// Index in the chart's series of the class of the cells' blocks, such as `free`. Series are in order of
    /// importance.
    pub class: usize,
    /// Number of free frames in each cell. `holes` and `kept` are the numbers of frames in holes of
    /// perforated pages, and of unmovable frames.
    pub free: f64,
    pub holes: f64,
    pub kept: f64,
}

impl CellRun {
    fn is_like(&self, other: &Self) -> bool {
        *self == Self { cells: self.cells, ..*other }
    }

    fn is_long_free(&self, free_class: Option<usize>) -> bool {
        Some(self.class) == free_class && self.cells >= LONG
    }
}

/// A memory map at the resolution at which it was recorded, or at a coarser one.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub heading: String,
    pub blocks_per_cell: u64,
    pub runs: Vec<CellRun>,
}

impl Picture {
    fn stored_scale(&self) -> u64 {
        self.blocks_per_cell.clamp(1, MOST_BLOCKS_PER_CELL)
    }
}

/// Maps of one scheme's physical memory, drawn below each other.
pub(crate) struct Maps<'a> {
    /// Classes of 2MB blocks. Long ranges of the class `free` may be replaced by a line of text.
    pub series: &'a [Series],
    pub maps: Vec<Picture>,
}

/// Returns the smallest number of 2MB blocks per cell at which the maps of every scheme fit into their rows.
pub(crate) fn common_scale(schemes: &[Vec<Picture>], free_class: Option<usize>) -> u64 {
    let maps = || schemes.iter().flatten();
    let most_maps = schemes.iter().map(Vec::len).max().unwrap_or(1).max(1) as u64;
    let most_rows = (MOST_ROWS / most_maps).max(LEAST_ROWS);
    let mut scale = maps().map(Picture::stored_scale).max().unwrap_or(1);
    while scale < LARGEST_SCALE
        && maps().any(|map| rows(&coarse(map, scale).runs, free_class) > most_rows)
    {
        scale *= 2;
    }
    scale
}

/// Returns the map with cells of `scale` 2MB blocks.
pub(crate) fn coarse(map: &Picture, scale: u64) -> Picture {
    let ratio = scale.div_ceil(map.stored_scale()).max(1);
    let mut made: Vec<CellRun> = Vec::new();
    let mut open = Open::default();
    for run in &map.runs {
        let mut rest = run.cells.min(MOST_CELLS);
        if open.cells > 0 {
            let fill = rest.min(ratio - open.cells);
            open.add(fill, run);
            rest -= fill;
            if open.cells == ratio {
                push(&mut made, open.close(1));
            }
        }
        if rest / ratio > 0 {
            let mut whole = Open::default();
            whole.add(ratio, run);
            push(&mut made, whole.close(rest / ratio));
        }
        open.add(rest % ratio, run);
    }
    if open.cells > 0 {
        push(&mut made, open.close(1));
    }
    Picture { heading: map.heading.clone(), blocks_per_cell: scale, runs: made }
}

fn push(runs: &mut Vec<CellRun>, run: CellRun) {
    match runs.last_mut() {
        Some(last) if last.is_like(&run) => last.cells += run.cells,
        _ => runs.push(run),
    }
}

/// A coarse map cell to which finer cells are being added.
#[derive(Default)]
struct Open {
    cells: u64,
    /// Number of finer cells in the coarse cell, by class.
    classes: Vec<u64>,
    free: f64,
    holes: f64,
    kept: f64,
}

impl Open {
    fn add(&mut self, cells: u64, run: &CellRun) {
        if self.classes.len() <= run.class {
            self.classes.resize(run.class + 1, 0);
        }
        self.cells += cells;
        self.classes[run.class] += cells;
        self.free += cells as f64 * run.free;
        self.holes += cells as f64 * run.holes;
        self.kept += cells as f64 * run.kept;
    }

    fn close(&mut self, cells: u64) -> CellRun {
        let open = std::mem::take(self);
        let class = (0..open.classes.len()).max_by_key(|&class| open.classes[class]);
        let Self { free, holes, kept, .. } = open;
        CellRun { cells, class: class.unwrap_or(0), free, holes, kept }
    }
}

/// Returns the number of rows that a map with these runs of cells takes.
fn rows(runs: &[CellRun], free_class: Option<usize>) -> u64 {
    let mut rows = 0;
    let mut cells: u64 = 0;
    for run in runs {
        if run.is_long_free(free_class) {
            rows += cells.div_ceil(COLUMNS) + 2;
            cells = 0;
        } else {
            cells = cells.saturating_add(run.cells);
        }
    }
    rows + cells.div_ceil(COLUMNS)
}

impl Maps<'_> {
    pub fn spec(&self) -> Value {
        let mut drawing =
            Drawing { series: self.series, row: 0, cells: Vec::new(), texts: Vec::new() };
        for map in &self.maps {
            if !map.heading.is_empty() {
                drawing.write("left", map.heading.clone());
            }
            drawing.draw(map);
        }
        let Drawing { row: rows, cells, texts, .. } = drawing;
        let axis = |field: &str, most: u64| json!({"field": field, "type": "quantitative", "axis": null, "scale": {"domain": [0, most], "nice": false}});
        let y = |field: &str| {
            let mut y = axis(field, rows.max(1));
            y["scale"]["reverse"] = true.into();
            y
        };
        // The specification expands runs into cells, each with a square inside for its share of frames.
        filled(
            include_str!("spec/memory_map.json"),
            &[
                ("$legend", legend(self.series, |_| Value::Null)),
                ("$height", (HEIGHT * rows.max(1) as f64).into()),
                ("$cells", cells.into()),
                ("$texts", texts.into()),
                ("$colour", colour(self.series)),
                ("$has square", format!("datum.share >= {LEAST_SHARE}").into()),
                ("$x left", axis("left", COLUMNS)),
                ("$x column", axis("column", COLUMNS)),
                ("$y top", y("top")),
                ("$y row", y("row")),
            ],
        )
    }
}

/// Layout of a scheme's memory maps in rows of cells, to which maps and lines of text are added one by one.
struct Drawing<'s> {
    series: &'s [Series],
    row: u64,
    cells: Vec<Value>,
    texts: Vec<Value>,
}

impl Drawing<'_> {
    /// Adds a line of text, which takes two rows, to the layout of the maps.
    fn write(&mut self, align: &str, text: String) {
        let column = if align == "left" { 0 } else { COLUMNS / 2 };
        self.texts
            .push(json!({"row": self.row + 1, "column": column, "align": align, "text": text}));
        self.row += 2;
    }

    /// Adds a map to the layout of the maps: runs of cells, and lines of text for long free ranges.
    fn draw(&mut self, map: &Picture) {
        let free = self.series.iter().position(|one| one.key == "free");
        let block_bytes = map.blocks_per_cell as f64 * BLOCK_BYTES;
        let mut column = 0;
        for run in &map.runs {
            if run.is_long_free(free) {
                self.row += u64::from(column > 0);
                column = 0;
                self.write("center", format!("… {} free …", bytes(run.cells as f64 * block_bytes)));
                continue;
            }
            let mut rest = run.cells;
            while rest > 0 {
                let cells = rest.min(COLUMNS - column);
                self.cells.push(self.stripe(map, run, column, cells));
                rest -= cells;
                column = (column + cells) % COLUMNS;
                self.row += u64::from(column == 0);
            }
        }
        self.row += 1 + u64::from(column > 0);
    }

    /// Returns the chart's data for `cells` equal cells in one row, from column `first` on.
    fn stripe(&self, map: &Picture, run: &CellRun, first: u64, cells: u64) -> Value {
        let series = &self.series[run.class];
        let (inner, meaning, share) = inner_square(&series.key);
        let share = (share(run) / (map.blocks_per_cell as f64 * BLOCK_FRAMES)).min(1.0);
        let inside =
            if share > 0.0 { format!("{} {meaning}", percent(share)) } else { String::new() };
        let size = bytes(run.cells as f64 * map.blocks_per_cell as f64 * BLOCK_BYTES);
        json!({
            "row": self.row, "first": first, "cells": cells, "series": series.label,
            "share": share, "inner": css(inner), "inside": inside, "size": size,
        })
    }
}

/// Returns the colours and meanings of the squares that are drawn inside cells of these maps, without
/// duplicates.
pub(crate) fn inner_squares(
    series: &[Series],
    maps: &[Picture],
) -> Vec<(&'static str, &'static str)> {
    let all = [
        ("hole", "holes of perforated pages"),
        ("unmovable", "memory that cannot be moved in mixed blocks"),
        ("empty", "free memory in other blocks"),
    ];
    let is_drawn = |colour: &str| {
        maps.iter().any(|map| {
            let frames = map.blocks_per_cell as f64 * BLOCK_FRAMES;
            map.runs.iter().any(|run| {
                let (inner, _, share) = inner_square(&series[run.class].key);
                inner == colour && share(run) / frames >= LEAST_SHARE
            })
        })
    };
    all.into_iter().filter(|square| is_drawn(square.0)).collect()
}

/// Returns the square inside cells of a class: its colour, the meaning of its area, and a function that gives
/// the number of frames that the area represents.
fn inner_square(class: &str) -> (&'static str, &'static str, fn(&CellRun) -> f64) {
    match class {
        "perforated" => ("hole", "holes", |run| run.holes),
        "mixed" => ("unmovable", "not movable", |run| run.kept),
        "free" => ("empty", "", |_| 0.0),
        _ => ("empty", "free", |run| run.free),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cells: u64, class: usize, free: f64, holes: f64) -> CellRun {
        CellRun { cells, class, free, holes, kept: 0.0 }
    }

    fn picture(runs: Vec<CellRun>) -> Picture {
        Picture { heading: String::new(), blocks_per_cell: 1, runs }
    }

    #[test]
    fn coarse_cells_are_what_most_of_their_parts_are() {
        // aaab|bbcc|c: if two classes have equally many cells, the later class wins.
        let map = picture(vec![run(3, 0, 512.0, 0.0), run(3, 1, 0.0, 0.0), run(3, 2, 0.0, 100.0)]);
        let made = coarse(&map, 4);
        assert_eq!(
            made.runs,
            [run(1, 0, 1536.0, 0.0), run(1, 2, 0.0, 200.0), run(1, 2, 0.0, 100.0)]
        );
        assert_eq!(coarse(&map, 1).runs, map.runs);
        assert_eq!(coarse(&map, 16).runs, [run(1, 2, 1536.0, 300.0)]);
    }

    #[test]
    fn long_free_stretches_take_two_rows_only() {
        let runs = [run(1, 1, 0.0, 0.0), run(100_000, 0, 512.0, 0.0), run(49, 1, 0.0, 0.0)];
        assert_eq!(rows(&runs, Some(0)), 1 + 2 + 2);
        assert!(rows(&runs, None) > 2000);
    }

    #[test]
    fn the_scale_doubles_until_all_maps_fit() {
        // 48 × 28 = 1344 cells fit. A map of 2000 cells therefore takes cells of two blocks, and
        // one of 10000 takes cells of eight. Three maps have ten rows each, 480 cells, so 2000
        // cells also take cells of eight.
        let one = picture(vec![run(2000, 1, 0.0, 0.0)]);
        let two = picture(vec![run(10_000, 1, 0.0, 0.0)]);
        assert_eq!(common_scale(&[vec![one.clone()]], Some(0)), 2);
        assert_eq!(common_scale(&[vec![one.clone()], vec![two]], Some(0)), 8);
        assert_eq!(common_scale(&[vec![one.clone(), one.clone(), one]], Some(0)), 8);
        // Whatever the values in a file are, only a few cells remain to be drawn.
        for blocks_per_cell in [0, 1, 1 << 40, u64::MAX] {
            let endless =
                Picture { blocks_per_cell, ..picture(vec![run(u64::MAX, 1, 0.0, 0.0); 3]) };
            let scale = common_scale(&[vec![endless.clone()]], Some(0));
            assert!(rows(&coarse(&endless, scale).runs, Some(0)) <= MOST_ROWS);
        }
    }

    #[test]
    fn runs_are_broken_at_the_ends_of_rows() {
        let series = Series { key: "movable".into(), ..Series::default() };
        let maps = vec![picture(vec![run(46, 0, 0.0, 0.0), run(3, 0, 128.0, 0.0)])];
        let spec = Maps { series: &[series], maps }.spec();
        let cells = spec["layer"][0]["data"]["values"].as_array().unwrap();
        let place =
            |cell: &Value| ["row", "first", "cells"].map(|name| cell[name].as_u64().unwrap());
        assert_eq!(
            cells.iter().map(place).collect::<Vec<_>>(),
            [[0, 0, 46], [0, 46, 2], [1, 0, 1]]
        );
        assert_eq!(
            (&cells[1]["share"], &cells[1]["inside"]),
            (&json!(0.25), &json!("25.0 % free"))
        );
    }

    /// 28 rows of 48 cells for all maps of a scheme, at least ten for each. A long free range is three rows.
    #[test]
    fn maps_are_as_coarse_as_their_rows_require() {
        let of = |cells: u64| picture(vec![run(cells, 1, 0.0, 0.0)]);
        let scale = |maps: usize, cells: u64| common_scale(&[vec![of(cells); maps]], Some(0));
        assert_eq!((scale(1, 1344), scale(1, 1345)), (1, 2));
        assert_eq!((scale(2, 672), scale(2, 673)), (1, 2));
        assert_eq!((scale(3, 480), scale(3, 481)), (1, 2));
        assert_eq!((scale(4, 480), scale(4, 481)), (1, 2));
        let stored = Picture { blocks_per_cell: 4, ..of(10) };
        assert_eq!(common_scale(&[vec![of(10)], vec![stored]], Some(0)), 4);
        assert_eq!(common_scale(&[], Some(0)), 1);
        let free = |cells: u64| rows(&[run(cells, 0, 512.0, 0.0)], Some(0));
        assert_eq!((free(143), free(144), free(145)), (3, 2, 2));
        assert_eq!(rows(&[run(48, 1, 0.0, 0.0)], Some(0)), 1);
        assert_eq!(rows(&[run(49, 1, 0.0, 0.0)], Some(0)), 2);
        assert_eq!(rows(&[], Some(0)), 0);
    }

    /// Squares stand for 2 % of a cell's frames at least: 10.24 of 512.
    #[test]
    fn squares_inside_cells_are_explained_if_any_is_drawn() {
        let series = ["free", "perforated", "mixed", "movable"].map(|key| Series {
            key: key.into(),
            label: key.into(),
            ..Series::default()
        });
        let squares = |class: usize, free: f64, holes: f64, kept: f64, blocks_per_cell: u64| {
            let runs = vec![CellRun { cells: 1, class, free, holes, kept }];
            let found = inner_squares(&series, &[Picture { blocks_per_cell, ..picture(runs) }]);
            found.into_iter().map(|(colour, _)| colour).collect::<Vec<_>>()
        };
        assert!(squares(0, 512.0, 512.0, 512.0, 1).is_empty(), "a free cell has none");
        assert_eq!(squares(1, 512.0, 10.3, 512.0, 1), ["hole"]);
        assert!(
            squares(1, 512.0, 10.2, 512.0, 1).is_empty()
                && squares(1, 0.0, 20.0, 0.0, 2).is_empty()
        );
        assert_eq!(squares(2, 512.0, 512.0, 10.3, 1), ["unmovable"]);
        assert!(squares(2, 512.0, 512.0, 10.2, 1).is_empty());
        assert_eq!(squares(3, 10.3, 0.0, 0.0, 1), ["empty"]);
        assert!(squares(3, 10.2, 512.0, 512.0, 1).is_empty());
    }

    /// A heading takes two rows, a long free range two, and each map a row of space.
    #[test]
    fn maps_stand_below_each_other_with_their_headings() {
        let series = ["free", "movable"].map(|key| Series {
            key: key.into(),
            label: key.into(),
            ..Series::default()
        });
        let first = Picture {
            heading: "after".into(),
            blocks_per_cell: 2,
            runs: vec![run(1, 1, 256.0, 0.0), run(200, 0, 1024.0, 0.0), run(48, 1, 0.0, 0.0)],
        };
        let maps = vec![first, picture(vec![run(1, 1, 5.0, 0.0)])];
        let spec = Maps { series: &series, maps }.spec();
        let texts = |spec: &Value| {
            let layers = spec["layer"].as_array().unwrap().iter();
            let texts = layers.filter_map(|layer| layer["data"]["values"].as_array());
            texts.flatten().filter(|one| one["text"].is_string()).cloned().collect::<Vec<_>>()
        };
        assert_eq!(
            texts(&spec),
            [
                json!({"row": 1, "column": 0, "align": "left", "text": "after"}),
                json!({"row": 4, "column": 24, "align": "center", "text": "… 800 MB free …"}),
            ]
        );
        let cells = spec["layer"][0]["data"]["values"].as_array().unwrap();
        let place =
            |cell: &Value| ["row", "first", "cells"].map(|name| cell[name].as_u64().unwrap());
        // The heading, a row, the text in two, a full row and one of space.
        assert_eq!(cells.iter().map(place).collect::<Vec<_>>(), [[2, 0, 1], [5, 0, 48], [7, 0, 1]]);
        assert_eq!((&cells[0]["share"], &cells[0]["size"]), (&json!(0.25), &json!("4.00 MB")));
        assert_eq!((&cells[1]["inside"], &cells[2]["inside"]), (&json!(""), &json!("1.0 % free")));
        assert_eq!(spec["height"], json!(9.0 * 9.0));
    }
}
