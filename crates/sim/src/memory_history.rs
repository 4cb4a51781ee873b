//! Physical memory during a run: figures over time, and a few maps.

use perforate_os::{self as os, BlockClass, FrameClass, FreeMemory, Kernel};
use perforate_records::{CellRun, MemoryMap, MemoryPoint};

use crate::samples::Samples;

/// Initial interval in instructions, and largest number, of points in the series.
const POINTS: (u64, usize) = (50_000, 64);
/// Initial interval in instructions, and largest number, of maps; the map at the end is extra.
const MAPS: (u64, usize) = (200_000, 4);
/// Largest number of runs of equal cells in a map; above it, cells become larger.
const MOST_RUNS: usize = 512;

/// Memory touched by the program over time, sampled at the same moments as [`MemoryHistory`].
pub(crate) struct TouchedHistory {
    samples: Samples<u64>,
}

impl TouchedHistory {
    pub(crate) fn new() -> Self {
        Self { samples: Samples::new(POINTS.0, POINTS.1) }
    }

    /// Takes the number of bytes touched before a chunk.
    pub(crate) fn observe(&mut self, instruction: u64, bytes: u64) {
        if self.samples.is_due(instruction) {
            self.samples.add(instruction, bytes);
        }
    }

    /// Ends the series with `bytes`. Returns pairs of instructions and bytes touched until then.
    pub(crate) fn finish(mut self, instruction: u64, bytes: u64) -> Vec<(u64, u64)> {
        self.samples.add_last(instruction, bytes);
        self.samples.into_points().collect()
    }
}

/// Samples of one scheme's physical memory.
pub(crate) struct MemoryHistory {
    points: Samples<MemoryPoint>,
    has_maps: bool,
    /// Maps since measuring started; `None` before.
    maps: Option<Samples<MemoryMap>>,
    /// Owner of the memory (`guest` or `host`); `None` for native runs.
    of: Option<&'static str>,
}

impl MemoryHistory {
    pub(crate) fn new(of: Option<&'static str>) -> Self {
        Self { points: Samples::new(POINTS.0, POINTS.1), has_maps: true, maps: None, of }
    }

    /// Disables maps of physical memory.
    pub(crate) fn without_maps(self) -> Self {
        Self { has_maps: false, ..self }
    }

    /// Takes the samples that are due before a chunk.
    pub(crate) fn observe(&mut self, instruction: u64, kernel: &Kernel) {
        if self.points.is_due(instruction) {
            self.points.add(instruction, point(instruction, kernel));
        }
        if let Some(maps) = &mut self.maps
            && maps.is_due(instruction)
        {
            maps.add(instruction, picture(instruction, &kernel.memory_map()));
        }
    }

    /// Takes the first map, when measuring starts.
    pub(crate) fn start_measuring(&mut self, instruction: u64, kernel: &Kernel) {
        if !self.has_maps {
            return;
        }
        let mut maps = Samples::new(MAPS.0, MAPS.1);
        maps.add(instruction, picture(instruction, &kernel.memory_map()));
        self.maps = Some(maps);
    }

    /// Takes the last samples, and returns series and maps.
    pub(crate) fn finish(
        mut self,
        instruction: u64,
        kernel: &Kernel,
    ) -> (Vec<MemoryPoint>, Vec<MemoryMap>) {
        self.points.add_last(instruction, point(instruction, kernel));
        let points = self.points.into_points().map(|(_, point)| point).collect();
        let (of, mut pictures) = (self.of, Vec::new());
        if let Some(mut maps) = self.maps {
            maps.add_last(instruction, picture(instruction, &kernel.memory_map()));
            maps.into_points().for_each(|(_, picture)| {
                let of = of.map(str::to_owned);
                add_picture(&mut pictures, MemoryMap { of, ..picture });
            });
        }
        (points, pictures)
    }
}

/// Adds a map. If the map equals the last one, the last one gets a further moment instead.
fn add_picture(pictures: &mut Vec<MemoryMap>, picture: MemoryMap) {
    match pictures.last_mut() {
        Some(last) if is_same_map(last, &picture) => last.instructions.extend(picture.instructions),
        _ => pictures.push(picture),
    }
}

fn is_same_map(one: &MemoryMap, other: &MemoryMap) -> bool {
    one.frames == other.frames
        && one.block_classes == other.block_classes
        && one.cells == other.cells
        && one.classes == other.classes
}

fn picture(instruction: u64, map: &os::MemoryMap) -> MemoryMap {
    picture_of(instruction, map, MOST_RUNS)
}

fn point(instruction: u64, kernel: &Kernel) -> MemoryPoint {
    let free = kernel.free_memory();
    let order = FreeMemory::LARGE_ORDER;
    let share = |thousandths: i64| thousandths as f64 / 1000.0;
    MemoryPoint {
        instruction,
        unusable_index_2m: Some(share(free.unusable_thousandths(order).into())),
        fragmentation_index_2m: free.fragmentation_thousandths(order).map(share),
        free_bytes: Some(free.frames() * 4096),
        mapped_bytes: Some(kernel.mapped_bytes()),
        touched_bytes: Some(0),
    }
}

/// Converts a map to the form of results, with at most `most_runs` runs of equal cells.
pub(crate) fn picture_of(instruction: u64, map: &os::MemoryMap, most_runs: usize) -> MemoryMap {
    let cells = map.cells(most_runs);
    let mut classes: Vec<BlockClass> = cells.runs.iter().map(|run| run.class).collect();
    classes.sort_unstable();
    classes.dedup();
    let place = |class| classes.binary_search(&class).expect("a class of a cell");
    let runs = cells.runs.iter();
    MemoryMap {
        of: None,
        instructions: vec![instruction],
        blocks: map.blocks(),
        blocks_per_cell: cells.blocks_per_cell,
        frames: FrameClass::ALL
            .into_iter()
            .map(|class| (class.name().into(), map.frames(class)))
            .filter(|&(_, frames): &(String, u64)| frames > 0)
            .collect(),
        block_classes: BlockClass::ALL
            .into_iter()
            .map(|class| (class.name().into(), map.blocks_of(class)))
            .filter(|&(_, blocks): &(String, u64)| blocks > 0)
            .collect(),
        cells: runs
            .map(|run| CellRun {
                cells: run.cells,
                class: Some(place(run.class)),
                free_frames: run.free_frames,
                hole_frames: run.hole_frames,
                kept_frames: run.kept_frames,
            })
            .collect(),
        classes: classes.into_iter().map(|class| class.name().into()).collect(),
    }
}
