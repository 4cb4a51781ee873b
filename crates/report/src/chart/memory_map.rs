//! Physical memory as a grid of cells, lowest addresses first.
//!
//! A cell is one 2MB block, or as many as it takes to draw every map of a comparison in a few rows
//! (the same for all of them); its colour is that of the class most of its blocks have. A square
//! inside the cell has the share of it that matters for its class: holes of perforated blocks,
//! free frames, unmovable frames of mixed blocks. Long free stretches are named, not drawn.

use super::svg::{Anchor, Ink, Svg, length};
use super::{Series, WIDTH, legend};
use crate::format::{bytes, escape};
use crate::palette;

const COLUMNS: u64 = 48;
const CELL: f64 = 9.0;
/// Rows of a scheme's maps together, as far as each has [`LEAST_ROWS`].
const MOST_ROWS: u64 = 28;
const LEAST_ROWS: u64 = 10;
/// Free cells in a row that are left out.
const LONG: u64 = 3 * COLUMNS;
const GAP: f64 = 17.0;
const BLOCK_FRAMES: f64 = 512.0;
/// Bytes of a block.
const BLOCK_BYTES: f64 = 2097152.0;
/// Cells of a run and blocks of a cell, at most: more than any memory has. Their product and the
/// largest scale stay below 2^64, and at that scale a run is one cell, whatever a file says.
const MOST_CELLS: u64 = 1 << 36;
const MOST_BLOCKS_PER_CELL: u64 = 1 << 26;
const LARGEST_SCALE: u64 = 1 << 62;
/// Shares below this are not drawn.
const LEAST_SHARE: f64 = 0.02;

/// Neighbouring cells that look alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CellRun {
    pub cells: u64,
    /// Place of the class among the series, which are in the order of what is worth showing.
    pub class: usize,
    /// Frames of each cell that are free, holes, unmovable.
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

/// One map with the blocks per cell it was stored with.
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

/// Maps of one scheme, one below the other.
pub(crate) struct Maps<'a> {
    pub title: &'a str,
    /// Classes; the one called `free` may be left out where it is long.
    pub series: &'a [Series],
    pub maps: Vec<Picture>,
}

/// The least number of blocks per cell with which the maps of each scheme take few rows.
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

/// The map with cells of `scale` blocks.
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

/// A cell being collected from smaller ones.
#[derive(Default)]
struct Open {
    cells: u64,
    /// Cells by class.
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

/// Rows that a map takes.
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
    /// The maps as one SVG.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new();
        let mut y = legend::draw(&mut svg, self.series);
        for map in &self.maps {
            svg.text(0.0, y + 12.0, 12.0, Anchor::Start, Ink::Muted, &map.heading);
            y = self.draw_map(&mut svg, map, y + 19.0) + 10.0;
        }
        svg.finish(y, self.title, "")
    }

    fn free_class(&self) -> Option<usize> {
        self.series.iter().position(|one| one.key == "free")
    }

    /// Draws stretches of cells and names long free ones between them; returns the bottom.
    fn draw_map(&self, svg: &mut Svg, map: &Picture, top: f64) -> f64 {
        let mut y = top;
        let mut pending: Vec<CellRun> = Vec::new();
        for run in &map.runs {
            if !run.is_long_free(self.free_class()) {
                pending.push(*run);
                continue;
            }
            y = self.draw_cells(svg, map, &pending, y);
            pending.clear();
            let free = run.cells as f64 * map.blocks_per_cell as f64 * BLOCK_BYTES;
            let text = format!("… {} free …", bytes(free));
            svg.text(WIDTH / 2.0, y + 12.0, 12.0, Anchor::Middle, Ink::Muted, &text);
            y += GAP;
        }
        self.draw_cells(svg, map, &pending, y)
    }

    fn draw_cells(&self, svg: &mut Svg, map: &Picture, runs: &[CellRun], top: f64) -> f64 {
        let cells: u64 = runs.iter().map(|run| run.cells).sum();
        if cells == 0 {
            return top;
        }
        for (class, series) in self.series.iter().enumerate() {
            self.draw_class(svg, map, runs, class, series, top);
        }
        let bottom = top + cells.div_ceil(COLUMNS) as f64 * CELL;
        draw_mesh(svg, cells, top, bottom);
        bottom + 1.0
    }

    /// All cells of one class, and the squares inside them.
    fn draw_class(
        &self,
        svg: &mut Svg,
        map: &Picture,
        runs: &[CellRun],
        class: usize,
        series: &Series,
        top: f64,
    ) {
        let mut cells_path = String::new();
        let mut squares = String::new();
        let frames = map.blocks_per_cell as f64 * BLOCK_FRAMES;
        let (inner, share) = inner_square(&series.key);
        let mut first = 0;
        let mut cells = 0;
        for run in runs {
            if run.class == class {
                cells += run.cells;
                stripes(first, run.cells, top, &mut cells_path);
                let share = (share(run) / frames).min(1.0);
                if share >= LEAST_SHARE {
                    squares_of(first, run.cells, share, top, &mut squares);
                }
            }
            first += run.cells;
        }
        if cells == 0 {
            return;
        }
        let size = bytes(cells as f64 * map.blocks_per_cell as f64 * BLOCK_BYTES);
        let path = |colour: &str, path: &str, tip: &str| {
            format!(
                "<path class=\"f-{colour}\" fill=\"{}\" data-series=\"{}\" d=\"{path}\"><title>{}</title></path>",
                palette::light(colour),
                escape(&series.key),
                escape(tip)
            )
        };
        let tip = format!("{}: {size} here", series.label);
        svg.raw(&path(series.colour, &cells_path, &tip));
        if !squares.is_empty() {
            svg.raw(&path(inner, &squares, &tip));
        }
    }
}

