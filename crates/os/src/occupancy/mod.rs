//! State of every frame of a real machine's memory. A simulated memory can begin in this state.
//!
//! An [`Occupancy`] has the state of each frame as Linux reported it ([`FrameState`]), 2MB block by
//! 2MB block. Counts would not suffice, because the positions of free frames decide which blocks
//! can become perforated pages. A [`HostSnapshot`] is an occupancy with a description of the
//! machine. `file` is its file format; a [`Survey`](perforate_records::Survey) counts the 2MB pages
//! that it allows.

mod about;
mod builder;
mod file;
mod states;
mod survey;

use std::ops::Range;

use perforate_types::HoleSet;

pub use about::{HostSnapshot, SnapshotAbout};
pub use builder::OccupancyBuilder;
pub use states::FrameState;

use crate::{BlockFrames, Buddy, FreeMemory, MemoryMap, OsError};

/// Number of frames in a 2MB block.
const BLOCK_FRAMES: u64 = 512;

/// States of the 512 frames of a 2MB block, four bits each, lower half of a byte first.
pub(crate) type Packed = [u8; BLOCK_FRAMES as usize / 2];

/// Run of equal neighbouring 2MB blocks: their frames have the same states in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    blocks: u64,
    states: States,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum States {
    Uniform(FrameState),
    /// The frames' states differ; the value is an index into `Occupancy::mixed`.
    Mixed(u32),
}

/// Frames of one zone. Zones do not overlap and are in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneRange {
    /// Name of the zone in Linux: `DMA`, `DMA32`, `Normal`, `Movable`, `Device`.
    pub name: &'static str,
    /// Frames of the zone, including absent ones. The start is a multiple of 1024.
    pub frames: Range<u64>,
}

/// The state of every frame of a memory, in whole 2MB blocks from frame 0. Frames of the last block
/// beyond the end of memory are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    runs: Vec<Run>,
    mixed: Vec<Packed>,
    blocks: u64,
    /// Number of frames in each state, in the whole memory.
    frames: [u64; FrameState::ALL.len()],
}

/// The states of the frames of one 2MB block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockStates<'a> {
    Uniform(FrameState),
    Mixed(&'a Packed),
}

impl BlockStates<'_> {
    /// Indices of the block's frames whose state satisfies `wanted`.
    pub(crate) fn frames(&self, wanted: impl Fn(FrameState) -> bool) -> HoleSet {
        match self {
            Self::Uniform(state) if wanted(*state) => HoleSet::FULL,
            Self::Uniform(_) => HoleSet::EMPTY,
            Self::Mixed(packed) => {
                let wanted = FrameState::ALL.map(wanted);
                let mut words = [0_u64; 8];
                for (index, byte) in packed.iter().enumerate() {
                    let [low, high] = [byte & 15, byte >> 4].map(|code| wanted[usize::from(code)]);
                    let pair = u64::from(low) | u64::from(high) << 1;
                    words[index / 32] |= pair << (index % 32 * 2);
                }
                HoleSet::from_words(words)
            }
        }
    }

    /// State of the frame with this index in the block.
    pub(crate) fn state(&self, index: usize) -> FrameState {
        match self {
            Self::Uniform(state) => *state,
            Self::Mixed(packed) => state_in(packed, index),
        }
    }

    /// New states of the block's frames, four bits each. `new` computes each from the frame's index and
    /// present state.
    fn packed(&self, mut new: impl FnMut(u64, FrameState) -> FrameState) -> Packed {
        let mut packed = [0; BLOCK_FRAMES as usize / 2];
        for (place, byte) in packed.iter_mut().enumerate() {
            let [low, high] =
                [2 * place, 2 * place + 1].map(|index| new(index as u64, self.state(index)) as u8);
            *byte = low | high << 4;
        }
        packed
    }

    fn count(&self) -> BlockFrames {
        match self {
            Self::Uniform(state) => BlockFrames::uniform(state.class(), BLOCK_FRAMES as u16),
            Self::Mixed(packed) => {
                let mut frames = BlockFrames::default();
                (0..BLOCK_FRAMES as usize)
                    .for_each(|index| frames.add(state_in(packed, index).class()));
                frames
            }
        }
    }
}

fn state_in(packed: &Packed, index: usize) -> FrameState {
    let code = packed[index / 2] >> (index % 2 * 4) & 15;
    FrameState::ALL[usize::from(code)]
}

impl Occupancy {
    /// Number of 2MB blocks in the address range of the memory, including blocks without memory.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Number of frames of the whole memory that are in the state.
    pub fn frames(&self, state: FrameState) -> u64 {
        self.frames[state as usize]
    }

    /// Number of frames of the address range with memory (not absent).
    pub fn memory_frames(&self) -> u64 {
        self.blocks * BLOCK_FRAMES - self.frames(FrameState::Absent)
    }

    /// State of the frame with this number; frames beyond the end of memory are absent.
    pub fn state(&self, frame: u64) -> FrameState {
        self.block(frame / BLOCK_FRAMES).state((frame % BLOCK_FRAMES) as usize)
    }

