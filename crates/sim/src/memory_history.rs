//! State of physical memory during a run: a time series, and a few memory maps.

use perforate_os::{self as os, BlockClass, BlockFrames, BlockRun, FrameClass, FreeMemory, Kernel};
use perforate_records::{CellRun, MemoryMap, MemoryPoint};

use crate::samples::Samples;

/// Initial interval in instructions, and largest number, of points in the time series of the state
/// of memory.
const POINTS: (u64, usize) = (50_000, 64);
/// Initial interval in instructions, and largest number, of memory maps. The map at the end is not
/// counted.
const MAPS: (u64, usize) = (200_000, 4);
/// Largest number of runs of equal cells in a memory map. A cell is one or more 2MB blocks; if
/// there are more runs, cells become larger.
const MOST_RUNS: usize = 512;

/// Amount of memory that the program touched over time, in bytes; sampled at the same moments as [`MemoryHistory`].
pub(crate) fn touched_history() -> Samples<u64> {
    Samples::new(POINTS.0, POINTS.1)
}

/// Samples of the state of one scheme's physical memory.
pub(crate) struct MemoryHistory {
    points: Samples<MemoryPoint>,
    has_maps: bool,
    /// Maps of physical memory taken since measuring started; `None` before measuring, or if maps
    /// are disabled.
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

    /// Takes the samples that are due before a chunk of instructions.
    pub(crate) fn observe(&mut self, instruction: u64, kernel: &Kernel) {
        self.points.add_if_due(instruction, || point(instruction, kernel));
        if let Some(maps) = &mut self.maps {
            maps.add_if_due(instruction, || picture(instruction, &kernel.memory_map()));
        }
    }

    /// Takes the first map of physical memory, when measuring starts.
    pub(crate) fn start_measuring(&mut self, instruction: u64, kernel: &Kernel) {
        if !self.has_maps {
            return;
        }
        let mut maps = Samples::new(MAPS.0, MAPS.1);
        maps.add(instruction, picture(instruction, &kernel.memory_map()));
        self.maps = Some(maps);
    }

    /// Takes the last samples, and returns the time series and the maps.
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

/// Appends a map of physical memory to the list. If it equals the last map, only adds its
/// instruction count to the last map.
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

/// Converts a map to the format of results, with at most `most_runs` runs of equal cells. A cell
/// has the smallest power of two of 2MB blocks that suffices.
///
/// # Panics
/// If `most_runs` is 0.
pub(crate) fn picture_of(instruction: u64, map: &os::MemoryMap, most_runs: usize) -> MemoryMap {
    assert!(most_runs > 0);
    let sizes = (0..).map(|shift| 1 << shift);
    let mut cells = sizes.map(|blocks_per_cell| Cells::of(map, blocks_per_cell));
    let cells = cells.find(|cells| cells.runs.len() <= most_runs).expect("one cell has all blocks");
    let shown = |class: BlockClass| cells.runs.iter().any(|run| run.class == Some(class as usize));
    let classes: Vec<BlockClass> = BlockClass::ALL.into_iter().filter(|&it| shown(it)).collect();
    let place = |class| classes.iter().position(|&shown| Some(shown as usize) == class);
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
        cells: cells.runs.iter().map(|run| CellRun { class: place(run.class), ..*run }).collect(),
        classes: classes.iter().map(|class| class.name().into()).collect(),
    }
}

/// A memory map, divided into cells of one or more 2MB blocks. The class of a run is the number of
/// a [`BlockClass`].
struct Cells {
    blocks_per_cell: u64,
    runs: Vec<CellRun>,
    open: OpenCell,
}

/// A cell (one or more 2MB blocks) of a memory map that does not have all of its blocks yet.
#[derive(Default)]
struct OpenCell {
    blocks: u64,
    classes: [u64; BlockClass::ALL.len()],
    free_frames: u64,
    hole_frames: u64,
    kept_frames: u64,
}

impl OpenCell {
    fn add(&mut self, blocks: u64, frames: &BlockFrames) {
        self.blocks += blocks;
        self.classes[frames.class() as usize] += blocks;
        self.free_frames += blocks * frames.count(FrameClass::Free);
        self.hole_frames += blocks * frames.holes();
        self.kept_frames += blocks * frames.kept();
    }

    /// Returns a run of `cells` equal cells. They have the class of most of their blocks; of
    /// equally frequent classes, the last.
    fn run(&self, cells: u64) -> CellRun {
        CellRun {
            cells,
            class: (0..self.classes.len()).max_by_key(|&class| self.classes[class]),
            free_frames: self.free_frames,
            hole_frames: self.hole_frames,
            kept_frames: self.kept_frames,
        }
    }
}

impl Cells {
    fn of(map: &os::MemoryMap, blocks_per_cell: u64) -> Self {
        let mut cells = Self { blocks_per_cell, runs: Vec::new(), open: OpenCell::default() };
        map.runs().iter().for_each(|run| cells.add(run));
        cells.close();
        cells
    }

    fn add(&mut self, run: &BlockRun) {
        let mut rest = run.blocks;
        if self.open.blocks > 0 {
            let fill = rest.min(self.blocks_per_cell - self.open.blocks);
            self.open.add(fill, &run.frames);
            rest -= fill;
            if self.open.blocks == self.blocks_per_cell {
                self.close();
            }
        }
        let whole = rest / self.blocks_per_cell;
        if whole > 0 {
            let mut cell = OpenCell::default();
            cell.add(self.blocks_per_cell, &run.frames);
            self.push(cell.run(whole));
        }
        match rest % self.blocks_per_cell {
            0 => {}
            left => self.open.add(left, &run.frames),
        }
    }

    fn close(&mut self) {
        let cell = std::mem::take(&mut self.open);
        if cell.blocks > 0 {
            self.push(cell.run(1));
        }
    }