/// What the squares inside cells show: their colour and what they stand for, each once.
pub(crate) fn inner_squares(
    series: &[Series],
    maps: &[Picture],
) -> Vec<(&'static str, &'static str)> {
    let all = [
        ("hole", "holes of perforated pages"),
        ("unmovable", "what cannot be moved in mixed blocks"),
        ("empty", "free memory in other blocks"),
    ];
    let is_drawn = |colour: &str| {
        maps.iter().any(|map| {
            let frames = map.blocks_per_cell as f64 * BLOCK_FRAMES;
            map.runs.iter().any(|run| {
                let (inner, share) = inner_square(&series[run.class].key);
                inner == colour && share(run) / frames >= LEAST_SHARE
            })
        })
    };
    all.into_iter().filter(|square| is_drawn(square.0)).collect()
}

/// The square inside a cell of this class: its colour, and how many frames it stands for.
fn inner_square(class: &str) -> (&'static str, fn(&CellRun) -> f64) {
    match class {
        "perforated" => ("hole", |run| run.holes),
        "mixed" => ("unmovable", |run| run.kept),
        "free" => ("empty", |_| 0.0),
        _ => ("empty", |run| run.free),
    }
}

/// Rectangles over `cells` cells from number `first`, one per row.
fn stripes(first: u64, cells: u64, top: f64, path: &mut String) {
    let end = first + cells;
    let mut start = first;
    while start < end {
        let stop = end.min((start / COLUMNS + 1) * COLUMNS);
        let (x, y) = corner(start, top);
        let width = length((stop - start) as f64 * CELL);
        let height = length(CELL);
        path.push_str(&format!("M{} {}h{width}v{height}h-{width}z", length(x), length(y)));
        start = stop;
    }
}

/// A square of this share in each of the cells.
fn squares_of(first: u64, cells: u64, share: f64, top: f64, path: &mut String) {
    let size = (CELL - 1.0) * share.sqrt();
    for cell in first..first + cells {
        let (x, y) = corner(cell, top);
        let inset = (CELL - size) / 2.0;
        let size = length(size);
        path.push_str(&format!(
            "M{} {}h{size}v{size}h-{size}z",
            length(x + inset),
            length(y + inset)
        ));
    }
}

fn corner(cell: u64, top: f64) -> (f64, f64) {
    (left() + (cell % COLUMNS) as f64 * CELL, top + (cell / COLUMNS) as f64 * CELL)
}

fn left() -> f64 {
    (WIDTH - COLUMNS as f64 * CELL) / 2.0
}

/// Lines between the cells.
fn draw_mesh(svg: &mut Svg, cells: u64, top: f64, bottom: f64) {
    let columns = cells.min(COLUMNS);
    let right = left() + columns as f64 * CELL;
    let mut path = String::new();
    for column in 0..=columns {
        let x = left() + column as f64 * CELL;
        path.push_str(&format!("M{} {}V{}", length(x), length(top), length(bottom)));
    }
    for row in 0..=cells.div_ceil(COLUMNS) {
        let y = top + row as f64 * CELL;
        path.push_str(&format!("M{} {}H{}", length(left()), length(y), length(right)));
    }
    svg.raw(&format!(
        "<path class=\"mesh\" fill=\"none\" stroke=\"#fff\" stroke-width=\"0.8\" pointer-events=\"none\" d=\"{path}\"/>"
    ));
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
        // aaab|bbcc|c: the tie goes to the later class.
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
        // 48 × 28 = 1344 cells fit; 2000 of them need cells of two, with 10000 cells of eight.
        // Three maps have ten rows each: 480 cells, so 2000 cells take cells of eight, too.
        let one = picture(vec![run(2000, 1, 0.0, 0.0)]);
        let two = picture(vec![run(10_000, 1, 0.0, 0.0)]);
        assert_eq!(common_scale(&[vec![one.clone()]], Some(0)), 2);
        assert_eq!(common_scale(&[vec![one.clone()], vec![two]], Some(0)), 8);
        assert_eq!(common_scale(&[vec![one.clone(), one.clone(), one]], Some(0)), 8);
        // Whatever a file says, few cells are left to draw.
        for blocks_per_cell in [0, 1, 1 << 40, u64::MAX] {
            let endless =
                Picture { blocks_per_cell, ..picture(vec![run(u64::MAX, 1, 0.0, 0.0); 3]) };
            let scale = common_scale(&[vec![endless.clone()]], Some(0));
            assert!(rows(&coarse(&endless, scale).runs, Some(0)) <= MOST_ROWS);
        }
    }

    #[test]
    fn cells_of_a_run_become_one_rectangle_per_row() {
        let mut path = String::new();
        stripes(46, 3, 100.0, &mut path);
        // Two cells at the end of the first row, one at the start of the second; 4 to the left.
        assert_eq!(path, "M418 100h18v9h-18zM4 109h9v9h-9z");
    }
}