    /// Indices of the frames of a 2MB block whose state satisfies `wanted`.
    pub fn frames_of(&self, block: u64, wanted: impl Fn(FrameState) -> bool) -> HoleSet {
        self.block(block).frames(wanted)
    }

    pub(crate) fn block(&self, number: u64) -> BlockStates<'_> {
        let after = self.runs.partition_point(|run| run.first <= number);
        match after.checked_sub(1).map(|place| &self.runs[place]) {
            Some(run) if number < run.first + run.blocks => self.states(run.states),
            _ => BlockStates::Uniform(FrameState::Absent),
        }
    }

    /// Runs of 2MB blocks with equal states: first block, number of blocks, states.
    pub(crate) fn block_runs(&self) -> impl Iterator<Item = (u64, u64, BlockStates<'_>)> {
        self.runs.iter().map(|run| (run.first, run.blocks, self.states(run.states)))
    }

    fn states(&self, states: States) -> BlockStates<'_> {
        match states {
            States::Uniform(state) => BlockStates::Uniform(state),
            States::Mixed(place) => BlockStates::Mixed(&self.mixed[place as usize]),
        }
    }

    /// Returns a copy of the occupancy in which frames with state `from` have a new state. `to` lists, in
    /// ascending order, runs of 2MB blocks and the new state of such frames in them.
    ///
    /// # Errors
    /// If the runs are not in ascending order.
    pub fn replaced(
        &self,
        from: FrameState,
        to: &[(Range<u64>, FrameState)],
    ) -> Result<Self, OsError> {
        let mut made = OccupancyBuilder::default();
        for (first, blocks, states) in self.block_runs() {
            let (mut start, end) = (first, first + blocks);
            while start < end {
                let next = to.iter().find(|(range, _)| range.end > start);
                let (stop, state) = match next {
                    Some((range, state)) if range.contains(&start) => (range.end, *state),
                    Some((range, _)) => (range.start, from),
                    None => (end, from),
                };
                let stop = stop.clamp(start + 1, end);
                let replaced = states.packed(|_, old| if old == from { state } else { old });
                made.push_states(&replaced, stop - start)?;
                start = stop;
            }
        }
        made.finish()
    }

    /// Runs of frames with memory, in ascending order.
    pub fn present(&self) -> Vec<Range<u64>> {
        let mut present: Vec<Range<u64>> = Vec::new();
        let mut add = |range: Range<u64>| match present.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => present.push(range),
        };
        for (first, blocks, states) in self.block_runs() {
            let with_memory = states.frames(|state| state != FrameState::Absent);
            if with_memory == HoleSet::FULL {
                add(first * BLOCK_FRAMES..(first + blocks) * BLOCK_FRAMES);
            } else if !with_memory.is_empty() {
                for number in first..first + blocks {
                    for index in with_memory.iter() {
                        let frame = number * BLOCK_FRAMES + index as u64;
                        add(frame..frame + 1);
                    }
                }
            }
        }
        present
    }

    /// Map of the memory for reports.
    pub fn memory_map(&self) -> MemoryMap {
        let mut map = MemoryMap::default();
        self.block_runs().for_each(|(_, blocks, states)| map.push(blocks, states.count()));
        map
    }

    /// Number of free blocks of each order, if all neighbouring free frames merge. In Linux they
    /// do, except frames in per-CPU lists, which do not count as free here. Free frames do not
    /// merge across the frames in `breaks`, the starts of zones.
    pub fn free_memory(&self, breaks: &[u64]) -> FreeMemory {
        let mut counts = [0_u64; Buddy::MAX_ORDER as usize + 1];
        let mut run = 0..0;
        for (first, blocks, states) in self.block_runs() {
            let free = states.frames(FrameState::is_free);
            if free.is_empty() {
                continue;
            }
            let mut add = |range: Range<u64>| {
                if run.end == range.start && !breaks.contains(&range.start) {
                    run.end = range.end;
                } else {
                    count_orders(&std::mem::replace(&mut run, range), &mut counts);
                }
            };
            if free == HoleSet::FULL {
                let whole = first * BLOCK_FRAMES..(first + blocks) * BLOCK_FRAMES;
                let inside = |stop: &&u64| whole.start < **stop && **stop < whole.end;
                let mut start = whole.start;
                for &stop in breaks.iter().filter(inside) {
                    add(start..stop);
                    start = stop;
                }
                add(start..whole.end);
                continue;
            }
            for number in first..first + blocks {
                for index in free.iter() {
                    let frame = number * BLOCK_FRAMES + index as u64;
                    add(frame..frame + 1);
                }
            }
        }
        count_orders(&run, &mut counts);
        FreeMemory { blocks: counts }
    }
}

/// Adds to `counts`, by order, the aligned power-of-two blocks into which a run of free frames divides.
fn count_orders(run: &Range<u64>, counts: &mut [u64]) {
    let most = Buddy::MAX_ORDER;
    let mut start = run.start;
    while start < run.end {
        let aligned = start.trailing_zeros().min(most);
        let fits = (run.end - start).ilog2().min(most);
        let order = aligned.min(fits);
        let blocks = if order == most { (run.end - start) >> most } else { 1 };
        counts[order as usize] += blocks;
        start += blocks << order;
    }
}

#[cfg(test)]
mod tests;