    fn push(&mut self, run: CellRun) {
        match self.runs.last_mut() {
            Some(last) if CellRun { cells: last.cells, ..run } == *last => last.cells += run.cells,
            _ => self.runs.push(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(parts: &[(FrameClass, u16)]) -> BlockFrames {
        let mut block = BlockFrames::default();
        for &(class, frames) in parts {
            (0..frames).for_each(|_| block.add(class));
        }
        block
    }

    #[test]
    fn cells_show_what_most_of_their_blocks_are() {
        let free = block(&[(FrameClass::Free, 512)]);
        let large = block(&[(FrameClass::Large, 512)]);
        let perforated = block(&[(FrameClass::Perforated, 412), (FrameClass::Free, 100)]);
        let mut map = os::MemoryMap::default();
        for (blocks, frames) in [(5, free), (1, perforated), (1, free), (1, large), (2, large)] {
            map.push(blocks, frames);
        }
        let cells = |most_runs| {
            let cells = picture_of(0, &map, most_runs);
            let class = |run: &CellRun| cells.classes[run.class.expect("a class")].clone();
            let run = |run: &CellRun| (run.cells, class(run), run.free_frames, run.hole_frames);
            (cells.blocks_per_cell, cells.cells.iter().map(run).collect::<Vec<_>>())
        };
        let run = |cells, class: &str, free, holes| (cells, class.to_owned(), free, holes);
        let expected = [
            run(5, "free", 512, 0),
            run(1, "perforated", 100, 100),
            run(1, "free", 512, 0),
            run(3, "large", 0, 0),
        ];
        assert_eq!(cells(4), (1, expected.to_vec()));
        // Cells of two blocks would give four runs, so cells have four: ffff|fpfl|ll. Most blocks
        // of the second cell are free; the last cell has two blocks.
        let expected = [run(1, "free", 2048, 0), run(1, "free", 1124, 100), run(1, "large", 0, 0)];
        assert_eq!(cells(3), (4, expected.to_vec()));
        // One cell of 16 blocks, with 6 free and 3 large blocks.
        assert_eq!(cells(1), (16, vec![run(1, "free", 3172, 100)]));
    }

    /// A map adds only its moment to the map before if both are equal in every part.
    #[test]
    fn equal_maps_are_one() {
        let map_of = |parts: &[(FrameClass, u16)]| {
            let mut map = os::MemoryMap::default();
            map.push(3, block(parts));
            picture_of(0, &map, 9)
        };
        let first = map_of(&[(FrameClass::Large, 512)]);
        let CellRun { cells, class, .. } = first.cells[0];
        let moved = CellRun { cells, class, free_frames: 1, hole_frames: 0, kept_frames: 0 };
        let maps = [
            first.clone(),
            MemoryMap { frames: [("free".to_owned(), 1)].into_iter().collect(), ..first.clone() },
            MemoryMap {
                block_classes: [("free".to_owned(), 3)].into_iter().collect(),
                ..first.clone()
            },
            MemoryMap { cells: vec![moved], ..first.clone() },
            MemoryMap { classes: vec!["free".to_owned()], ..first },
        ];
        for (one, earlier) in maps.iter().enumerate() {
            for (two, later) in maps.iter().enumerate() {
                let mut pictures = vec![earlier.clone()];
                add_picture(&mut pictures, MemoryMap { instructions: vec![7], ..later.clone() });
                let moments: Vec<_> =
                    pictures.iter().map(|picture| picture.instructions.clone()).collect();
                match one == two {
                    true => assert_eq!(moments, [[0, 7]]),
                    false => assert_eq!(moments, [[0], [7]], "{one} and {two}"),
                }
            }
        }
    }

    /// Frames that stay 4KB frames of a block are counted in its cell, and a cell that is not full at the
    /// end is shown.
    #[test]
    fn cells_count_frames_and_the_last_may_be_small() {
        let mixed = block(&[(FrameClass::Perforated, 500), (FrameClass::Free, 12)]);
        let free = block(&[(FrameClass::Free, 512)]);
        let mut map = os::MemoryMap::default();
        map.push(2, mixed);
        map.push(1, free);
        let kept = mixed.kept();
        let picture = picture_of(42, &map, 2);
        assert_eq!((picture.instructions.as_slice(), picture.blocks), (&[42][..], 3));
        assert_eq!((picture.of, picture.blocks_per_cell), (None, 1));
        let runs: Vec<_> = picture.cells.iter().map(|run| (run.cells, run.kept_frames)).collect();
        assert_eq!(runs, [(2, kept), (1, free.kept())]);
        assert_eq!(picture.frames["free"], 2 * 12 + 512);
        assert_eq!(picture.frames.len(), 2);
        assert_eq!(picture.block_classes.values().sum::<u64>(), 3);
        // One cell of four blocks, of which there are three.
        let one = picture_of(0, &map, 1);
        let cell = one.cells[0];
        assert_eq!((one.blocks_per_cell, one.cells.len(), cell.cells), (4, 1, 1));
        assert_eq!((cell.free_frames, cell.hole_frames), (2 * 12 + 512, 2 * mixed.holes()));
        assert_eq!(cell.kept_frames, 2 * kept + free.kept());
    }

    #[test]
    fn touched_memory_is_sampled_at_its_moments() {
        let mut history = touched_history();
        for (instruction, bytes) in [(0, 0), (49_999, 1), (50_000, 2), (99_999, 3), (100_001, 4)] {
            history.add_if_due(instruction, || bytes);
        }
        history.add_last(120_000, 5);
        assert!(history.into_points().eq([(0, 0), (50_000, 2), (100_001, 4), (120_000, 5)]));
    }
}
