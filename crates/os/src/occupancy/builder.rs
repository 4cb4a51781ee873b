//! Making an occupancy frame by frame, in bounded memory.

use super::{BLOCK_FRAMES, FrameState, Occupancy, Packed, Run, States};
use crate::OsError;

/// Blocks of the largest memory that can be simulated: 46 bits of address.
const MOST_BLOCKS: u64 = 1 << (46 - 21);

/// Collects the states of frames from address 0 upwards.
#[derive(Debug)]
pub struct OccupancyBuilder {
    made: Occupancy,
    open: Packed,
    /// Frames in the open block.
    filled: u64,
    /// The state of all of them, while they are alike.
    alike: Option<FrameState>,
}

impl Default for OccupancyBuilder {
    fn default() -> Self {
        Self {
            made: Occupancy::default(),
            open: [0; BLOCK_FRAMES as usize / 2],
            filled: 0,
            alike: None,
        }
    }
}

impl OccupancyBuilder {
    /// Frames so far.
    pub fn frames(&self) -> u64 {
        self.made.blocks * BLOCK_FRAMES + self.filled
    }

    /// The next frame.
    ///
    /// # Errors
    /// If there are more than any memory has.
    #[inline]
    pub fn push(&mut self, state: FrameState) -> Result<(), OsError> {
        let index = self.filled as usize;
        if index == 0 {
            self.alike = Some(state);
        } else if self.alike != Some(state) {
            self.alike = None;
        }
        let byte = &mut self.open[index / 2];
        *byte = if index.is_multiple_of(2) { state as u8 } else { *byte | (state as u8) << 4 };
        self.filled += 1;
        if self.filled == BLOCK_FRAMES { self.close() } else { Ok(()) }
    }

    /// The next `frames` frames, all alike.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn push_run(&mut self, state: FrameState, frames: u64) -> Result<(), OsError> {
        let mut left = frames;
        while left > 0 && self.filled > 0 {
            self.push(state)?;
            left -= 1;
        }
        self.add(States::Uniform(state), left / BLOCK_FRAMES)?;
        (0..left % BLOCK_FRAMES).try_for_each(|_| self.push(state))
    }

    fn close(&mut self) -> Result<(), OsError> {
        self.filled = 0;
        match self.alike {
            Some(state) => self.add(States::Uniform(state), 1),
            None => {
                let packed = self.open;
                self.push_mixed(&packed, 1)
            }
        }
    }

    /// `blocks` blocks with these states, which may all be the same.
    pub(super) fn push_states(&mut self, packed: &Packed, blocks: u64) -> Result<(), OsError> {
        let first = packed[0];
        match FrameState::of_number(first & 15) {
            Some(state) if first >> 4 == first & 15 && packed.iter().all(|&byte| byte == first) => {
                self.add(States::Uniform(state), blocks)
            }
            _ => self.push_mixed(packed, blocks),
        }
    }

    /// `blocks` blocks with these states.
    pub(super) fn push_mixed(&mut self, packed: &Packed, blocks: u64) -> Result<(), OsError> {
        let last = self.made.runs.last().map(|run| run.states);
        let states = match last {
            Some(known @ States::Mixed(place)) if self.made.mixed[place as usize] == *packed => {
                known
            }
            _ => {
                // Places are below the number of blocks, which has 25 bits.
                self.made.mixed.push(*packed);
                States::Mixed(self.made.mixed.len() as u32 - 1)
            }
        };
        self.add(states, blocks)
    }

    /// Whole blocks at the end.
    pub(super) fn add(&mut self, states: States, blocks: u64) -> Result<(), OsError> {
        let first = self.made.blocks;
        if blocks > MOST_BLOCKS - first {
            return Err(OsError::InvalidSnapshot {
                place: format!("block {first}"),
                problem: "more than 64 TB of addresses".into(),
            });
        }
        if blocks == 0 {
            return Ok(());
        }
        self.made.blocks += blocks;
        match states {
            States::Uniform(state) => self.made.frames[state as usize] += blocks * BLOCK_FRAMES,
            States::Mixed(place) => {
                for byte in &self.made.mixed[place as usize] {
                    self.made.frames[usize::from(byte & 15)] += blocks;
                    self.made.frames[usize::from(byte >> 4)] += blocks;
                }
            }
        }
        match self.made.runs.last_mut() {
            Some(last) if last.states == states => last.blocks += blocks,
            _ => self.made.runs.push(Run { first, blocks, states }),
        }
        Ok(())
    }

    /// The occupancy; what is missing in the last block is absent.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self) -> Result<Occupancy, OsError> {
        while self.filled > 0 {
            self.push(FrameState::Absent)?;
        }
        Ok(self.made)
    }
}
