//! What becomes of physical memory during a run: figures over time, and maps at a few moments.

use perforate_os::{self as os, BlockClass, FrameClass, FreeMemory, Kernel};
use perforate_records::{CellRun, MemoryMap, MemoryPoint};

use crate::samples::Samples;

/// Points of the series: every so many instructions at first, and at most so many in the end.
const POINTS: (u64, usize) = (50_000, 64);
/// Maps, besides the one at the end.
const MAPS: (u64, usize) = (200_000, 4);
/// Runs of like cells in a map; where there would be more, cells get larger.
const MOST_RUNS: usize = 512;

/// Memory touched by the program over time; the moments are those of [`MemoryHistory`].
pub(crate) struct TouchedHistory {
    samples: Samples<u64>,
}

impl TouchedHistory {
    pub(crate) fn new() -> Self {
        Self { samples: Samples::new(POINTS.0, POINTS.1) }
    }

    /// Hears of the bytes touched before each chunk.
    pub(crate) fn observe(&mut self, instruction: u64, bytes: u64) {
        if self.samples.is_due(instruction) {
            self.samples.add(instruction, bytes);
        }
    }

    /// The instructions of the samples and the bytes touched until then, `bytes` in the end.
    pub(crate) fn finish(mut self, instruction: u64, bytes: u64) -> Vec<(u64, u64)> {
        self.samples.add_last(instruction, bytes);
        self.samples.into_points().collect()
    }
}

/// Samples of one scheme's physical memory.
pub(crate) struct MemoryHistory {
    points: Samples<MemoryPoint>,
    has_maps: bool,
    /// From the start of measuring.
    maps: Option<Samples<MemoryMap>>,
    /// Whose memory it is, when virtualized.
    of: Option<&'static str>,
}

impl MemoryHistory {
    pub(crate) fn new(of: Option<&'static str>) -> Self {
        Self { points: Samples::new(POINTS.0, POINTS.1), has_maps: true, maps: None, of }
    }

    /// The same without maps.
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

    /// Takes the first map.
    pub(crate) fn start_measuring(&mut self, instruction: u64, kernel: &Kernel) {
        if !self.has_maps {
            return;
        }
        let mut maps = Samples::new(MAPS.0, MAPS.1);
        maps.add(instruction, picture(instruction, &kernel.memory_map()));
        self.maps = Some(maps);
    }

    /// Takes the last samples.
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

/// A map that looks like the one before is that one at another moment.
fn add_picture(pictures: &mut Vec<MemoryMap>, picture: MemoryMap) {
    match pictures.last_mut() {
        Some(last) if alike(last, &picture) => last.instructions.extend(picture.instructions),
        _ => pictures.push(picture),
    }
}

fn alike(one: &MemoryMap, other: &MemoryMap) -> bool {
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

/// The picture of a map in at most so many runs of like cells.
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
